/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sends frames to processes. */
#include "client_int.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static bool fits(const struct md_clients *clients, const struct md_account *account, size_t bytes)
{
	return account->unread_bytes + bytes <= MD_UNREAD_PER_ACCOUNT && clients->closing.unread_bytes + bytes <= MD_UNREAD_MAX;
}

/* Is there room for more unread data? Sent data counts as unread until the kernel is asked. */
static bool has_memory(struct md_client *client, size_t len)
{
	struct md_account *account = client->account;
	struct md_clients *clients = client->clients;
	size_t bytes = len + MD_UNREAD_EACH;
	uint64_t now_ns;

	if (!account->id)
		return true;
	if (!fits(clients, account, bytes)) {
		now_ns = md_client_now_ns();
		if (now_ns < clients->closing.weigh_ns)
			return false;
		clients->closing.weigh_ns = now_ns + MD_WEIGH_NS;
		md_clients_weigh(clients);
		if (!fits(clients, account, bytes))
			return false;
	}
	account->unread_bytes += bytes;
	clients->closing.unread_bytes += bytes;
	return true;
}

/* Return: 0; -EAGAIN: the socket is full; -ENOBUFS: there may be no more unread data at present; another -errno: the process is gone. */
static int send_packet(struct md_client *client, const uint8_t *bytes, size_t len)
{
	ssize_t n;

	if (!has_memory(client, len))
		return -ENOBUFS;
	do
		n = send(client->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EIO;
}

/*
 * The frames that answer REGISTER come before all others, whatever was lost meanwhile: a process that has read SENDERS
 * drops messages without a host. Each has a packet of its own, because an older process ignores the rest of a packet
 * after a type that it does not know.
 *
 * Return: as send_packet(); not 0: frames are left.
 */
static int announce(struct md_client *client)
{
	static const uint8_t types[] = {MV_FRAME_WELCOME, MV_FRAME_PROBES, MV_FRAME_PACKS, MV_FRAME_SENDERS};
	uint8_t buf[MV_FRAME_MAX_BYTES];
	int err;

	for (size_t i = 0; i < sizeof(types); i++) {
		const struct mv_frame frame = {.type = types[i], .version = MV_CTL_VERSION};

		if (!(client->out.owed & 1u << types[i]))
			continue;
		err = send_packet(client, buf, mv_frame_encode(&frame, buf));
		if (err)
			return err;
		client->out.owed &= ~(1u << types[i]);
	}
	return 0;
}

/* The frames of the client are to be sent at the end of the iteration, or not. */
static void set_waits(struct md_client *client, bool waits)
{
	if (waits && !client->out.waits)
		LIST_INSERT_HEAD(&client->clients->waiting, client, out.waiting);
	else if (!waits && client->out.waits)
		LIST_REMOVE(client, out.waiting);
	client->out.waits = waits;
}

/* Return: false: the event loop cannot tell. */
static bool set_blocked(struct md_client *client, bool blocked)
{
	if (client->out.blocked != blocked &&
	    sd_event_source_set_io_events(client->source, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN) < 0)
		return false;
	client->out.blocked = blocked;
	return true;
}

/* Return: false: not all could be sent; the rest is tried again later. */
static bool flush_client(struct md_client *client)
{
	int err = announce(client);
	bool full;

	if (!err && client->out.len) {
		err = send_packet(client, client->out.bytes, client->out.len);
		err = err == -EAGAIN || err == -ENOBUFS ? err : 0;
	}
	if (!err)
		client->out.len = 0;
	/* A full socket is not tried in each iteration. */
	full = err == -EAGAIN;
	full = set_blocked(client, full) && full;
	set_waits(client, err && !full);
	return !err;
}

void md_client_on_writable(struct md_client *client)
{
	set_blocked(client, false);
	flush_client(client);
}

void md_clients_flush(struct md_clients *clients)
{
	struct md_client *client = LIST_FIRST(&clients->waiting), *next;

	for (; client; client = next) {
		next = LIST_NEXT(client, out.waiting);
		flush_client(client);
	}
}

void md_client_welcome(struct md_client *client, bool probes)
{
	client->out.owed = 1u << MV_FRAME_WELCOME | 1u << MV_FRAME_PACKS | 1u << MV_FRAME_SENDERS;
	if (probes)
		client->out.owed |= 1u << MV_FRAME_PROBES;
	flush_client(client);
}

bool md_client_put(struct md_client *client, const struct mv_frame *frame)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);

	if (!len || announce(client))
		return false;
	if (!client->out.packs)
		return !send_packet(client, buf, len);
	if (len > MV_PACK_MAX_BYTES - client->out.len && !flush_client(client))
		return false;
	memcpy(client->out.bytes + client->out.len, buf, len);
	client->out.len += len;
	set_waits(client, !client->out.blocked);
	return true;
}

bool md_clients_deliver(struct md_clients *clients, const struct mv_host_id *from, const char *device, uint32_t qpn,
			const uint8_t *data, uint16_t len)
{
	struct mv_frame frame = {.type = MV_FRAME_DELIVER, .qpn = qpn, .len = len};
	struct md_qp_key key = md_qp_key_make(device, qpn);
	struct md_qp *qp = md_qps_find(&clients->qps, &key);
	struct md_client *client = qp && md_clients_confirm(clients, qp) ? md_clients_find(clients, qp->owner) : NULL;

	if (!client)
		return false;
	memcpy(frame.device, key.device, sizeof(frame.device));
	memcpy(frame.payload, data, len);
	if (client->out.senders)
		memcpy(frame.dgid.raw, from->bytes, sizeof(frame.dgid.raw));
	if (md_client_put(client, &frame))
		clients->count.delivered++;
	else
		clients->count.not_delivered++;
	return true;
}

void md_client_unreachable(struct md_client *client, const union ibv_gid *dgid, uint32_t qpn,
			   const uint8_t *data, uint16_t len)
{
	struct mv_frame frame = {
		.type = MV_FRAME_UNREACHABLE, .qpn = qpn, .dgid = *dgid, .len = len};

	memcpy(frame.payload, data, len);
	md_client_put(client, &frame);
}

bool md_clients_path(struct md_clients *clients, uint64_t number, const union ibv_gid *local,
		     const union ibv_gid *remote, enum mv_probed state)
{
	const struct mv_frame frame = {
		.type = MV_FRAME_PATH, .sgid = *local, .dgid = *remote, .probed = (uint8_t)state};
	struct md_client *client = md_clients_find(clients, number);

	return !client || md_client_put(client, &frame);
}

bool md_clients_suspect(struct md_clients *clients, uint64_t number, const union ibv_gid *local, const union ibv_gid *remote)
{
	const struct mv_frame frame = {.type = MV_FRAME_SUSPECT, .sgid = *local, .dgid = *remote};
	struct md_client *client = md_clients_find(clients, number);

	if (!client || !md_client_put(client, &frame))
		return false;
	flush_client(client); /* the last frame of its packet: see MV_FRAME_SUSPECT */
	return true;
}

void md_clients_changed(struct md_clients *clients)
{
	const struct mv_frame changed = {.type = MV_FRAME_CHANGED, .version = MV_CTL_VERSION};
	struct md_client *client, *next;

	HASH_ITER(hh, clients->by_number, client, next) {
		if (client->registered)
			md_client_put(client, &changed);
	}
}
