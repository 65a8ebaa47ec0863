/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "nlscript.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>

struct script script;

struct step *add_step(void)
{
	assert_true(script.n < MAX_STEPS);
	return &script.steps[script.n++];
}

static ssize_t scripted_sendto(int fd, const void *buf, size_t len, int flags,
			       const struct sockaddr *addr, socklen_t addr_len)
{
	const struct nlmsghdr *request = buf;

	(void)fd;
	(void)flags;
	(void)addr;
	(void)addr_len;
	assert_int_equal(request->nlmsg_len, len);
	assert_true(len <= sizeof(script.request));
	memcpy(script.request, buf, len);
	assert_int_not_equal(request->nlmsg_seq, script.seq);
	script.seq = request->nlmsg_seq;
	script.requests++;
	return (ssize_t)len;
}

/* Fills in sequence number and port id of all messages but those marked as foreign. */
static void stamp(struct nlbuild *nl)
{
	size_t pos = 0;

	while (pos + sizeof(struct nlmsghdr) <= nl->len) {
		struct nlmsghdr *header = (struct nlmsghdr *)(void *)(nl->data + pos);

		if (header->nlmsg_seq != FOREIGN_SEQ)
			header->nlmsg_seq = script.seq;
		if (!header->nlmsg_pid)
			header->nlmsg_pid = script.port_id;
		if (header->nlmsg_len < sizeof(*header))
			return;
		pos += NLMSG_ALIGN(header->nlmsg_len);
	}
}

static ssize_t scripted_recv(int fd, void *buf, size_t len, int flags)
{
	(void)fd;
	(void)buf;
	(void)len;
	assert_int_equal(flags, MSG_PEEK | MSG_TRUNC);
	if (script.next == script.n) {
		errno = EAGAIN; /* the timeout of the socket */
		return -1;
	}
	if (script.steps[script.next].err) {
		errno = script.steps[script.next++].err;
		return -1;
	}
	if (script.steps[script.next].claimed_len)
		return (ssize_t)script.steps[script.next].claimed_len;
	return (ssize_t)script.steps[script.next].nl.len;
}

ssize_t scripted_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct step *step = &script.steps[script.next++];
	struct sockaddr_nl *from = msg->msg_name;

	(void)fd;
	(void)flags;
	stamp(&step->nl);
	assert_int_equal(msg->msg_namelen, sizeof(*from));
	*from = (struct sockaddr_nl){.nl_family = AF_NETLINK, .nl_pid = step->from_pid};
	msg->msg_flags = step->truncated ? MSG_TRUNC : 0;
	assert_true(msg->msg_iov[0].iov_len >= step->nl.len);
	assert_true(msg->msg_iov[0].iov_len >= step->claimed_len);
	memcpy(msg->msg_iov[0].iov_base, step->nl.data, step->nl.len);
	return (ssize_t)step->nl.len;
}

void start_script(struct mv_netlink *nl, struct mv_topo *topo)
{
	struct sockaddr_nl self;
	socklen_t len = sizeof(self);

	memset(&script, 0, sizeof(script));
	mv_topo_init(topo);
	assert_int_equal(mv_netlink_open(nl), 0);
	assert_int_equal(getsockname(nl->request_fd, (struct sockaddr *)&self, &len), 0);
	script.port_id = self.nl_pid;
	fault_sendto_divert = scripted_sendto;
	fault_recv_divert = scripted_recv;
	fault_recvmsg_divert = scripted_recvmsg;
}

int stop_script(void **state)
{
	(void)state;
	fault_sendto_divert = NULL;
	fault_recv_divert = NULL;
	fault_recvmsg_divert = NULL;
	return 0;
}

void end_script(struct mv_netlink *nl, struct mv_topo *topo)
{
	stop_script(NULL);
	mv_netlink_close(nl);
	mv_topo_fini(topo);
}

void add_links(void)
{
	struct nlbuild *nl = &add_step()->nl;

	nl_link(nl, 2, "eth0", IFF_UP | IFF_RUNNING);
	nl_link(nl, 3, "eth1", IFF_UP | IFF_RUNNING);
	nl_done(&add_step()->nl);
}

void add_addrs(void)
{
	struct nlbuild *nl = &add_step()->nl;

	nl_addr(nl, 2, "10.1.0.1", 24);
	nl_addr(nl, 3, "10.2.0.1", 24);
	nl_done(nl);
}
