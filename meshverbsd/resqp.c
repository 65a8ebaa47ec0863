/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "resqp.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

/* An answer of the kernel: one page, or two for a dump. */
#define ANSWER_BYTES 32768
/* Answers of one dump that are read: one for some hundred devices. */
#define ANSWERS_MAX 64

/* Signal 0 does nothing, and EPERM is said only of a thread that is there. (/proc may be closed to us.) */
static bool no_such_thread(pid_t process, pid_t thread)
{
	return syscall(SYS_tgkill, process, thread, 0) && errno == ESRCH;
}

bool md_resqp_is_of(const struct md_resqp *resqp, pid_t thread, pid_t process)
{
	return thread == process || (resqp->tells_threads && !no_such_thread(process, thread));
}

void md_resqp_open(struct md_resqp *resqp)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK};

	resqp->seq = 0;
	/* A filter of system calls would not know which thread is none. */
	resqp->tells_threads = no_such_thread(getpid(), INT32_MAX);
	md_resqp_forget(resqp);
	resqp->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_RDMA);
	if (resqp->fd >= 0 && bind(resqp->fd, (struct sockaddr *)&addr, sizeof(addr)))
		md_resqp_close(resqp);
}

void md_resqp_close(struct md_resqp *resqp)
{
	if (resqp->fd >= 0)
		close(resqp->fd);
	resqp->fd = -1;
}

void md_resqp_forget(struct md_resqp *resqp)
{
	resqp->n_known = resqp->oldest = 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The next message of a buffer. Return: false at the end, or where it is malformed. */
static bool next_message(const char **at, size_t *left, struct nlmsghdr *head, const char **body,
			 size_t *body_len)
{
	size_t step;

	if (*left < sizeof(*head))
		return false;
	memcpy(head, *at, sizeof(*head));
	if (head->nlmsg_len < sizeof(*head) || head->nlmsg_len > *left)
		return false;
	*body = *at + sizeof(*head);
	*body_len = head->nlmsg_len - sizeof(*head);
	step = NLMSG_ALIGN(head->nlmsg_len);
	if (step > *left)
		step = *left;
	*at += step;
	*left -= step;
	return true;
}

/* The value of an attribute of @type. Return: its length, or -1. */
static ssize_t find_attr(const char *at, size_t left, uint16_t type, const char **ret)
{
	struct nlattr attr;

	while (left >= sizeof(attr)) {
		size_t step;

		memcpy(&attr, at, sizeof(attr));
		if (attr.nla_len < sizeof(attr) || attr.nla_len > left)
			return -1;
		if ((attr.nla_type & NLA_TYPE_MASK) == type) {
			*ret = at + sizeof(attr);
			return attr.nla_len - (ssize_t)sizeof(attr);
		}
		step = NLA_ALIGN(attr.nla_len);
		if (step > left)
			return -1;
		at += step;
		left -= step;
	}
	return -1;
}

static bool find_u32(const char *at, size_t left, uint16_t type, uint32_t *ret)
{
	const char *value;

	if (find_attr(at, left, type, &value) != sizeof(*ret))
		return false;
	memcpy(ret, value, sizeof(*ret));
	return true;
}

/* Return: the error an NLMSG_ERROR holds, 0 for an acknowledgement, -EBADMSG. */
static int error_of(const char *body, size_t len)
{
	int err;

	if (len < sizeof(err))
		return -EBADMSG;
	memcpy(&err, body, sizeof(err));
	return err > 0 ? -EBADMSG : err;
}

int md_resqp_parse_device(const void *buf, size_t len, const char *device)
{
	const char *at = buf, *body, *name;
	struct nlmsghdr head;
	size_t body_len;

	while (next_message(&at, &len, &head, &body, &body_len)) {
		uint32_t index;
		ssize_t name_len;

		if (head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR)
			return -ENOENT;
		if (head.nlmsg_type != RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET))
			continue;
		name_len = find_attr(body, body_len, RDMA_NLDEV_ATTR_DEV_NAME, &name);
		if (name_len <= 0 || strnlen(name, (size_t)name_len) == (size_t)name_len ||
		    strcmp(name, device))
			continue;
		if (find_u32(body, body_len, RDMA_NLDEV_ATTR_DEV_INDEX, &index) &&
		    index <= INT32_MAX)
			return (int)index;
	}
	return -EAGAIN;
}

