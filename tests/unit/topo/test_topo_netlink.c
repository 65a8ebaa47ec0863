/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The netlink sockets: against the running kernel for what any host has, and against a scripted
 * kernel for what one cannot be made to do.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include "fault.h"
#include "nlbuild.h"
#include "topo_netlink.h"

/* ---- the running kernel ---------------------------------------------------------------------- */

static bool same_names(const struct if_nameindex *a, const struct if_nameindex *b)
{
	for (; a->if_index && b->if_index; a++, b++)
		if (a->if_index != b->if_index || strcmp(a->if_name, b->if_name))
			return false;
	return a->if_index == b->if_index;
}

/*
 * Fills a snapshot between two looks at libc's list of interfaces until these agree: hosts change.
 */
static struct if_nameindex *fill_stable(struct mv_netlink *nl, struct mv_topo *topo)
{
	for (int i = 0; i < 100; i++) {
		struct if_nameindex *before = if_nameindex(), *after;
		bool same;

		assert_int_equal(mv_netlink_fill(nl, topo), 0);
		after = if_nameindex();
		assert_true(before && after);
		same = same_names(before, after);
		if_freenameindex(before);
		if (same)
			return after;
		if_freenameindex(after);
	}
	fail_msg("the interfaces of this host never stood still");
	return NULL;
}

