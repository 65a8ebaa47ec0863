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

#include "topo_netlink_attr.h"

/* An answer of the kernel: one page, or two for a dump. */
#define ANSWER_BYTES 32768
/* Ports of one device that are asked about. */
#define PORTS_MAX 32
/* Answers of one dump, at most: one for some hundred devices. */
#define ANSWERS_MAX 64
/* RDMA_NLDEV_CMD_RES_CTX_GET, which <rdma/rdma_netlink.h> of Debian 11 does not have. */
#define RES_CTX_GET 22

/* Signal 0 has no effect, and EPERM is returned for existing threads only. (/proc may be closed to us.) */
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
	/* A seccomp filter would answer the same for any thread; then tgkill(2) is of no use. */
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

void md_resqp_again(struct md_resqp *resqp)
{
	if (resqp->fd < 0)
		md_resqp_open(resqp);
	else
		md_resqp_forget(resqp);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Takes the next message of a buffer. Return: false: end, or malformed. */
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

/* Finds an attribute of @type. Return: its length; -1: none. */
static ssize_t find_attr(const char *at, size_t left, uint16_t type, const char **ret)
{
	struct mv_nl_span rest = {.data = (const uint8_t *)at, .len = left};
	struct mv_nl_attr attr;

	while (mv_nl_next_attr(&rest, &attr) == 1) {
		if (attr.type != type)
			continue;
		*ret = (const char *)attr.value.data;
		return (ssize_t)attr.value.len;
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

/* Return: the error in an NLMSG_ERROR; 0: acknowledgement; -EBADMSG. */
static int error_of(const char *body, size_t len)
{
	int err;

	if (len < sizeof(err))
		return -EBADMSG;
	memcpy(&err, body, sizeof(err));
	return err > 0 ? -EBADMSG : err;
}

int md_resqp_parse_device(const void *buf, size_t len, const char *device, uint32_t *ret_n_ports)
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
		if (!find_u32(body, body_len, RDMA_NLDEV_ATTR_DEV_INDEX, &index) || index > INT32_MAX)
			continue;
		if (!find_u32(body, body_len, RDMA_NLDEV_ATTR_PORT_INDEX, ret_n_ports))
			*ret_n_ports = 1;
		return (int)index;
	}
	return -EAGAIN;
}

pid_t md_resqp_parse_owner(const void *buf, size_t len, const struct md_resqp_object *object, uint32_t *ret_parent)
{
	const char *at = buf, *body;
	struct nlmsghdr head;
	size_t body_len;
	int err;

	*ret_parent = 0;
	while (next_message(&at, &len, &head, &body, &body_len)) {
		uint32_t found, pid;

		if (head.nlmsg_type == NLMSG_ERROR) {
			err = error_of(body, body_len);
			return err == -ENOENT || err == -EAGAIN ? err : 0;
		}
		if (head.nlmsg_type != RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, object->command) ||
		    !find_u32(body, body_len, object->id_attr, &found) || found != object->id)
			continue;
		if (find_u32(body, body_len, RDMA_NLDEV_ATTR_RES_PID, &pid) && pid && pid <= INT32_MAX)
			return (pid_t)pid;
		find_u32(body, body_len, object->parent_attr, ret_parent);
		return -ESRCH;
	}
	return 0;
}

/*
 * The kernel has QPs on each device: QP0, QP1, for memory keys, for IPoIB datagrams. Connections are those of NVMe-oF,
 * Lustre, NFS, SMC-R.
 */
static bool is_connection(const char *entry, size_t len)
{
	const char *type;

	if (find_attr(entry, len, RDMA_NLDEV_ATTR_RES_TYPE, &type) != 1)
		return false;
	return *type == IBV_QPT_RC || *type == IBV_QPT_UC || *type == IBV_QPT_XRC_SEND || *type == IBV_QPT_XRC_RECV;
}

