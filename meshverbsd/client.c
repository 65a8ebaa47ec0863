/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections of processes: who may have one, and what comes in on it. */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "say.h"

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * MD_S + (uint64_t)now.tv_nsec;
}

struct md_client *md_clients_find(const struct md_clients *clients, uint64_t number)
{
	struct md_client *client;

	HASH_FIND(hh, clients->by_number, &number, sizeof(number), client);
	return client;
}

void md_clients_counts(const struct md_clients *clients, uint64_t *ret)
{
	const struct md_client *client, *next;

	memcpy(ret, clients->counts.ended, sizeof(clients->counts.ended));
	HASH_ITER(hh, clients->by_number, client, next)
	md_counts_add(ret, client->page);
}

/* ---- the end of a connection ----------------------------------------------------------------- */

static void uncount_client(struct md_clients *clients, uid_t uid, bool strays)
{
	struct md_uid_count *count = md_qps_uid(&clients->qps, uid);

	if (!count)
		return; /* cannot be: it was counted */
	count->n_clients--;
	if (strays)
		count->n_strays--;
	md_qps_uid_put(&clients->qps, count);
}

/* In the closer's thread. */
static void close_all(struct md_errand *errand)
{
	struct md_client *client = md_errand_of(errand, struct md_client, leaving);

	for (size_t i = 0; i < client->n_strays; i++)
		close(client->strays[i]);
	close(client->fd);
}

/* His other processes are read again. */
static void resume(struct md_clients *clients, uid_t uid)
{
	struct md_client *client, *next;

	HASH_ITER(hh, clients->by_number, client, next) {
		if (client->uid == uid)
			sd_event_source_set_enabled(client->source, SD_EVENT_ON);
	}
}

static void on_closed(struct md_errand *errand)
{
	struct md_client *client = md_errand_of(errand, struct md_client, leaving);
	struct md_clients *clients = client->clients;

	LIST_REMOVE(client, of_leaving);
	clients->n_leaving--;
	if (!client->number)
		clients->n_refused--;
	else
		uncount_client(clients, client->uid, client->n_strays);
	if (client->n_strays)
		resume(clients, client->uid);
	if (clients->full && clients->n_refused < MD_REFUSED_MAX) {
		clients->full = false;
		sd_event_source_set_enabled(clients->source, SD_EVENT_ON);
	}
	free(client);
}

/* The process is told at once, and what it may have sent with descriptors is closed by and by. */
static void leave(struct md_client *client)
{
	struct md_clients *clients = client->clients;
	struct md_uid_count *count = client->n_strays ? md_qps_uid(&clients->qps, client->uid) : NULL;

	if (count)
		count->n_strays++;
	shutdown(client->fd, SHUT_RDWR);
	client->leaving = (struct md_errand){.run = close_all, .done = on_closed};
	LIST_INSERT_HEAD(&clients->leaving, client, of_leaving);
	clients->n_leaving++;
	md_errands_give(&clients->closer, &client->leaving);
}

/* Its owner has it no more. Who was refused because of that, of which a process is not told, has it from now on. */
static void let_go(struct md_clients *clients, const struct md_qp *qp)
{
	struct md_client *next = md_clients_find(clients, qp->waiter);
	const struct md_qp_key key = qp->key;
	uint8_t type = qp->waiter_type;

	md_qps_unclaim(&clients->qps, &key, qp->owner);
	if (next && !md_qps_claim(&clients->qps, &key, type, next->number, next->uid, &next->qps))
		clients->count.claims++;
}

static void close_client(struct md_client *client)
{
	struct md_clients *clients = client->clients;
	struct md_qp *qp;

	clients->ops->gone(clients->arg, client);
	while ((qp = LIST_FIRST(&client->qps)))
		let_go(clients, qp);
	md_counts_end(&clients->counts, client->page);
	HASH_DEL(clients->by_number, client);
	clients->n--;
	client->source = sd_event_source_disable_unref(client->source);
	if (client->waits)
		LIST_REMOVE(client, waiting);
	if (client->rest)
		TAILQ_REMOVE(&clients->asking, client, asking);
	free(client->rest);
	free(client->out);
	if (!client->ended) {
		leave(client);
		return;
	}
	close(client->fd);
	uncount_client(clients, client->uid, false);
	free(client);
}