static void test_this_host(void **state)
{
	unsigned int fds = fault_open_fds();
	struct if_nameindex *names;
	struct mv_netlink nl;
	struct mv_topo topo;
	size_t n;

	(void)state;
	mv_topo_init(&topo);
	assert_int_equal(mv_netlink_open(&nl), 0);
	assert_true(fcntl(nl.request_fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(nl.event_fd, F_GETFD) & FD_CLOEXEC);
	names = fill_stable(&nl, &topo);
	for (n = 0; names[n].if_index; n++)
		assert_string_equal(mv_topo_netdev(&topo, names[n].if_index)->name,
				    names[n].if_name);
	assert_true(n > 0);
	assert_int_equal(topo.n_netdevs, n);
	if_freenameindex(names);
	mv_netlink_close(&nl);
	mv_netlink_close(&nl);
	assert_int_equal(fault_open_fds(), fds);
	mv_topo_fini(&topo);
}

static long read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	long number = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

/* Who looks seldom finds many changes: their socket holds as many as the host allows. The kernel counts twice what it is asked for. */
static void test_room_for_notices(void **state)
{
	long max = read_number("/proc/sys/net/core/rmem_max"), usual = read_number("/proc/sys/net/core/rmem_default");
	socklen_t len = sizeof(int);
	struct mv_netlink nl;
	int bytes = 0;

	(void)state;
	if (max < 0 || usual < 0) /* in a network namespace of older kernels */
		skip();
	assert_int_equal(mv_netlink_open(&nl), 0);
	assert_int_equal(getsockopt(nl.event_fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len), 0);
	if (usual < 1 << 20)
		assert_int_equal(bytes, 2 * (max < 1 << 20 ? max : 1 << 20));
	else
		assert_int_equal(bytes, usual);
	mv_netlink_close(&nl);
}

/* ---- a scripted kernel ----------------------------------------------------------------------- */

#define MAX_STEPS 32

/* What the request socket gives next: a datagram, or an error. */
struct step {
	struct nlbuild nl;
	int err;
	uint32_t from_pid;
	size_t claimed_len; /* what a look ahead says; 0: the truth */
	bool truncated; /* it grew after the look ahead */
};

static struct {
	struct step steps[MAX_STEPS];
	size_t n, next;
	uint32_t seq, port_id;
	unsigned int requests;
	uint8_t request[256];
} script;

static struct step *add_step(void)
{
	assert_true(script.n < MAX_STEPS);
	return &script.steps[script.n++];
}

/*
 * Messages of a step that should look like answers get these; tests change single ones afterwards.
 */
#define FOREIGN_SEQ 0xdeadbeef

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

static ssize_t scripted_recvmsg(int fd, struct msghdr *msg, int flags)
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

static void start_script(struct mv_netlink *nl, struct mv_topo *topo)
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

static int stop_script(void **state)
{
	(void)state;
	fault_sendto_divert = NULL;
	fault_recv_divert = NULL;
	fault_recvmsg_divert = NULL;
	return 0;
}

static void end_script(struct mv_netlink *nl, struct mv_topo *topo)
{
	stop_script(NULL);
	mv_netlink_close(nl);
	mv_topo_fini(topo);
}

static void add_links(void)
{
	struct nlbuild *nl = &add_step()->nl;

	nl_link(nl, 2, "eth0", IFF_UP | IFF_RUNNING);
	nl_link(nl, 3, "eth1", IFF_UP | IFF_RUNNING);
	nl_done(&add_step()->nl);
}

static void add_addrs(void)
{
	struct nlbuild *nl = &add_step()->nl;

	nl_addr(nl, 2, "10.1.0.1", 24);
	nl_addr(nl, 3, "10.2.0.1", 24);
	nl_done(nl);
}

static void assert_two_netdevs(const struct mv_topo *topo)
{
	assert_int_equal(topo->n_netdevs, 2);
	assert_int_equal(topo->n_addrs, 2);
	assert_int_equal(topo->n_routes, 0);
}

static void test_fill(void **state)
{
	struct mv_route stale = {.ifindex = 2};
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_script(&nl, &topo);
	assert_int_equal(mv_topo_add_route(&topo, &stale), 0);
	add_links();
	add_addrs();
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_two_netdevs(&topo);
	assert_int_equal(script.requests, 2);
	assert_int_equal(script.next, script.n);
	end_script(&nl, &topo);
}

static void test_foreign_messages(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;
	struct step *step;

	(void)state;
	start_script(&nl, &topo);
	/* From another process; of an older request; for another socket. */
	step = add_step();
	step->from_pid = 4711;
	nl_link(&step->nl, 66, "evil", IFF_UP);
	step = add_step();
	nl_link(&step->nl, 67, "old", IFF_UP);
	nl_header(&step->nl)->nlmsg_seq = FOREIGN_SEQ;
	nl_done(&step->nl);
	nl_header(&step->nl)->nlmsg_seq = FOREIGN_SEQ;
	nl_error(&step->nl, -EIO);
	nl_header(&step->nl)->nlmsg_pid = 1;
	add_links();
	add_addrs();
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_two_netdevs(&topo);
	end_script(&nl, &topo);
}

static void test_inconsistent_dump(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_script(&nl, &topo);
	/*
	 * The flag may be on any message of the dump; the rest of it is read, and it is taken
	 * again.
	 */
	nl_link(&add_step()->nl, 2, "gone", IFF_UP);
	nl_header(&script.steps[0].nl)->nlmsg_flags = NLM_F_DUMP_INTR;
	nl_done(&add_step()->nl);
	add_links();
	nl_addr(&add_step()->nl, 2, "10.9.0.1", 24);
	nl_done(&script.steps[script.n - 1].nl);
	nl_header(&script.steps[script.n - 1].nl)->nlmsg_flags = NLM_F_DUMP_INTR;
	add_links();
	add_addrs();
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_two_netdevs(&topo);
	assert_string_equal(mv_topo_netdev(&topo, 2)->name, "eth0");
	assert_int_equal(script.requests, 5);

	/* But not for ever. */
	script.n = script.next = 0;
	memset(script.steps, 0, sizeof(script.steps));
	for (int i = 0; i < 10; i++) {
		nl_done(&add_step()->nl);
		nl_header(&script.steps[i].nl)->nlmsg_flags = NLM_F_DUMP_INTR;
	}
	assert_int_equal(mv_netlink_fill(&nl, &topo), -EINTR);
	assert_int_equal(topo.n_netdevs + topo.n_addrs, 0);
	assert_int_equal(script.next, 5);
	end_script(&nl, &topo);
}

static void test_lost_messages(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;
	int fd;

	(void)state;
	start_script(&nl, &topo);
	fd = nl.request_fd;
	nl_link(&add_step()->nl, 9, "half", IFF_UP);
	add_step()->err = ENOBUFS;
	/* A fresh socket for the next try: the old one is in the middle of a dump. */
	assert_int_equal(mv_netlink_fill(&nl, &topo), -ETIMEDOUT);
	assert_int_equal(nl.request_fd, -1);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(topo.n_netdevs, 0);
	/* And it works again without being opened anew by the caller. */
	stop_script(NULL);
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_true(topo.n_netdevs > 0);
	end_script(&nl, &topo);
}

static void test_malformed_answers(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct step *step;

		start_script(&nl, &topo);
		step = add_step();
		nl_link(&step->nl, 2, "eth0", IFF_UP);
		if (i == 0)
			step->nl.len -= 4;
		else if (i == 1)
			nl_header(&step->nl)->nlmsg_len = 8;
		else if (i == 2)
			step->nl.len = 5;
		else
			nl_attr(&step->nl, IFLA_MTU, "x", 1);
		assert_int_equal(mv_netlink_fill(&nl, &topo), -EBADMSG);
		assert_int_equal(topo.n_netdevs + topo.n_addrs, 0);
		end_script(&nl, &topo);
	}
}

