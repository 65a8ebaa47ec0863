/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The destination's Ethernet address, as the kernel finds it when a queue pair goes to RTR or an
 * address handle is made: route look-up bound to the source GID's netdev, then the neighbour table,
 * asking the network if need be. Raw rtnetlink, one socket per call. Called without the HCA's lock:
 * it may take a second.
 */
#include "neigh.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * The kernel's ib_core waits for a second. The kernel repeats its question to the network after a second, so here the answer to the second
 * question counts as well: on a busy machine the first one gets lost at times.
 */
#define RESOLVE_TIMEOUT_NS 1200000000ull
#define USABLE (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

struct request {
	struct nlmsghdr h;
	union {
		struct rtmsg rt;
		struct ndmsg nd;
	} u;
	uint8_t attrs[128];
};

struct address {
	int family;
	uint8_t len;
	const uint8_t *bytes;
};

static struct address address_of(const uint8_t *gid)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};

	if (!memcmp(gid, v4, sizeof(v4)))
		return (struct address){AF_INET, 4, gid + 12};
	return (struct address){AF_INET6, 16, gid};
}

static void add_attr(struct request *r, uint16_t type, const void *data, size_t len)
{
	struct rtattr *a = (void *)((uint8_t *)r + NLMSG_ALIGN(r->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	r->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->h.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

static void begin(struct request *r, uint16_t type, uint16_t flags, size_t body)
{
	memset(r, 0, sizeof(*r));
	r->h.nlmsg_type = type;
	r->h.nlmsg_flags = NLM_F_REQUEST | flags;
	r->h.nlmsg_len = (uint32_t)NLMSG_LENGTH(body);
}

/* Send and take one answer. Return: its header in @buf, or NULL with *ret_err. */
static struct nlmsghdr *talk(int fd, struct request *r, void *buf, size_t len, int *ret_err)
{
	struct nlmsghdr *h = buf;
	ssize_t n;

	*ret_err = -EIO;
	if (send(fd, r, r->h.nlmsg_len, 0) < 0)
		return NULL;
	n = recv(fd, buf, len, 0);
	if (n < (ssize_t)sizeof(*h) || !NLMSG_OK(h, (uint32_t)n))
		return NULL;
	if (h->nlmsg_type == NLMSG_ERROR) {
		*ret_err = ((struct nlmsgerr *)NLMSG_DATA(h))->error;
		return NULL;
	}
	*ret_err = 0;
	return h;
}

static const struct rtattr *find_attr(struct nlmsghdr *h, size_t body, uint16_t type)
{
	struct rtattr *a = (void *)((uint8_t *)NLMSG_DATA(h) + NLMSG_ALIGN(body));
	int len = (int)(h->nlmsg_len - NLMSG_LENGTH(body));

	for (; RTA_OK(a, len); a = RTA_NEXT(a, len))
		if (a->rta_type == type)
			return a;
	return NULL;
}

/* Which neighbour to ask for. Return: 0, 1 if the destination is this host itself, or -errno. */
static int next_hop(int fd, struct address src, struct address dst, uint32_t ifindex, uint8_t *hop)
{
	uint8_t buf[4096] __attribute__((aligned(8)));
	const struct rtattr *via;
	struct nlmsghdr *h;
	struct request r;
	int err;

	begin(&r, RTM_GETROUTE, 0, sizeof(r.u.rt));
	r.u.rt.rtm_family = (uint8_t)dst.family;
	r.u.rt.rtm_dst_len = (uint8_t)(dst.len * 8);
	add_attr(&r, RTA_DST, dst.bytes, dst.len);
	if (src.family == dst.family) {
		r.u.rt.rtm_src_len = (uint8_t)(src.len * 8);
		add_attr(&r, RTA_SRC, src.bytes, src.len);
	}
	add_attr(&r, RTA_OIF, &ifindex, sizeof(ifindex));
	h = talk(fd, &r, buf, sizeof(buf), &err);
	if (!h)
		return err;
	if (((struct rtmsg *)NLMSG_DATA(h))->rtm_type == RTN_LOCAL)
		return 1;
	via = find_attr(h, sizeof(struct rtmsg), RTA_GATEWAY);
	memcpy(hop, via ? RTA_DATA(via) : dst.bytes, dst.len);
	return 0;
}

/* Return: true with the MAC if the neighbour table has it. */
static bool look_up(int fd, struct address hop, uint32_t ifindex, uint8_t *ret_mac)
{
	uint8_t buf[4096] __attribute__((aligned(8)));
	const struct rtattr *mac;
	struct nlmsghdr *h;
	struct request r;
	int err;

	begin(&r, RTM_GETNEIGH, 0, sizeof(r.u.nd));
	r.u.nd.ndm_family = (uint8_t)hop.family;
	r.u.nd.ndm_ifindex = (int)ifindex;
	add_attr(&r, NDA_DST, hop.bytes, hop.len);
	h = talk(fd, &r, buf, sizeof(buf), &err);
	if (!h || !(((struct ndmsg *)NLMSG_DATA(h))->ndm_state & USABLE))
		return false;
	mac = find_attr(h, sizeof(struct ndmsg), NDA_LLADDR);
	if (!mac || RTA_PAYLOAD(mac) != 6)
		return false;
	memcpy(ret_mac, RTA_DATA(mac), 6);
	return true;
}

/* Have the kernel ask the network: an entry that is "used" is resolved. */
static void ask(int fd, struct address hop, uint32_t ifindex)
{
	uint8_t buf[4096] __attribute__((aligned(8)));
	struct request r;
	int err;

	begin(&r, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, sizeof(r.u.nd));
	r.u.nd.ndm_family = (uint8_t)hop.family;
	r.u.nd.ndm_ifindex = (int)ifindex;
	r.u.nd.ndm_flags = NTF_USE;
	add_attr(&r, NDA_DST, hop.bytes, hop.len);
	talk(fd, &r, buf, sizeof(buf), &err);
}

/**
 * neigh_route() - how the IP stack would reach @dst. Addresses in GID form.
 * @src: what to send from, or NULL. @ifindex: the only netdev to use, or 0.
 * @ret_src: @src, or what the route prefers. @ret_local: @dst is an address of this host.
 *
 * Return: 0, or what the look-up says (-ENETUNREACH); -EIO for an answer without a netdev.
 */
int neigh_route(const uint8_t *src, const uint8_t *dst, uint32_t ifindex, uint8_t *ret_src,
		uint32_t *ret_ifindex, bool *ret_local)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), err = -EIO;
	uint8_t buf[4096] __attribute__((aligned(8)));
	struct address to = address_of(dst), from = src ? address_of(src) : to;
	const struct rtattr *a;
	struct nlmsghdr *h;
	struct request r;

	if (fd < 0)
		return -errno;
	begin(&r, RTM_GETROUTE, 0, sizeof(r.u.rt));
	r.u.rt.rtm_family = (uint8_t)to.family;
	r.u.rt.rtm_dst_len = (uint8_t)(to.len * 8);
	add_attr(&r, RTA_DST, to.bytes, to.len);
	if (src && from.family == to.family) {
		r.u.rt.rtm_src_len = (uint8_t)(from.len * 8);
		add_attr(&r, RTA_SRC, from.bytes, from.len);
	}
	if (ifindex)
		add_attr(&r, RTA_OIF, &ifindex, sizeof(ifindex));
	h = talk(fd, &r, buf, sizeof(buf), &err);
	a = h ? find_attr(h, sizeof(struct rtmsg), RTA_OIF) : NULL;
	if (a) {
		memcpy(ret_ifindex, RTA_DATA(a), sizeof(*ret_ifindex));
		*ret_local = ((struct rtmsg *)NLMSG_DATA(h))->rtm_type == RTN_LOCAL;
		a = find_attr(h, sizeof(struct rtmsg), RTA_PREFSRC);
		memcpy(ret_src, src ? src : dst, 16);
		if (!src && a && RTA_PAYLOAD(a) == to.len) {
			memcpy(ret_src, v4, 12);
			memcpy(ret_src + 16 - to.len, RTA_DATA(a), to.len);
		}
	} else if (h) {
		err = -EIO;
	}
	syscall(SYS_close, fd);
	return err;
}

static int resolve(int fd, struct address hop, uint32_t ifindex, uint8_t *ret_mac)
{
	struct timespec pause = {.tv_nsec = 50000}; /* a neighbour on the same machine answers at once */
	uint64_t end = engine_clock() + RESOLVE_TIMEOUT_NS;
	bool last;

	if (look_up(fd, hop, ifindex, ret_mac))
		return 0;
	ask(fd, hop, ifindex);
	do {
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 800000)
			pause.tv_nsec *= 2;
		/* The time is read before the table: a thread that did not run for a second looks once more. */
		last = engine_clock() >= end;
		if (look_up(fd, hop, ifindex, ret_mac))
			return 0;
	} while (!last);
	return -ETIMEDOUT;
}