/* ---- frames to a process --------------------------------------------------------------------- */

/* Return: 0 or -errno. */
static int send_packet(struct md_client *client, const uint8_t *bytes, size_t len)
{
	ssize_t n;

	do
		n = send(client->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EIO;
}

/* Return: false when they have to wait for room in its socket. */
static bool flush_client(struct md_client *client)
{
	if (client->out_len && send_packet(client, client->out, client->out_len) == -EAGAIN)
		return false;
	client->out_len = 0;
	if (client->waits)
		LIST_REMOVE(client, waiting);
	client->waits = false;
	return true;
}

void md_clients_flush(struct md_clients *clients)
{
	struct md_client *client = LIST_FIRST(&clients->waiting), *next;

	for (; client; client = next) {
		next = LIST_NEXT(client, waiting);
		flush_client(client);
	}
}

/*
 * One that does not read its socket loses messages; one that is gone shows by its hang-up.
 *
 * Return: whether it was sent, or will be.
 */
static bool put_frame(struct md_client *client, const struct mv_frame *frame)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);

	if (!len)
		return false;
	if (!client->packs)
		return !send_packet(client, buf, len);
	if (len > MV_PACK_MAX_BYTES - client->out_len && !flush_client(client))
		return false;
	memcpy(client->out + client->out_len, buf, len);
	client->out_len += len;
	if (!client->waits)
		LIST_INSERT_HEAD(&client->clients->waiting, client, waiting);
	client->waits = true;
	return true;
}

bool md_clients_deliver(struct md_clients *clients, const char *device, uint32_t qpn,
			const uint8_t *data, uint16_t len)
{
	struct mv_frame frame = {.type = MV_FRAME_DELIVER, .qpn = qpn, .len = len};
	struct md_qp_key key = md_qp_key_make(device, qpn);
	struct md_qp *qp = md_qps_find(&clients->qps, &key);
	struct md_client *client = qp ? md_clients_find(clients, qp->owner) : NULL;

	if (!client)
		return false;
	memcpy(frame.device, key.device, sizeof(frame.device));
	memcpy(frame.payload, data, len);
	if (put_frame(client, &frame))
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
	put_frame(client, &frame);
}

bool md_clients_path(struct md_clients *clients, uint64_t number, const union ibv_gid *local,
		     const union ibv_gid *remote, enum mv_probed state)
{
	const struct mv_frame frame = {
		.type = MV_FRAME_PATH, .sgid = *local, .dgid = *remote, .probed = (uint8_t)state};
	struct md_client *client = md_clients_find(clients, number);

	return !client || put_frame(client, &frame);
}

void md_clients_changed(struct md_clients *clients)
{
	const struct mv_frame changed = {.type = MV_FRAME_CHANGED, .version = MV_CTL_VERSION};
	struct md_client *client, *next;

	HASH_ITER(hh, clients->by_number, client, next) {
		if (client->registered)
			put_frame(client, &changed);
	}
}

/* ---- frames from a process ------------------------------------------------------------------- */

static int on_register(struct md_client *client, const struct mv_frame *frame)
{
	const struct mv_frame welcome = {.type = MV_FRAME_WELCOME, .version = MV_CTL_VERSION};
	const struct mv_frame probes = {.type = MV_FRAME_PROBES, .version = MV_CTL_VERSION};
	const struct mv_frame packs = {.type = MV_FRAME_PACKS, .version = MV_CTL_VERSION};
	size_t len = frame->len < sizeof(client->name) ? frame->len : sizeof(client->name) - 1;

	memset(client->name, 0, sizeof(client->name));
	memcpy(client->name, frame->payload, len);
	/* The codec lets UTF-8 pass; what goes into tables and logs is ASCII. */
	for (size_t i = 0; i < len; i++)
		if (client->name[i] < ' ' || client->name[i] > '~')
			client->name[i] = '?';
	put_frame(client, &welcome);
	if (frame->version != MV_CTL_VERSION)
		return -EPROTONOSUPPORT;
	client->registered = true;
	if (client->clients->ops->probes && client->clients->ops->probes(client->clients->arg))
		put_frame(client, &probes);
	put_frame(client, &packs);
	return 0;
}