/* Datagrams beyond the usual 32 KiB get a larger buffer, within reason. */
static void test_long_datagrams(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_script(&nl, &topo);
	add_links();
	script.steps[0].claimed_len = 200000;
	add_addrs();
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_two_netdevs(&topo);
	end_script(&nl, &topo);

	start_script(&nl, &topo);
	add_links();
	script.steps[0].claimed_len = 2000000;
	assert_int_equal(mv_netlink_fill(&nl, &topo), -EBADMSG);
	end_script(&nl, &topo);

	start_script(&nl, &topo);
	add_links();
	script.steps[0].truncated = true;
	assert_int_equal(mv_netlink_fill(&nl, &topo), -EBADMSG);
	assert_int_equal(topo.n_netdevs, 0);
	end_script(&nl, &topo);
}

static void test_kernel_says_no(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_script(&nl, &topo);
	add_links();
	nl_error(&add_step()->nl, -EPERM);
	assert_int_equal(mv_netlink_fill(&nl, &topo), -EPERM);
	assert_int_equal(topo.n_netdevs + topo.n_addrs, 0);
	/* The answer was complete, so the socket is still good. */
	assert_true(nl.request_fd >= 0);
	end_script(&nl, &topo);
}

/* ---- notices of a scripted kernel ------------------------------------------------------------ */

static const unsigned int all_seen = MV_NETLINK_NET | MV_NETLINK_ROUTES | MV_NETLINK_LOST;

/* How the socket for changes is looked at, and emptied where it is of no more use. */
static ssize_t scripted_notice(int fd, void *buf, size_t len, int flags)
{
	struct step *step = &script.steps[script.next];

	(void)fd;
	(void)buf;
	assert_int_equal(len, 1);
	assert_true(flags & MSG_DONTWAIT);
	if (script.next == script.n) {
		errno = EAGAIN;
		return -1;
	}
	if (step->err) {
		errno = step->err;
		script.next++; /* said once */
		return -1;
	}
	script.next += !(flags & MSG_PEEK);
	return 1;
}

static ssize_t scripted_notice_message(int fd, struct msghdr *msg, int flags)
{
	assert_true(flags & MSG_DONTWAIT);
	if (script.next == script.n) {
		errno = EAGAIN;
		return -1;
	}
	if (script.steps[script.next].err) {
		errno = script.steps[script.next++].err;
		return -1;
	}
	return scripted_recvmsg(fd, msg, flags);
}

static void start_notices(struct mv_netlink *nl, struct mv_topo *topo)
{
	start_script(nl, topo);
	fault_recv_divert = scripted_notice;
	fault_recvmsg_divert = scripted_notice_message;
}

static void add_notice(int ifindex)
{
	nl_link(&add_step()->nl, ifindex, "eth0", IFF_UP);
}

static void test_follow(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_notices(&nl, &topo);
	assert_int_equal(mv_netlink_follow(&nl, &topo), 0);
	add_notice(2);
	add_step()->err = EINTR;
	add_notice(3);
	add_notice(4); /* of another process */
	script.steps[3].from_pid = 4711;
	assert_int_equal(mv_netlink_follow(&nl, &topo), MV_NETLINK_NET);
	assert_int_equal(topo.n_netdevs, 2);
	assert_int_equal(script.next, script.n);
	/* Without a snapshot all is thrown away. */
	add_notice(5);
	assert_int_equal(mv_netlink_follow(&nl, NULL), all_seen);
	assert_int_equal(mv_netlink_follow(&nl, NULL), 0);
	assert_int_equal(script.next, script.n);
	end_script(&nl, &topo);
}