/**
 * neigh_try() - what the neighbour table says right now; asks the network if it says nothing. Does
 * not wait.
 *
 * Return: 0, -EAGAIN, or what the route look-up says.
 */
int neigh_try(const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex, uint8_t *ret_mac)
{
	struct address dst = address_of(dgid), hop;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), err;
	uint8_t bytes[16];

	if (fd < 0)
		return -errno;
	hop = (struct address){dst.family, dst.len, bytes};
	err = next_hop(fd, address_of(sgid), dst, ifindex, bytes);
	if (!err && !look_up(fd, hop, ifindex, ret_mac)) {
		ask(fd, hop, ifindex);
		err = -EAGAIN;
	}
	syscall(SYS_close, fd);
	return err == 1 ? -EAGAIN : err;
}

/* An address of this host: the MAC of the netdev that has it. */
static int own_address(struct sim_state *st, const uint8_t *gid, uint8_t *ret_mac)
{
	for (uint32_t d = 0; d < st->n_devs; d++)
		for (uint32_t p = 0; p < st->devs[d].n_ports; p++)
			for (uint32_t i = 0; i < SIM_MAX_GIDS; i++) {
				const struct sim_gid *g = &st->devs[d].ports[p].gids[i];

				if (g->type == SIM_GID_NONE || memcmp(g->raw, gid, 16))
					continue;
				memcpy(ret_mac, g->mac, 6);
				return 0;
			}
	return -ENODEV;
}