pid_t md_resqp_parse_owner(const void *buf, size_t len, uint32_t qpn)
{
	const char *at = buf, *body;
	struct nlmsghdr head;
	size_t body_len;

	while (next_message(&at, &len, &head, &body, &body_len)) {
		uint32_t found, pid;

		if (head.nlmsg_type == NLMSG_ERROR)
			return error_of(body, body_len) == -ENOENT ? -ENOENT : 0;
		if (head.nlmsg_type != RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET))
			continue;
		if (find_u32(body, body_len, RDMA_NLDEV_ATTR_RES_LQPN, &found) && found == qpn &&
		    find_u32(body, body_len, RDMA_NLDEV_ATTR_RES_PID, &pid) && pid <= INT32_MAX)
			return (pid_t)pid;
	}
	return 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

struct request {
	struct nlmsghdr head;
	struct {
		struct nlattr attr;
		uint32_t value;
	} attrs[2];
};

static int ask(struct md_resqp *resqp, struct request *request, size_t n_attrs, int op,
	       uint16_t flags)
{
	request->head.nlmsg_len =
		(uint32_t)(sizeof(request->head) + n_attrs * sizeof(request->attrs[0]));
	request->head.nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op);
	request->head.nlmsg_flags = NLM_F_REQUEST | flags;
	request->head.nlmsg_seq = ++resqp->seq;
	return send(resqp->fd, request, request->head.nlmsg_len, MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void put_attr(struct request *request, int i, uint16_t type, uint32_t value)
{
	request->attrs[i].attr.nla_type = type;
	request->attrs[i].attr.nla_len = sizeof(request->attrs[i]);
	request->attrs[i].value = value;
}

/* Whatever is left of an earlier answer shall not be taken for the next one. */
static void drain(const struct md_resqp *resqp)
{
	char byte;

	for (int i = 0; i < ANSWERS_MAX; i++)
		if (recv(resqp->fd, &byte, sizeof(byte), MSG_DONTWAIT) < 0 && errno == EAGAIN)
			return;
}

static int ask_index(struct md_resqp *resqp, const char *device)
{
	static char answer[ANSWER_BYTES]; /* scratch; the agent has one thread */
	struct request request = {0};
	int rc;

	rc = ask(resqp, &request, 0, RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	if (rc)
		return rc;
	for (int i = 0; i < ANSWERS_MAX; i++) {
		ssize_t n = recv(resqp->fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (n < 0)
			return -errno;
		rc = md_resqp_parse_device(answer, (size_t)n, device);
		if (rc != -EAGAIN)
			return rc;
	}
	return -ENOENT;
}

static int device_index(struct md_resqp *resqp, const char *device, uint64_t now_ns)
{
	size_t i;
	int index;

	for (i = 0; i < resqp->n_known && strcmp(resqp->known[i].device, device); i++)
		;
	if (i < resqp->n_known && now_ns < resqp->known[i].until_ns)
		return resqp->known[i].index;
	drain(resqp);
	index = ask_index(resqp, device);
	/* Only of what there is: names that somebody makes up push nothing out. */
	if (index < 0 || strlen(device) >= sizeof(resqp->known[i].device))
		return index;
	if (i == resqp->n_known && i < MD_RAILS_MAX)
		resqp->n_known++;
	else if (i == resqp->n_known)
		i = resqp->oldest++ % MD_RAILS_MAX;
	strcpy(resqp->known[i].device, device);
	resqp->known[i].index = index;
	resqp->known[i].until_ns = now_ns + MD_INDEX_NS;
	return index;
}

pid_t md_resqp_owner(struct md_resqp *resqp, const char *device, uint32_t qpn, uint64_t now_ns)
{
	char answer[4096];
	struct request request = {0};
	ssize_t n;
	int index;

	if (resqp->fd < 0)
		return 0;
	index = device_index(resqp, device, now_ns);
	if (index < 0)
		return 0;
	drain(resqp);
	put_attr(&request, 0, RDMA_NLDEV_ATTR_DEV_INDEX, (uint32_t)index);
	put_attr(&request, 1, RDMA_NLDEV_ATTR_RES_LQPN, qpn);
	if (ask(resqp, &request, 2, RDMA_NLDEV_CMD_RES_QP_GET, 0))
		return 0;
	n = recv(resqp->fd, answer, sizeof(answer), MSG_DONTWAIT);
	return n < 0 ? 0 : md_resqp_parse_owner(answer, (size_t)n, qpn);
}