/* Whatever is wrong with one: it is said, and none is left that would come behind the dump which makes that good. */
static void test_follow_lost(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	for (int i = 0; i < 6; i++) {
		start_notices(&nl, &topo);
		if (i == 0)
			add_step()->err = ENOBUFS; /* said to the one who looks whether there is anything */
		add_notice(2);
		if (i == 1)
			add_step()->err = ENOBUFS;
		add_notice(3);
		if (i == 2)
			script.steps[1].truncated = true;
		else if (i == 3)
			script.steps[1].nl.len -= 4;
		else if (i == 4)
			fault_arm(FAULT_ALLOC, 1, ENOMEM);
		else if (i == 5)
			fault_arm(FAULT_ALLOC, 2, ENOMEM);
		add_notice(4);
		assert_int_equal(mv_netlink_follow(&nl, &topo), all_seen);
		fault_disarm();
		assert_int_equal(script.next, script.n);
		assert_int_equal(mv_netlink_follow(&nl, &topo), 0);
		end_script(&nl, &topo);
	}
}

/* ---- routes of a scripted kernel ------------------------------------------------------------- */

static void add_route_answer(const char *dst, uint8_t dst_len, uint32_t oif, unsigned int flags)
{
	struct nlbuild *nl = &add_step()->nl;
	struct rtmsg info = {.rtm_family = AF_INET,
			     .rtm_dst_len = dst_len,
			     .rtm_type = RTN_UNICAST,
			     .rtm_flags = flags};

	nl_message(nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_addr(nl, RTA_DST, dst);
	nl_attr_u32(nl, RTA_OIF, oif);
	nl_attr_addr(nl, RTA_GATEWAY, "10.1.0.254");
	nl_error(nl, 0);
}

static void start_routes(struct mv_netlink *nl, struct mv_topo *topo)
{
	start_script(nl, topo);
	add_links();
	add_addrs();
	assert_int_equal(mv_netlink_fill(nl, topo), 0);
}

static void test_route(void **state)
{
	union ibv_gid dgid = unit_gid("10.7.3.4");
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_routes(&nl, &topo);
	for (int round = 0; round < 2; round++) {
		add_route_answer("10.7.0.0", 16, 2, 0);
		assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 1);
		/* The second answer takes the place of the first. */
		assert_int_equal(topo.n_routes, 1);
	}
	assert_gid(topo.routes[0].dst, "10.7.3.4");
	assert_int_equal(topo.routes[0].dst_len, 128);
	assert_int_equal(topo.routes[0].fib_len, 96 + 16);
	assert_int_equal(topo.routes[0].ifindex, 2);
	assert_gid(topo.routes[0].gateway, "10.1.0.254");
	assert_gid(topo.routes[0].src, "::");

	/* What is known of other destinations stays. */
	dgid = unit_gid("10.7.3.5");
	add_route_answer("10.7.0.0", 16, 2, 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 1);
	assert_int_equal(topo.n_routes, 2);
	assert_gid(topo.routes[0].dst, "10.7.3.4");
	assert_gid(topo.routes[1].dst, "10.7.3.5");

	/* Not out of the netdev that was asked for, from any of its addresses. */
	add_route_answer("10.7.0.0", 16, 3, 0);
	add_route_answer("10.7.0.0", 16, 3, 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 0);
	assert_int_equal(topo.n_routes, 1);
	assert_gid(topo.routes[0].dst, "10.7.3.4");
	assert_int_equal(script.next, script.n);
	end_script(&nl, &topo);
}

static void test_route_of_one_source(void **state)
{
	const struct nlmsghdr *request = (const struct nlmsghdr *)(const void *)script.request;
	union ibv_gid dgid = unit_gid("10.7.3.4");
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_routes(&nl, &topo);
	nl_error(&add_step()->nl, -ENETUNREACH);
	add_route_answer("0.0.0.0", 0, 2, 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 1);
	assert_int_equal(topo.n_routes, 1);
	assert_gid(topo.routes[0].src, "10.1.0.1");
	assert_int_equal(topo.routes[0].fib_len, 96);
	assert_int_equal(request->nlmsg_type, RTM_GETROUTE);
	assert_int_equal(script.request[NLMSG_HDRLEN + offsetof(struct rtmsg, rtm_src_len)], 32);
	end_script(&nl, &topo);
}