/* Without memory it gets them one by one. */
static void on_packs(struct md_client *client)
{
	if (!client->out)
		client->out = malloc(MV_PACK_MAX_BYTES);
	client->packs = client->out;
}

/*
 * May the kernel's answer end a claim? Its queue pair may be gone, and the number another process's: one that ends gives back its
 * queue pairs seconds before its connection to us, if much memory is to be deregistered, and an UNCLAIM may be lost.
 * Connections of one pid the answer cannot tell apart: one may have been passed on when its process ended, and the pid be another
 * process's by now. So it counts among those of one user only.
 */
static bool can_be_stale(const struct md_client *claimant, const struct md_qp *qp)
{
	const struct md_client *holder = md_clients_find(claimant->clients, qp->owner);

	return holder && (!claimant->pid || holder->pid != claimant->pid || holder->uid == claimant->uid);
}

/*
 * @held: by whom, if another connection has it
 *
 * Return: 0, or why that process may not have that QP; -EBUSY: because it is held, and nobody says whose it is.
 */
static int check_owner(struct md_client *client, const struct mv_frame *frame, const struct md_qp *held)
{
	struct md_clients *clients = client->clients;
	pid_t owner;

	if (held && !can_be_stale(client, held))
		return -EPERM;
	if (clients->n_questions)
		clients->n_questions--;
	owner = md_resqp_owner(&clients->resqp, frame->device, frame->qpn, now_ns());
	if (owner < 0)
		return -ENOENT;
	if (client->pid && owner && md_resqp_is_of(&clients->resqp, owner, client->pid))
		return 0;
	if (held)
		return owner ? -EPERM : -EBUSY;
	/* A pid of another namespace cannot be compared, and the first claim counts. */
	return owner && client->pid ? -EPERM : 0;
}

/* What is his, or cannot be, needs no question. */
static bool has_to_wait(const struct md_client *client, const struct mv_frame *frame)
{
	const struct md_clients *clients = client->clients;
	const struct md_qp *qp;
	struct md_qp_key key;

	if (frame->type != MV_FRAME_CLAIM || !client->registered || clients->resqp.fd < 0 || clients->n_questions)
		return false;
	key = md_qp_key_make(frame->device, frame->qpn);
	qp = md_qps_find(&clients->qps, &key);
	return !qp || (qp->owner != client->number && can_be_stale(client, qp));
}

static void on_claim(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	struct md_qp_key key = md_qp_key_make(frame->device, frame->qpn);
	struct md_qp *qp = md_qps_find(&clients->qps, &key);
	struct md_qp *held = qp && qp->owner != client->number ? qp : NULL;
	int err = qp && !held ? 0 : check_owner(client, frame, held);

	if (held && err == -EBUSY && !md_clients_find(clients, held->waiter)) {
		held->waiter = client->number;
		held->waiter_type = frame->qp_type;
	}
	if (!err && held) {
		md_say(MD_DEBUG, "QP %u of %s is process %d's (%s) now", frame->qpn, frame->device, (int)client->pid,
		       client->name);
		md_qps_unclaim(&clients->qps, &key, held->owner);
	}
	if (!err)
		err = md_qps_claim(&clients->qps, &key, frame->qp_type, client->number, client->uid,
				   &client->qps);
	if (err) {
		clients->count.claims_refused++;
		md_say(MD_DEBUG, "process %d (%s) may not have QP %u of %s: %s", (int)client->pid,
		       client->name, frame->qpn, frame->device, md_strerror(err));
		return;
	}
	clients->count.claims++;
}

static void on_unclaim(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	struct md_qp_key key = md_qp_key_make(frame->device, frame->qpn);
	struct md_qp *qp = md_qps_find(&clients->qps, &key);

	if (qp && qp->owner == client->number)
		let_go(clients, qp);
	else if (qp && qp->waiter == client->number)
		qp->waiter = 0;
}

