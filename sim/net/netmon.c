// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gid_table.h"
#include "netmon.h"

#define BUFFER_BYTES  32768 /* what the kernel fills at most in one dump message */
#define RECEIVE_BYTES (4 << 20) /* of the socket: a burst of changes must not be lost */

struct snapshot {
	struct net_link *links;
	struct net_addr *addrs;
	size_t n_links, n_addrs;
};

static void *grown(void *array, size_t n, size_t size)
{
	/* Powers of two: only then the array is full. */
	return n & (n - 1) ? array : realloc(array, (n ? 2 * n : 1) * size);
}

static int push_link(struct snapshot *s, const struct net_link *l)
{
	struct net_link *p = grown(s->links, s->n_links, sizeof(*p));

	if (!p)
		return -ENOMEM;
	s->links = p;
	p[s->n_links++] = *l;
	return 0;
}

static int push_addr(struct snapshot *s, const struct net_addr *a)
{
	struct net_addr *p = grown(s->addrs, s->n_addrs, sizeof(*p));

	if (!p)
		return -ENOMEM;
	s->addrs = p;
	p[s->n_addrs++] = *a;
	return 0;
}

static struct net_link *find_link(const struct snapshot *s, uint32_t ifindex)
{
	for (size_t i = 0; i < s->n_links; i++)
		if (s->links[i].ifindex == ifindex)
			return &s->links[i];
	return NULL;
}

static struct net_addr *find_addr(const struct snapshot *s, const struct net_addr *a)
{
	for (size_t i = 0; i < s->n_addrs; i++)
		if (s->addrs[i].ifindex == a->ifindex && !memcmp(s->addrs[i].raw, a->raw, 16))
			return &s->addrs[i];
	return NULL;
}

static struct snapshot snapshot_of(const struct netmon *m)
{
	return (struct snapshot){m->links, m->addrs, m->n_links, m->n_addrs};
}

static void keep(struct netmon *m, const struct snapshot *s)
{
	m->links = s->links;
	m->addrs = s->addrs;
	m->n_links = s->n_links;
	m->n_addrs = s->n_addrs;
}

const struct net_link *netmon_link(const struct netmon *m, uint32_t ifindex)
{
	struct snapshot s = snapshot_of(m);

	return find_link(&s, ifindex);
}

static void parse_vlan(struct net_link *l, const struct rtattr *info, uint32_t lower)
{
	const struct rtattr *data = NULL;
	bool vlan = false;
	int len = (int)RTA_PAYLOAD(info);

	for (const struct rtattr *a = RTA_DATA(info); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == IFLA_INFO_KIND)
			vlan = !strncmp(RTA_DATA(a), "vlan", RTA_PAYLOAD(a));
		else if (a->rta_type == IFLA_INFO_DATA)
			data = a;
	}
	if (!vlan || !data)
		return;
	len = (int)RTA_PAYLOAD(data);
	for (const struct rtattr *a = RTA_DATA(data); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == IFLA_VLAN_ID) {
			memcpy(&l->vlan_id, RTA_DATA(a), sizeof(l->vlan_id));
			l->parent = lower;
		}
	}
}

static bool parse_link(const struct nlmsghdr *h, struct net_link *l)
{
	const struct ifinfomsg *i = NLMSG_DATA(h);
	int len = (int)IFLA_PAYLOAD(h);
	const struct rtattr *info = NULL;
	uint32_t lower = 0;

	if (i->ifi_family == AF_BRIDGE)
		return false;
	memset(l, 0, sizeof(*l));
	l->ifindex = (uint32_t)i->ifi_index;
	l->flags = i->ifi_flags;
	l->vlan_id = SIM_NO_VLAN;
	for (const struct rtattr *a = IFLA_RTA(i); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == IFLA_IFNAME)
			strncpy(l->name, RTA_DATA(a), sizeof(l->name) - 1);
		else if (a->rta_type == IFLA_MTU)
			memcpy(&l->mtu, RTA_DATA(a), sizeof(l->mtu));
		else if (a->rta_type == IFLA_LINK)
			memcpy(&lower, RTA_DATA(a), sizeof(lower));
		else if (a->rta_type == IFLA_ADDRESS && RTA_PAYLOAD(a) == sizeof(l->mac))
			memcpy(l->mac, RTA_DATA(a), sizeof(l->mac));
		else if (a->rta_type == IFLA_LINKINFO)
			info = a;
	}
	if (info)
		parse_vlan(l, info, lower);
	return true;
}

