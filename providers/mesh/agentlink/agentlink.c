// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agentlink.h"
#include "count.h"
#include "waker.h"

bool mesh_agentlink_intact(const struct mesh_agentlink *link)
{
	return mesh_is_socket(link->fd, link->ino);
}

/* A connection has no state of the one before. */
static void clear(struct mesh_agentlink *link)
{
	link->fd = -1;
	link->packs = link->names_senders = link->asks_senders = false;
	link->out_len = link->in_len = link->in_at = 0;
}

void mesh_agentlink_close(struct mesh_agentlink *link)
{
	if (mesh_agentlink_intact(link))
		close(link->fd);
	clear(link);
	mesh_counts_unshare();
}

static int send_packet(const struct mesh_agentlink *link, const uint8_t *bytes, size_t len)
{
	if (!mesh_agentlink_intact(link))
		return -ENOTCONN;
	if (send(link->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len)
		return 0;
	/* The socket's room and the kernel's memory are temporary shortages. */
	return errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -errno;
}

void mesh_agentlink_packs(struct mesh_agentlink *link)
{
	const struct mv_frame packs = {.type = MV_FRAME_PACKS, .version = MV_CTL_VERSION};

	/* If this is lost, the agent goes on with single frames. */
	mesh_agentlink_send(link, &packs);
	link->packs = true;
}

/* A packet of its own: then it needs no room in @out. Return: 0 or -errno. */
static int ask_for_senders(struct mesh_agentlink *link)
{
	const struct mv_frame senders = {.type = MV_FRAME_SENDERS, .version = MV_CTL_VERSION};
	uint8_t buf[MV_FRAME_MAX_BYTES];
	int err = link->asks_senders ? send_packet(link, buf, mv_frame_encode(&senders, buf)) : 0;

	if (!err)
		link->asks_senders = false;
	return err;
}

void mesh_agentlink_senders(struct mesh_agentlink *link)
{
	link->asks_senders = link->names_senders;
	ask_for_senders(link);
}

static int flush(struct mesh_agentlink *link)
{
	int err = link->out_len ? send_packet(link, link->out, link->out_len) : 0;

	if (err != -EAGAIN)
		link->out_len = 0;
	return err;
}

int mesh_agentlink_flush(struct mesh_agentlink *link)
{
	int err = ask_for_senders(link);

	return err == -EAGAIN ? err : flush(link);
}

int mesh_agentlink_send(struct mesh_agentlink *link, const struct mv_frame *frame)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);
	int err;

	if (!link->packs)
		return send_packet(link, buf, len);
	if (len > sizeof(link->out) - link->out_len) {
		err = flush(link);
		if (err)
			return err;
	}
	memcpy(link->out + link->out_len, buf, len);
	link->out_len += len;
	return 0;
}

/* Receive a packet. Return: as mesh_agentlink_recv(). */
static int receive(struct mesh_agentlink *link)
{
	ssize_t len;

	if (!mesh_agentlink_intact(link))
		return -ECONNRESET;
	len = recv(link->fd, link->in, sizeof(link->in), MSG_DONTWAIT);
	if (len == 0)
		return -ECONNRESET;
	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -ECONNRESET;
	link->in_len = (size_t)len;
	link->in_at = 0;
	return 0;
}

static bool names_no_host(const struct mv_frame *frame)
{
	return frame->type == MV_FRAME_DELIVER && mv_gid_is_zero(&frame->dgid);
}

int mesh_agentlink_recv(struct mesh_agentlink *link, struct mv_frame *ret)
{
	int err = mesh_agentlink_has(link) ? 0 : receive(link);
	size_t used = 0;

	if (err)
		return err;
	err = mv_frame_take(link->in + link->in_at, link->in_len - link->in_at, &used, ret);
	/* The end of a malformed frame is not known: drop the packet. */
	link->in_at = err ? link->in_len : link->in_at + used;
	if (!err && ret->type == MV_FRAME_SENDERS && ret->version == MV_CTL_VERSION)
		link->names_senders = true;
	return !err && link->names_senders && names_no_host(ret) ? -EBADMSG : err;
}

/* Send buffer: some frames for each of a thousand queue pairs that move at once. */
#define ROOM_BYTES (4 << 20)

/* Send REGISTER, with the page of counters if there is one. */
static int register_process(int fd)
{
	struct mv_frame hello = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION};
	uint8_t buf[MV_FRAME_MAX_BYTES];
	struct iovec data = {.iov_base = buf};
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &data, .msg_iovlen = 1};
	struct cmsghdr *cmsg;
	int page_fd = mesh_counts_share(), err;

	hello.len = (uint16_t)snprintf((char *)hello.payload, sizeof(hello.payload), "%s", program_invocation_short_name);
	data.iov_len = mv_frame_encode(&hello, buf);
	if (page_fd >= 0) {
		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &page_fd, sizeof(int));
	}
	err = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)data.iov_len ? 0 : -errno;
	if (page_fd >= 0)
		close(page_fd);
	return err;
}

int mesh_agentlink_connect(const char *run_dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, err;

	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/agent", run_dir) >=
	    sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int mesh_agentlink_open(struct mesh_agentlink *link, const char *run_dir)
{
	const int room = ROOM_BYTES;
	struct stat st;
	int fd, err;

	clear(link);
	fd = mesh_agentlink_connect(run_dir);
	if (fd < 0)
		return fd;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)); /* or the most that the kernel allows */
	if (fstat(fd, &st)) {
		err = -errno;
		close(fd);
		return err;
	}
	link->fd = fd;
	link->ino = st.st_ino;
	err = register_process(fd);
	if (err)
		mesh_agentlink_close(link);
	return err;
}