/* Does the message come from a QP of this process? */
static bool is_its_own(struct md_client *client, const struct mv_ctl_end *from)
{
	const struct md_clients *clients = client->clients;
	const char *devices[MD_RAILS_MAX];
	size_t n = clients->ops->devices(clients->arg, &from->gid, devices, MD_RAILS_MAX);

	for (size_t i = 0; i < n; i++) {
		struct md_qp_key key = md_qp_key_make(devices[i], from->qpn);
		struct md_qp *qp = md_qps_find(&clients->qps, &key);

		if (qp && qp->owner == client->number)
			return true;
	}
	return false;
}

static void on_send(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	struct mv_ctl_msg msg;
	int err;

	clients->count.sends++;
	if (mv_ctl_decode(frame->payload, frame->len, &msg)) {
		clients->count.malformed++;
		return;
	}
	if (!is_its_own(client, &msg.from)) {
		clients->count.not_its_own++;
		return;
	}
	err = client->n_parcels < MD_PARCELS_PER_CLIENT
		      ? clients->ops->send(clients->arg, client, &frame->dgid, &msg, frame->payload,
					   frame->len)
		      : -ENOSPC;
	if (err)
		md_say(MD_DEBUG, "a message of process %d (%s) is lost: %s", (int)client->pid,
		       client->name, md_strerror(err));
}

static void on_status(struct md_client *client, const struct mv_frame *frame)
{
	struct md_qp_key key = md_qp_key_make(frame->device, frame->qpn);

	/* It goes into answers as it is. */
	if (!md_control_is_object((const char *)frame->payload, frame->len)) {
		client->clients->count.malformed++;
		return;
	}
	md_qps_status(&client->clients->qps, &key, client->number, frame->payload, frame->len);
}

/* One that must not be watched is never heard of, as if it did not answer. */
static void on_watch(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	int err = clients->ops->watch(clients->arg, client, &frame->sgid, &frame->dgid, frame->watch);

	if (!err)
		return;
	clients->count.watches_refused++;
	md_say(MD_DEBUG, "a path of process %d (%s) is not watched: %s", (int)client->pid, client->name,
	       md_strerror(err));
}

/* Return: 0; -errno when the connection is of no use. */
static int on_frame(struct md_client *client, const struct mv_frame *frame)
{
	client->clients->count.frames++;
	if (frame->type == MV_FRAME_REGISTER)
		return on_register(client, frame);
	if (!client->registered)
		return -EPROTO;
	switch (frame->type) {
	case MV_FRAME_CLAIM:
		on_claim(client, frame);
		return 0;
	case MV_FRAME_UNCLAIM:
		on_unclaim(client, frame);
		return 0;
	case MV_FRAME_SEND:
		on_send(client, frame);
		return 0;
	case MV_FRAME_STATUS:
		on_status(client, frame);
		return 0;
	case MV_FRAME_WATCH:
		on_watch(client, frame);
		return 0;
	case MV_FRAME_PACKS:
		on_packs(client);
		return 0;
	}
	return -EPROTO;
}

/* Return: 0; -ENODATA when it is no packet: there will be none any more. */
static int take_descriptors(struct md_client *client, struct msghdr *msg)
{
	struct cmsghdr *cmsg;
	int err = -ENODATA;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET)
			continue;
		if (cmsg->cmsg_type == SCM_CREDENTIALS)
			err = 0;
		if (cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		client->n_strays = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(client->strays, CMSG_DATA(cmsg), client->n_strays * sizeof(int));
	}
	return err;
}

/* With what a process counts, once. Return: 0; -EBADF: it sends what nobody wants. */
static int take_page(struct md_client *client)
{
	if (!client->n_strays)
		return 0;
	if (client->n_strays > 1 || client->page || md_counts_map(client->strays[0], &client->page))
		return -EBADF;
	client->n_strays = 0;
	return 0;
}