/**
 * neigh_resolve() - destination MAC for a path from @sgid to @dgid.
 * @ifindex: netdev of the source GID. @own_mac: its MAC.
 *
 * Return: 0; -ETIMEDOUT if nobody answered within a second; -ENETUNREACH and the like from the
 * route look-up; -ENODEV for an address of this host that no RoCE port has.
 */
int neigh_resolve(const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex,
		  const uint8_t *own_mac, struct sim_state *st, uint8_t *ret_mac)
{
	struct address src = address_of(sgid), dst = address_of(dgid);
	uint8_t hop[16];
	int fd, err;

	if (!memcmp(sgid, dgid, 16)) {
		memcpy(ret_mac, own_mac, 6);
		return 0;
	}
	if (dst.family == AF_INET6 && dgid[0] == 0xff) {
		memcpy(ret_mac, "\x33\x33", 2);
		memcpy(ret_mac + 2, dgid + 12, 4);
		return 0;
	}
	if (dst.family == AF_INET && dst.bytes[0] >> 4 == 14) {
		memcpy(ret_mac, "\x01\x00\x5e", 3);
		memcpy(ret_mac + 3, dgid + 13, 3);
		ret_mac[3] &= 0x7f;
		return 0;
	}
	if (dst.family == AF_INET6 && dgid[0] == 0xfe && (dgid[1] & 0xc0) == 0x80) {
		/* The kernel takes the MAC out of the interface identifier. */
		memcpy(ret_mac, dgid + 8, 3);
		memcpy(ret_mac + 3, dgid + 13, 3);
		ret_mac[0] ^= 2;
		return 0;
	}
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	err = next_hop(fd, src, dst, ifindex, hop);
	if (err == 1)
		err = own_address(st, dgid, ret_mac);
	else if (!err)
		err = resolve(fd, (struct address){dst.family, dst.len, hop}, ifindex, ret_mac);
	close(fd);
	return err;
}