/* A QP of a dump. Return: true: it uses the device, because it is a program's, or a connection of the kernel. */
static bool is_user(const char *entry, size_t len, pid_t *ret)
{
	const char *value;
	uint32_t pid;

	*ret = find_u32(entry, len, RDMA_NLDEV_ATTR_RES_PID, &pid) && pid <= INT32_MAX ? (pid_t)pid : 0;
	return find_attr(entry, len, RDMA_NLDEV_ATTR_RES_KERN_NAME, &value) < 0 || is_connection(entry, len);
}

size_t md_resqp_parse_users(const void *buf, size_t len, pid_t *ret, size_t max, bool *ret_end)
{
	const char *at = buf, *body, *table;
	struct nlmsghdr head;
	size_t body_len, n = 0;

	*ret_end = false;
	while (next_message(&at, &len, &head, &body, &body_len)) {
		ssize_t left;

		*ret_end |= head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR;
		if (head.nlmsg_type != RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET))
			continue;
		left = find_attr(body, body_len, RDMA_NLDEV_ATTR_RES_QP, &table);
		while (left > 0 && n < max) {
			const char *entry;
			ssize_t entry_len = find_attr(table, (size_t)left, RDMA_NLDEV_ATTR_RES_QP_ENTRY, &entry);
			size_t step;

			if (entry_len < 0)
				break;
			n += is_user(entry, (size_t)entry_len, &ret[n]);
			step = (size_t)(entry - table) + NLA_ALIGN((size_t)entry_len);
			left = step < (size_t)left ? left - (ssize_t)step : 0;
			table += step;
		}
	}
	return n;
}

/* ---- questions ------------------------------------------------------------------------------- */