/* The kernel forms GIDs from ifa_address, which differs from the local one on point-to-point
 * netdevs. */
static bool parse_addr(const struct nlmsghdr *h, struct net_addr *addr)
{
	const struct ifaddrmsg *i = NLMSG_DATA(h);
	int len = (int)IFA_PAYLOAD(h);

	addr->ifindex = i->ifa_index;
	for (const struct rtattr *a = IFA_RTA(i); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type != IFA_ADDRESS)
			continue;
		if (i->ifa_family == AF_INET)
			gid_from_ipv4(addr->raw, RTA_DATA(a));
		else if (i->ifa_family == AF_INET6)
			memcpy(addr->raw, RTA_DATA(a), 16);
		else
			continue;
		return true;
	}
	return false;
}

static int request_dump(int fd, int type, unsigned char family)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i; /* starts with the family, as struct ifaddrmsg does */
	} req = {
		.h = {.nlmsg_len = sizeof(req),
		      .nlmsg_type = (uint16_t)type,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.i = {.ifi_family = family},
	};

	return send(fd, &req, sizeof(req), 0) == sizeof(req) ? 0 : -errno;
}

/* The rest of one dump into @s; -EAGAIN: something changed meanwhile, start over. */
static int read_dump(int fd, struct snapshot *s)
{
	char buf[BUFFER_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));

	for (;;) {
		ssize_t got = recv(fd, buf, sizeof(buf), 0);
		long left = got; /* wider than nlmsg_len: NLMSG_OK() compares them */

		if (got < 0)
			return errno == EINTR ? -EAGAIN : -errno;
		for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			struct net_link l;
			struct net_addr a;
			int err = 0;

			if (h->nlmsg_flags & NLM_F_DUMP_INTR)
				return -EAGAIN;
			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return ((struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (h->nlmsg_type == RTM_NEWLINK && parse_link(h, &l))
				err = push_link(s, &l);
			else if (h->nlmsg_type == RTM_NEWADDR && parse_addr(h, &a))
				err = push_addr(s, &a);
			if (err)
				return err;
		}
	}
}

/*
 * On a socket of its own: notifications that arrive meanwhile stay queued on the other one and are
 * looked at afterwards. Replaying what the dump has shown already does no harm, missing one would.
 */
static int dump_all(struct snapshot *s)
{
	static const struct {
		int type;
		unsigned char family;
	} dumps[] = {{RTM_GETLINK, AF_UNSPEC}, {RTM_GETADDR, AF_INET}, {RTM_GETADDR, AF_INET6}};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), err = 0;

	memset(s, 0, sizeof(*s));
	if (fd < 0)
		return -errno;
	for (size_t i = 0; !err && i < sizeof(dumps) / sizeof(dumps[0]); i++) {
		err = request_dump(fd, dumps[i].type, dumps[i].family);
		if (!err)
			err = read_dump(fd, s);
	}
	close(fd);
	if (err) {
		free(s->links);
		free(s->addrs);
		memset(s, 0, sizeof(*s));
	}
	return err;
}

/* Read everything and report what differs from what is known. */
static int resync(struct netmon *m)
{
	struct snapshot old = snapshot_of(m), now;
	int err;

	do
		err = dump_all(&now);
	while (err == -EAGAIN);
	if (err)
		return err;
	for (size_t i = 0; i < old.n_addrs; i++) {
		const struct net_link *l = find_link(&old, old.addrs[i].ifindex);

		if (l && !find_addr(&now, &old.addrs[i]))
			m->ops->addr_removed(m->arg, l, &old.addrs[i]);
	}
	for (size_t i = 0; i < old.n_links; i++)
		if (!find_link(&now, old.links[i].ifindex))
			m->ops->link_gone(m->arg, &old.links[i]);
	keep(m, &now);
	for (size_t i = 0; i < now.n_links; i++)
		m->ops->link_changed(m->arg, &now.links[i], find_link(&old, now.links[i].ifindex));
	for (size_t i = 0; i < now.n_addrs; i++) {
		const struct net_link *l = find_link(&now, now.addrs[i].ifindex);

		if (l && !find_addr(&old, &now.addrs[i]))
			m->ops->addr_added(m->arg, l, &now.addrs[i]);
	}
	free(old.links);
	free(old.addrs);
	return 0;
}

