/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "resqpkernel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_netlink.h>

#include "fault.h"

void put_attr(struct message *message, uint16_t type, const void *value, uint16_t len)
{
	struct nlattr attr = {.nla_len = (uint16_t)(sizeof(attr) + len), .nla_type = type};
	char *at = (char *)message + message->head.nlmsg_len;

	memcpy(at, &attr, sizeof(attr));
	memcpy(at + sizeof(attr), value, len);
	message->head.nlmsg_len += (uint32_t)NLA_ALIGN(attr.nla_len);
}

struct message a_message(int op)
{
	return (struct message){
		.head = {.nlmsg_len = sizeof(struct nlmsghdr),
			 .nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op)}};
}

#define ORPHANS_PD  31
#define ORPHANS_CTX 32
pid_t thread_id;
pid_t given_away;
bool broken;
static int kernel_fd = -1, kernel_end = -1;
unsigned int n_dumps, n_questions;

ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);

static void answer(const struct message *message)
{
	assert_int_equal(__real_send(kernel_end, message, message->head.nlmsg_len, 0), message->head.nlmsg_len);
}

static void answer_error(int err)
{
	struct message error = {.head = {.nlmsg_len = sizeof(struct nlmsghdr) + sizeof(err), .nlmsg_type = NLMSG_ERROR}};

	memcpy(error.body, &err, sizeof(err));
	answer(&error);
}

/* The value of an attribute of a question; 0: not named. */
static uint32_t asked(const char *buf, size_t len, uint16_t type)
{
	struct nlattr attr;
	uint32_t value;

	for (size_t at = sizeof(struct nlmsghdr); at < len; at += NLA_ALIGN(attr.nla_len)) {
		memcpy(&attr, buf + at, sizeof(attr));
		memcpy(&value, buf + at + sizeof(attr), sizeof(value));
		if (attr.nla_type == type)
			return value;
	}
	return 0;
}

static void answer_devices(void)
{
	struct message device = a_message(RDMA_NLDEV_CMD_GET);
	uint32_t index = 3, ports = 2;

	n_dumps++;
	put_attr(&device, RDMA_NLDEV_ATTR_DEV_INDEX, &index, 4);
	put_attr(&device, RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0", 7);
	put_attr(&device, RDMA_NLDEV_ATTR_PORT_INDEX, &ports, 4);
	answer(&device);
	device = (struct message){.head = {.nlmsg_len = sizeof(struct nlmsghdr), .nlmsg_type = NLMSG_DONE}};
	answer(&device);
}

static uint32_t pid_of(uint32_t qpn)
{
	if (given_away)
		return (uint32_t)given_away;
	if (qpn == UNTOLD || qpn == ORPHAN)
		return 0;
	return qpn == ANOTHERS ? ANOTHER_PID : (uint32_t)(qpn == THREADS ? thread_id : getpid());
}

static void answer_qp(uint32_t qpn, uint32_t port)
{
	struct message qp = a_message(RDMA_NLDEV_CMD_RES_QP_GET);
	uint32_t pid = pid_of(qpn), pdn = ORPHANS_PD, at = qpn == NO_PORT ? 0 : qpn == ON_PORT_2 ? 2 : 1;

	n_questions += at == port || !at;
	if (broken) {
		answer_error(-EIO);
		return;
	}
	if (!port || port > 2 || qpn == GONE || at != port) {
		answer_error(!port || port > 2 ? -EINVAL : qpn == GONE ? -ENOENT : -EAGAIN);
		return;
	}
	put_attr(&qp, RDMA_NLDEV_ATTR_RES_LQPN, &qpn, 4);
	if (qpn == ORPHAN)
		put_attr(&qp, RDMA_NLDEV_ATTR_RES_PDN, &pdn, 4);
	if (pid)
		put_attr(&qp, RDMA_NLDEV_ATTR_RES_PID, &pid, 4);
	answer(&qp);
}

/* RDMA_NLDEV_CMD_RES_CTX_GET, which <rdma/rdma_netlink.h> of Debian 11 does not have. */
#define RES_CTX_GET 22

static void answer_parent(bool pd, uint32_t id, uint32_t port)
{
	struct message parent = a_message(pd ? RDMA_NLDEV_CMD_RES_PD_GET : RES_CTX_GET);
	uint32_t pid = (uint32_t)getpid(), ctx = ORPHANS_CTX;

	if (port || id != (pd ? ORPHANS_PD : ORPHANS_CTX)) {
		answer_error(port ? -EINVAL : -ENOENT);
		return;
	}
	put_attr(&parent, pd ? RDMA_NLDEV_ATTR_RES_PDN : RDMA_NLDEV_ATTR_RES_CTXN, &id, 4);
	put_attr(&parent, pd ? RDMA_NLDEV_ATTR_RES_CTXN : RDMA_NLDEV_ATTR_RES_PID, pd ? &ctx : &pid, 4);
	answer(&parent);
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
	uint32_t port;
	struct nlmsghdr head;

	if (fd < 0 || fd != kernel_fd)
		return __real_send(fd, buf, len, flags);
	memcpy(&head, buf, sizeof(head));
	port = asked(buf, len, RDMA_NLDEV_ATTR_PORT_INDEX);
	if (head.nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET))
		answer_devices();
	else if (head.nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET))
		answer_qp(asked(buf, len, RDMA_NLDEV_ATTR_RES_LQPN), port);
	else if (head.nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_PD_GET))
		answer_parent(true, asked(buf, len, RDMA_NLDEV_ATTR_RES_PDN), port);
	else
		answer_parent(false, asked(buf, len, RDMA_NLDEV_ATTR_RES_CTXN), port);
	return (ssize_t)len;
}

int setup_kernel(void **state)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	n_dumps = n_questions = 0;
	setup(state);
	clients.trusts = false;
	given_away = 0;
	broken = false;
	clients.questions.resqp.fd = kernel_fd = pair[0];
	kernel_end = pair[1];
	return 0;
}

int teardown_kernel(void **state)
{
	teardown(state); /* closes the one end */
	close(kernel_end);
	kernel_fd = kernel_end = -1;
	return 0;
}