/* Return: -EINPROGRESS; -ENOMEM. */
static int keep_rest(struct md_client *client, const uint8_t *buf, size_t len)
{
	struct md_clients *clients = client->clients;

	client->rest = malloc(len);
	if (!client->rest)
		return -ENOMEM;
	memcpy(client->rest, buf, len);
	client->rest_len = len;
	TAILQ_INSERT_TAIL(&clients->asking, client, asking);
	sd_event_source_set_enabled(client->source, SD_EVENT_OFF);
	sd_event_source_set_enabled(clients->turn, SD_EVENT_ONESHOT);
	return -EINPROGRESS;
}

/* Frames of one packet. Return: as take_packet(). */
static int take_frames(struct md_client *client, const uint8_t *buf, size_t len, unsigned int *n_frames)
{
	struct mv_frame frame;
	size_t used;
	int err = 0;

	for (; len && !err; buf += used, len -= used) {
		if (mv_frame_take(buf, len, &used, &frame)) {
			client->clients->count.malformed++;
			return -EBADMSG;
		}
		if (has_to_wait(client, &frame))
			return keep_rest(client, buf, len);
		(*n_frames)++;
		err = on_frame(client, &frame);
	}
	return err;
}

/* Return: 0 to go on; -EAGAIN: nothing more for now; -EINPROGRESS: there is a rest; another -errno: close. */
static int take_packet(struct md_client *client, unsigned int *n_frames)
{
	uint8_t buf[MV_PACK_MAX_BYTES + 1]; /* one more, so that longer ones show */
	struct iovec data = {.iov_base = buf, .iov_len = sizeof(buf)};
	/* For all descriptors there may be: the kernel would close the rest, here. */
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(client->strays))];
	} control;
	struct msghdr msg = {.msg_iov = &data,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf)};
	ssize_t n = recvmsg(client->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EINTR || errno == ECONNRESET ? 0 : -errno; /* one that left something unread: go on to the end */
	client->ended = take_descriptors(client, &msg) && !n;
	if (client->ended)
		return -ESHUTDOWN;
	if (take_page(client))
		return -EBADF;
	if (!n || n > MV_PACK_MAX_BYTES) {
		client->clients->count.malformed++;
		return -EBADMSG;
	}
	return take_frames(client, buf, (size_t)n, n_frames);
}

static void end_of_turn(struct md_client *client, int rc)
{
	if (!rc || rc == -EAGAIN || rc == -EINPROGRESS)
		return;
	if (rc != -ESHUTDOWN)
		md_say(MD_NOTICE, "connection of process %d (%s) closed: %s", (int)client->pid, client->name,
		       md_strerror(rc));
	close_client(client);
}

/* The next one in the queue may ask. */
static int on_turn(sd_event_source *source, uint64_t usec, void *arg)
{
	struct md_clients *clients = arg;
	struct md_client *client = TAILQ_FIRST(&clients->asking);
	unsigned int n_frames = 0;
	uint8_t *rest;
	int rc;

	(void)usec;
	if (!client)
		return 0;
	TAILQ_REMOVE(&clients->asking, client, asking);
	rest = client->rest;
	client->rest = NULL;
	clients->n_questions = MD_QUESTIONS_PER_TURN;
	sd_event_source_set_enabled(client->source, SD_EVENT_ON);
	rc = take_frames(client, rest, client->rest_len, &n_frames);
	clients->n_questions = 0;
	free(rest);
	if (!TAILQ_EMPTY(&clients->asking))
		sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	end_of_turn(client, rc);
	return 0;
}

