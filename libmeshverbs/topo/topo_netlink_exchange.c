/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One rtnetlink request and its answer. topo_netlink_parse.c parses the messages. */
#include "topo_netlink_exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <linux/rtnetlink.h>

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

/* Largest part of a dump that kernels send; the buffer grows for longer ones. */
#define BUF_BYTES     (32 * 1024)
#define BUF_MAX_BYTES (1024 * 1024)

/* The kernel answers at once. The timeout keeps the program alive if it does not. */
static const struct timeval answer_timeout = {.tv_sec = 2};

int mv_netlink_socket(uint32_t groups, uint64_t *ret_ino)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int on = 1, err;
	struct stat st;

	if (fd < 0)
		return -errno;
	/* Older kernels do not have the option, and ignore unknown fields of a request. */
	setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &answer_timeout, sizeof(answer_timeout));
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || fstat(fd, &st)) {
		err = -errno;
		close(fd);
		return err;
	}
	*ret_ino = st.st_ino;
	return fd;
}

bool mv_netlink_socket_is(int fd, uint64_t ino)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && S_ISSOCK(st.st_mode) && st.st_ino == ino;
}

void mv_netlink_socket_close(int *fd, uint64_t ino)
{
	if (mv_netlink_socket_is(*fd, ino))
		close(*fd);
	*fd = -1;
}

/* State of a request. */
struct exchange {
	struct mv_topo *topo;
	uint32_t seq, port_id;
	bool done;
	bool interrupted; /* NLM_F_DUMP_INTR: the dump mixes old and new */
	bool cloned; /* a route cache entry came, so the kernel does not know RTM_F_FIB_MATCH */
	char *buf;
	size_t buf_size;
};

static int send_request(int fd, const struct nlmsghdr *request)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	ssize_t n;

	do
		n = sendto(fd, request, request->nlmsg_len, 0, (const struct sockaddr *)&kernel,
			   sizeof(kernel));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static int grow_buf(struct exchange *exchange, size_t size)
{
	char *grown;

	if (size <= exchange->buf_size)
		return 0;
	if (size > BUF_MAX_BYTES)
		return -EBADMSG;
	grown = realloc(exchange->buf, size);
	if (!grown)
		return -ENOMEM;
	exchange->buf = grown;
	exchange->buf_size = size;
	return 0;
}

/* Return: length of a datagram; 0: not from the kernel; -errno. */
static ssize_t receive(int fd, struct exchange *exchange)
{
	struct sockaddr_nl from = {0};
	struct iovec iov;
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;
	int err;

	do
		n = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	err = grow_buf(exchange, (size_t)n);
	if (err)
		return err;

	iov = (struct iovec){exchange->buf, exchange->buf_size};
	do
		n = recvmsg(fd, &msg, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (msg.msg_flags & MSG_TRUNC)
		return -EBADMSG;
	/* Any process may send to a netlink socket; port id 0 is the kernel. */
	return msg.msg_namelen == sizeof(from) && !from.nl_pid ? n : 0;
}

/* Handles one message of a datagram, if it belongs to the request. */
static int take_message(struct exchange *exchange, const struct nlmsghdr *header,
			const char *message)
{
	struct rtmsg route;

	/* Late answer to a request that was given up. */
	if (header->nlmsg_seq != exchange->seq || header->nlmsg_pid != exchange->port_id)
		return 0;
	if (header->nlmsg_flags & NLM_F_DUMP_INTR)
		exchange->interrupted = true;
	if (header->nlmsg_type == RTM_NEWROUTE &&
	    header->nlmsg_len >= NLMSG_LENGTH(sizeof(route))) {
		memcpy(&route, message + NLMSG_HDRLEN, sizeof(route));
		if (route.rtm_flags & RTM_F_CLONED)
			exchange->cloned = true;
	}
	return mv_netlink_parse(exchange->topo, message, header->nlmsg_len, &exchange->done);
}

static int take_datagram(struct exchange *exchange, size_t len)
{
	size_t pos = 0;

	while (pos < len && !exchange->done) {
		struct nlmsghdr header;
		int err;

		if (len - pos < sizeof(header))
			return -EBADMSG;
		memcpy(&header, exchange->buf + pos, sizeof(header));
		if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > len - pos)
			return -EBADMSG;
		err = take_message(exchange, &header, exchange->buf + pos);
		if (err)
			return err;
		pos += NLMSG_ALIGN((size_t)header.nlmsg_len);
	}
	return 0;
}

static int receive_answer(int fd, struct exchange *exchange)
{
	while (!exchange->done) {
		ssize_t n = receive(fd, exchange);
		int err;

		if (n < 0)
			return (int)n;
		err = take_datagram(exchange, (size_t)n);
		if (err)
			return err;
	}
	return 0;
}

int mv_netlink_exchange(struct mv_netlink *nl, struct mv_topo *topo, struct nlmsghdr *request,
			bool *ret_answered)
{
	struct exchange exchange = {.topo = topo};
	struct sockaddr_nl self = {0};
	socklen_t self_len = sizeof(self);
	int err;

	*ret_answered = false;
	if (nl->request_fd < 0)
		nl->request_fd = mv_netlink_socket(0, &nl->request_ino);
	if (nl->request_fd < 0)
		return nl->request_fd;
	if (getsockname(nl->request_fd, (struct sockaddr *)&self, &self_len))
		return -errno;
	exchange.seq = ++nl->seq;
	exchange.port_id = self.nl_pid;
	request->nlmsg_seq = exchange.seq;

	err = grow_buf(&exchange, BUF_BYTES);
	if (err)
		return err;
	err = send_request(nl->request_fd, request);
	if (!err)
		err = receive_answer(nl->request_fd, &exchange);
	free(exchange.buf);
	/* A partly read answer would make the next dump fail (EBUSY): use a new socket. */
	if (!exchange.done)
		mv_netlink_socket_close(&nl->request_fd, nl->request_ino);
	*ret_answered = exchange.done;
	if (!err && exchange.interrupted)
		return -EINTR;
	if (!err && exchange.cloned)
		return -EOPNOTSUPP;
	return err;
}