static void test_route_errors(void **state)
{
	static const int unreachable[] = {ENETUNREACH, EHOSTUNREACH, EACCES,
					  EINVAL,      EAGAIN,       ENODEV};
	union ibv_gid dgid = unit_gid("10.7.3.4"), zero = unit_gid("::"),
		      group = unit_gid("224.0.0.1");
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_routes(&nl, &topo);
	for (size_t i = 0; i < sizeof(unreachable) / sizeof(unreachable[0]); i++) {
		nl_error(&add_step()->nl, -unreachable[i]);
		nl_error(&add_step()->nl, -unreachable[i]);
		assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 0);
	}
	nl_error(&add_step()->nl, -EPERM);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), -EPERM);
	/* Nor is half an answer one: other sources may or may not lead there. */
	nl_error(&add_step()->nl, -ENETUNREACH);
	nl_error(&add_step()->nl, -EPERM);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), -EPERM);
	/* The same number from our own socket is not the kernel's word on the route. */
	add_step()->err = EACCES;
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), -EACCES);
	/* A cache entry means that the kernel did not look at its tables alone. */
	add_route_answer("10.7.3.4", 32, 2, RTM_F_CLONED);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), -EOPNOTSUPP);
	assert_int_equal(topo.n_routes, 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &zero), -EINVAL);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &group), -EINVAL);
	end_script(&nl, &topo);
}

/* ---- changes --------------------------------------------------------------------------------- */

static const int *change_errnos;

/* Each element one recv(): 0 a notice, else an error; EAGAIN ends. */
static ssize_t scripted_changes(int fd, void *buf, size_t len, int flags)
{
	int err = *change_errnos++;

	(void)fd;
	(void)buf;
	(void)len;
	assert_int_equal(flags, MSG_DONTWAIT);
	errno = err;
	return err ? -1 : 1;
}

static ssize_t endless_changes(int fd, void *buf, size_t len, int flags)
{
	(void)fd;
	(void)buf;
	(void)len;
	(void)flags;
	return 1;
}

static bool changed_after(struct mv_netlink *nl, const int *errnos)
{
	bool changed;

	change_errnos = errnos;
	fault_recv_divert = scripted_changes;
	changed = mv_netlink_changed(nl);
	fault_recv_divert = NULL;
	return changed;
}