struct request {
	struct nlmsghdr head;
	struct {
		struct nlattr attr;
		uint32_t value;
	} attrs[3];
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

/* Discards the rest of an earlier answer. */
static void drain(const struct md_resqp *resqp)
{
	char byte;

	for (int i = 0; i < ANSWERS_MAX; i++)
		if (recv(resqp->fd, &byte, sizeof(byte), MSG_DONTWAIT) < 0 && errno == EAGAIN)
			return;
}

static int ask_index(struct md_resqp *resqp, const char *device, uint32_t *ret_n_ports)
{
	static char answer[ANSWER_BYTES]; /* scratch memory; one thread */
	struct request request = {0};
	int rc;

	rc = ask(resqp, &request, 0, RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	if (rc)
		return rc;
	for (int i = 0; i < ANSWERS_MAX; i++) {
		ssize_t n = recv(resqp->fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (n < 0)
			return -errno;
		rc = md_resqp_parse_device(answer, (size_t)n, device, ret_n_ports);
		if (rc != -EAGAIN)
			return rc;
	}
	return -ENOENT;
}

/* Return: cached facts about a device; NULL: the kernel does not list it, or cannot be asked. */
static struct md_resqp_device *find_device(struct md_resqp *resqp, const char *device, uint64_t now_ns)
{
	struct md_resqp_device *known;
	uint32_t n_ports;
	size_t i;
	int index;

	for (i = 0; i < resqp->n_known && strcmp(resqp->known[i].device, device); i++)
		;
	if (i < resqp->n_known && now_ns < resqp->known[i].until_ns)
		return &resqp->known[i];
	drain(resqp);
	index = ask_index(resqp, device, &n_ports);
	/* Only existing devices are cached, so invented names displace nothing. */
	if (index < 0 || strlen(device) >= sizeof(resqp->known[i].device))
		return NULL;
	if (i == resqp->n_known && i < MD_RAILS_MAX)
		resqp->n_known++;
	else if (i == resqp->n_known)
		i = resqp->oldest++ % MD_RAILS_MAX;
	known = &resqp->known[i];
	*known = (struct md_resqp_device){.index = index, .n_ports = n_ports, .port = 1, .until_ns = now_ns + MD_INDEX_NS};
	strcpy(known->device, device);
	return known;
}

/* @port: 0: the object has no port. Return: as md_resqp_parse_owner(). */
static pid_t ask_owner(struct md_resqp *resqp, int index, uint32_t port, const struct md_resqp_object *object,
		       uint32_t *ret_parent)
{
	struct request request = {0};
	char answer[4096];
	ssize_t n;

	*ret_parent = 0;
	drain(resqp);
	put_attr(&request, 0, RDMA_NLDEV_ATTR_DEV_INDEX, (uint32_t)index);
	put_attr(&request, 1, object->id_attr, object->id);
	put_attr(&request, 2, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	if (ask(resqp, &request, port ? 3 : 2, object->command, 0))
		return 0;
	n = recv(resqp->fd, answer, sizeof(answer), MSG_DONTWAIT);
	return n < 0 ? 0 : md_resqp_parse_owner(answer, (size_t)n, object, ret_parent);
}

/*
 * The kernel requires a port: EINVAL without one, EAGAIN if the QP is on another port. The port of the last QP is tried
 * first. Return: as md_resqp_parse_owner().
 */
static pid_t ask_ports(struct md_resqp *resqp, struct md_resqp_device *device, uint32_t qpn, uint32_t *ret_pdn)
{
	const struct md_resqp_object qp = {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_LQPN, qpn, RDMA_NLDEV_ATTR_RES_PDN};
	pid_t owner = ask_owner(resqp, device->index, device->port, &qp, ret_pdn);

	for (uint32_t port = 1; owner == -EAGAIN && port <= device->n_ports && port <= PORTS_MAX; port++) {
		if (port == device->port)
			continue;
		owner = ask_owner(resqp, device->index, port, &qp, ret_pdn);
		if (owner != -EAGAIN)
			device->port = port;
	}
	return owner;
}

/* The thread that created the QP has ended: who created its parents? Return: as md_resqp_owner(). */
static pid_t ask_parents(struct md_resqp *resqp, int index, uint32_t pdn)
{
	const struct md_resqp_object pd = {RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PDN, pdn, RDMA_NLDEV_ATTR_RES_CTXN};
	struct md_resqp_object ctx = {RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTXN, 0, 0};
	pid_t owner = pdn ? ask_owner(resqp, index, 0, &pd, &ctx.id) : -ESRCH;
	uint32_t none;

	if (owner == -ESRCH && ctx.id)
		owner = ask_owner(resqp, index, 0, &ctx, &none);
	return owner > 0 ? owner : -ESRCH;
}

pid_t md_resqp_owner(struct md_resqp *resqp, const char *device, uint32_t qpn, uint64_t now_ns)
{
	struct md_resqp_device *known = resqp->fd < 0 ? NULL : find_device(resqp, device, now_ns);
	uint32_t pdn;
	pid_t owner;

	if (!known)
		return 0;
	owner = ask_ports(resqp, known, qpn, &pdn);
	if (owner == -ESRCH)
		owner = ask_parents(resqp, known->index, pdn);
	return owner == -EAGAIN ? -ESRCH : owner;
}

/* Return: true: one of the threads is of another session. */
static bool has_other(const pid_t *threads, size_t n, pid_t ours)
{
	for (size_t i = 0; i < n; i++)
		if (!ours || !threads[i] || getsid(threads[i]) != ours)
			return true;
	return false;
}

int md_resqp_foreign(struct md_resqp *resqp, const char *device, pid_t ours, uint64_t now_ns)
{
	static char answer[ANSWER_BYTES]; /* scratch memory; one thread */
	static pid_t threads[1024]; /* likewise: more entries than an answer has */
	struct md_resqp_device *known = resqp->fd < 0 ? NULL : find_device(resqp, device, now_ns);
	struct request request = {0};
	bool end = false;

	if (!known)
		return -ENODATA;
	drain(resqp);
	put_attr(&request, 0, RDMA_NLDEV_ATTR_DEV_INDEX, (uint32_t)known->index);
	if (ask(resqp, &request, 1, RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP))
		return -ENODATA;
	for (int i = 0; i < ANSWERS_MAX && !end; i++) {
		ssize_t len = recv(resqp->fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (len < 0)
			return -ENODATA;
		if (has_other(threads, md_resqp_parse_users(answer, (size_t)len, threads, sizeof(threads) / sizeof(threads[0]), &end), ours)) {
			drain(resqp);
			return 1;
		}
	}
	return end ? 0 : 1; /* so many QPs: the host is not idle */
}