static int new_link(struct netmon *m, const struct net_link *l)
{
	struct snapshot s = snapshot_of(m);
	struct net_link *known = find_link(&s, l->ifindex), old;
	int err;

	if (known) {
		old = *known;
		*known = *l;
		m->ops->link_changed(m->arg, l, &old);
		return 0;
	}
	err = push_link(&s, l);
	keep(m, &s);
	if (!err)
		m->ops->link_changed(m->arg, l, NULL);
	return err;
}

static void del_link(struct netmon *m, uint32_t ifindex)
{
	struct snapshot s = snapshot_of(m);
	struct net_link *known = find_link(&s, ifindex), old;
	size_t left = 0;

	if (!known)
		return;
	old = *known;
	for (size_t i = 0; i < s.n_addrs; i++)
		if (s.addrs[i].ifindex != ifindex)
			s.addrs[left++] = s.addrs[i];
	s.n_addrs = left;
	memmove(known, known + 1, (size_t)(s.links + s.n_links - known - 1) * sizeof(*known));
	s.n_links--;
	keep(m, &s);
	m->ops->link_gone(m->arg, &old);
}

static int new_addr(struct netmon *m, const struct net_addr *a)
{
	struct snapshot s = snapshot_of(m);
	const struct net_link *l = find_link(&s, a->ifindex);
	int err = 0;

	if (!l)
		return 0;
	if (!find_addr(&s, a)) {
		err = push_addr(&s, a);
		keep(m, &s);
	}
	if (!err)
		m->ops->addr_added(m->arg, l, a);
	return err;
}

static void del_addr(struct netmon *m, const struct net_addr *a)
{
	struct snapshot s = snapshot_of(m);
	const struct net_link *l = find_link(&s, a->ifindex);
	struct net_addr *known = find_addr(&s, a);

	if (known) {
		memmove(known, known + 1,
			(size_t)(s.addrs + s.n_addrs - known - 1) * sizeof(*known));
		s.n_addrs--;
		keep(m, &s);
	}
	if (l)
		m->ops->addr_removed(m->arg, l, a);
}

static int handle(struct netmon *m, const struct nlmsghdr *h)
{
	struct net_link l;
	struct net_addr a;

	if (h->nlmsg_type == RTM_NEWLINK && parse_link(h, &l))
		return new_link(m, &l);
	if (h->nlmsg_type == RTM_DELLINK && parse_link(h, &l))
		del_link(m, l.ifindex);
	else if (h->nlmsg_type == RTM_NEWADDR && parse_addr(h, &a))
		return new_addr(m, &a);
	else if (h->nlmsg_type == RTM_DELADDR && parse_addr(h, &a))
		del_addr(m, &a);
	return 0;
}

int netmon_read(struct netmon *m)
{
	char buf[BUFFER_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));

	for (;;) {
		ssize_t got = recv(m->fd, buf, sizeof(buf), MSG_DONTWAIT);
		long left = got;
		int err = 0;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == ENOBUFS)
			err = resync(m);
		else if (got < 0)
			return errno == EAGAIN ? 0 : -errno;
		for (struct nlmsghdr *h = (void *)buf; !err && NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left))
			err = handle(m, h);
		if (err)
			return err;
	}
}

int netmon_open(struct netmon *m, const struct netmon_ops *ops, void *arg)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK,
				   .nl_groups =
					   RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	int size = RECEIVE_BYTES, err;

	memset(m, 0, sizeof(*m));
	m->ops = ops;
	m->arg = arg;
	m->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (m->fd < 0)
		return -errno;
	/* FORCE needs CAP_NET_ADMIN in the first user namespace; without it the default size must
	 * do. */
	if (setsockopt(m->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(m->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	err = bind(m->fd, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : resync(m);
	if (err)
		netmon_close(m);
	return err;
}

void netmon_close(struct netmon *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
	free(m->links);
	free(m->addrs);
	m->links = NULL;
	m->addrs = NULL;
	m->n_links = m->n_addrs = 0;
}