static int on_readable(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct md_client *client = arg;
	struct md_uid_count *count = md_qps_uid(&client->clients->qps, client->uid);
	unsigned int n_frames = 0;
	int rc = 0;

	if (client->rest || (count && count->n_strays)) {
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
		return 0;
	}
	(void)fd;
	(void)revents;
	while (n_frames < MD_FRAMES_PER_TURN && !rc)
		rc = take_packet(client, &n_frames);
	end_of_turn(client, rc);
	return 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static int count_client(struct md_clients *clients, uid_t uid)
{
	struct md_uid_count *count;

	if (clients->n + clients->n_leaving - clients->n_refused >= clients->max)
		return -EUSERS;
	count = md_qps_uid(&clients->qps, uid);
	if (!count)
		return -ENOMEM;
	if (uid && count->n_clients >= MD_CLIENTS_PER_UID) {
		md_qps_uid_put(&clients->qps, count);
		return -EUSERS;
	}
	count->n_clients++;
	return 0;
}

static int add_client(struct md_clients *clients, int fd, const struct ucred *cred)
{
	struct md_client *client = calloc(1, sizeof(*client));
	const int on = 1;
	int err;

	if (!client)
		return -ENOMEM;
	client->clients = clients;
	client->number = ++clients->next_number;
	client->fd = fd;
	client->pid = cred->pid;
	client->uid = cred->uid;
	client->begun_ns = now_ns();
	LIST_INIT(&client->qps);
	LIST_INIT(&client->watches);
	/* For each packet comes with them, but not the end: an empty packet is none. */
	err = setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ? -errno : 0;
	if (!err)
		err = sd_event_add_io(clients->event, &client->source, fd, EPOLLIN, on_readable, client);
	if (err < 0) {
		free(client);
		return err;
	}
	HASH_ADD(hh, clients->by_number, number, sizeof(client->number), client);
	if (!client->hh.tbl) {
		sd_event_source_disable_unref(client->source);
		free(client);
		return -ENOMEM;
	}
	clients->n++;
	clients->count.connected++;
	return 0;
}

/* Something may be in it already. */
static void refuse(struct md_clients *clients, int fd)
{
	struct md_client *client = calloc(1, sizeof(*client));

	clients->count.refused++;
	if (!client) {
		close(fd);
		return;
	}
	client->clients = clients;
	client->fd = fd;
	clients->n_refused++;
	leave(client);
	if (clients->n_refused < MD_REFUSED_MAX)
		return;
	clients->full = true;
	sd_event_source_set_enabled(clients->source, SD_EVENT_OFF);
}

int md_clients_adopt(struct md_clients *clients, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int err;

	err = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ? -errno : 0;
	if (!err)
		err = count_client(clients, cred.uid);
	if (!err) {
		err = add_client(clients, fd, &cred);
		if (err)
			uncount_client(clients, cred.uid, false);
	}
	if (err)
		refuse(clients, fd);
	return err;
}

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct md_clients *clients = arg;
	const int room = MD_CLIENT_SOCKET_BYTES;
	int err;

	(void)source;
	(void)revents;
	fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return 0;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)); /* or what the kernel allows */
	err = md_clients_adopt(clients, fd);
	if (err)
		md_say(MD_DEBUG, "a process is refused: %s", md_strerror(err));
	return 0;
}

int md_clients_start(struct md_clients *clients, int listen_fd)
{
	int err;

	clients->listen_fd = listen_fd;
	md_resqp_open(&clients->resqp);
	TAILQ_INIT(&clients->asking);
	err = md_errands_start(&clients->closer, clients->event);
	if (!err)
		err = sd_event_add_time(clients->event, &clients->turn, CLOCK_MONOTONIC, 0, 1, on_turn, clients);
	if (err < 0)
		return err;
	sd_event_source_set_enabled(clients->turn, SD_EVENT_OFF);
	err = sd_event_add_io(clients->event, &clients->source, listen_fd, EPOLLIN, on_connection,
			      clients);
	return err < 0 ? err : 0;
}

bool md_clients_stop(struct md_clients *clients)
{
	struct md_client *client, *next;
	bool closed;

	HASH_ITER(hh, clients->by_number, client, next)
	close_client(client);
	clients->source = sd_event_source_disable_unref(clients->source);
	clients->turn = sd_event_source_disable_unref(clients->turn);
	if (clients->listen_fd >= 0)
		close(clients->listen_fd);
	clients->listen_fd = -1;
	md_resqp_close(&clients->resqp);
	md_qps_fini(&clients->qps);
	closed = md_errands_stop(&clients->closer);
	for (client = LIST_FIRST(&clients->leaving); closed && client; client = next) {
		next = LIST_NEXT(client, of_leaving);
		free(client);
	}
	return closed;
}