static void test_changed(void **state)
{
	struct mv_netlink nl;

	(void)state;
	assert_int_equal(mv_netlink_open(&nl), 0);
	assert_false(changed_after(&nl, (int[]){EAGAIN}));
	assert_false(changed_after(&nl, (int[]){EINTR, EINTR, EAGAIN}));
	assert_true(changed_after(&nl, (int[]){0, EAGAIN}));
	assert_true(changed_after(&nl, (int[]){0, EINTR, 0, EAGAIN}));
	assert_true(changed_after(&nl, (int[]){ENOBUFS, EAGAIN}));
	/* Not even a host that never stands still holds a program up. */
	fault_recv_divert = endless_changes;
	assert_true(mv_netlink_changed(&nl));
	fault_recv_divert = NULL;
	/* A broken socket tells nothing, so everything may have changed. */
	assert_true(changed_after(&nl, (int[]){EBADF}));
	mv_netlink_close(&nl);
	assert_true(mv_netlink_changed(&nl));
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void check_faulty_open(void)
{
	unsigned int fds = fault_open_fds();
	struct mv_netlink nl;
	int err = mv_netlink_open(&nl);

	assert_int_equal(err, fault_fired() ? -EMFILE : 0);
	mv_netlink_close(&nl);
	assert_int_equal(fault_open_fds(), fds);
}

static void check_faulty_fill(int err, int expected)
{
	unsigned int fds = fault_open_fds();
	struct mv_netlink nl;
	struct mv_topo topo;
	bool again;
	int rc;

	mv_topo_init(&topo);
	assert_int_equal(mv_netlink_open(&nl), 0);
	rc = mv_netlink_fill(&nl, &topo);
	again = err == EINTR || err == ENOBUFS;
	assert_int_equal(rc, fault_fired() && !again ? expected : 0);
	assert_int_equal(topo.n_netdevs > 0, !rc);
	if (rc) {
		assert_int_equal(topo.n_addrs, 0);
		/* A failure is no reason to fail for ever. */
		assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	}
	mv_netlink_close(&nl);
	mv_topo_fini(&topo);
	assert_int_equal(fault_open_fds(), fds);
}

static void test_faults(void **state)
{
	(void)state;
	FAULT_EACH(FAULT_SOCKET, EMFILE, check_faulty_open());
	FAULT_EACH(FAULT_BIND, EMFILE, check_faulty_open());
	FAULT_EACH(FAULT_SENDTO, ECONNREFUSED, check_faulty_fill(ECONNREFUSED, -ECONNREFUSED));
	FAULT_EACH(FAULT_SENDTO, EINTR, check_faulty_fill(EINTR, 0));
	FAULT_EACH(FAULT_RECV, EINTR, check_faulty_fill(EINTR, 0));
	FAULT_EACH(FAULT_RECV, ENOBUFS, check_faulty_fill(ENOBUFS, 0));
	FAULT_EACH(FAULT_RECV, EAGAIN, check_faulty_fill(EAGAIN, -ETIMEDOUT));
	FAULT_EACH(FAULT_RECVMSG, EINTR, check_faulty_fill(EINTR, 0));
	FAULT_EACH(FAULT_RECVMSG, ENOBUFS, check_faulty_fill(ENOBUFS, 0));
	FAULT_EACH(FAULT_RECVMSG, EIO, check_faulty_fill(EIO, -EIO));
	FAULT_EACH(FAULT_ALLOC, ENOMEM, check_faulty_fill(ENOMEM, -ENOMEM));
}

static void check_faulty_route(void)
{
	union ibv_gid dgid = unit_gid("10.7.3.4");
	struct mv_netlink nl;
	struct mv_topo topo;
	int rc;

	start_script(&nl, &topo);
	add_route_answer("10.7.0.0", 16, 2, 0);
	rc = mv_netlink_add_route(&nl, &topo, 2, &dgid);
	assert_int_equal(rc, fault_fired() ? -ENOMEM : 1);
	assert_int_equal(topo.n_routes, fault_fired() ? 0 : 1);
	end_script(&nl, &topo);
}

static void test_route_no_memory(void **state)
{
	(void)state;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, check_faulty_route());
	FAULT_EACH(FAULT_GETSOCKNAME, ENOBUFS, {
		union ibv_gid dgid = unit_gid("10.7.3.4");
		struct mv_netlink nl;
		struct mv_topo topo;

		mv_topo_init(&topo);
		assert_int_equal(mv_netlink_open(&nl), 0);
		if (mv_netlink_add_route(&nl, &topo, 1, &dgid) < 0)
			assert_true(fault_fired());
		mv_netlink_close(&nl);
		mv_topo_fini(&topo);
	});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_this_host),
		cmocka_unit_test(test_room_for_notices),
		cmocka_unit_test_teardown(test_fill, stop_script),
		cmocka_unit_test_teardown(test_foreign_messages, stop_script),
		cmocka_unit_test_teardown(test_inconsistent_dump, stop_script),
		cmocka_unit_test_teardown(test_lost_messages, stop_script),
		cmocka_unit_test_teardown(test_malformed_answers, stop_script),
		cmocka_unit_test_teardown(test_long_datagrams, stop_script),
		cmocka_unit_test_teardown(test_kernel_says_no, stop_script),
		cmocka_unit_test_teardown(test_follow, stop_script),
		cmocka_unit_test_teardown(test_follow_lost, stop_script),
		cmocka_unit_test_teardown(test_route, stop_script),
		cmocka_unit_test_teardown(test_route_of_one_source, stop_script),
		cmocka_unit_test_teardown(test_route_errors, stop_script),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_faults),
		cmocka_unit_test_teardown(test_route_no_memory, stop_script),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
