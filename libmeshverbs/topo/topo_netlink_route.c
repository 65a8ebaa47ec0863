/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Looks up routes: what do the kernel's tables say about one destination out of one netdev? */
#include "topo_netlink.h"

#include <errno.h>
#include <string.h>
#include <linux/rtnetlink.h>

#include "topo_netlink_exchange.h"

struct route_query {
	struct nlmsghdr header;
	struct rtmsg info;
	char attrs[64]; /* oif and two addresses: 8 + 20 + 20 */
};

static void add_attr(struct route_query *query, uint16_t type, const void *value, size_t len)
{
	struct rtattr attr = {.rta_len = (uint16_t)RTA_LENGTH(len), .rta_type = type};
	char *end = (char *)query + query->header.nlmsg_len;

	memcpy(end, &attr, sizeof(attr));
	memcpy(end + sizeof(attr), value, len);
	query->header.nlmsg_len += RTA_SPACE(len);
}

static void add_gid_attr(struct route_query *query, uint16_t type, const union ibv_gid *gid)
{
	size_t len = query->info.rtm_family == AF_INET ? 4 : 16;

	add_attr(query, type, gid->raw + sizeof(gid->raw) - len, len);
}

/* Errors of the kernel if no route leads there, or one forbids it (blackhole, prohibit, throw). */
static bool is_unreachable(int err)
{
	return err == -ENETUNREACH || err == -EHOSTUNREACH || err == -EACCES || err == -EINVAL ||
	       err == -EAGAIN || err == -ESRCH || err == -ENODEV || err == -ENETDOWN;
}

/*
 * Adds the answer's route out of @ifindex, if any, as a host route to @dgid, since the answer is for that destination
 * only.
 * Return: 1: added; 0: none; -errno.
 */
static int add_host_route(struct mv_topo *topo, const struct mv_topo *answer, uint32_t ifindex,
			  const union ibv_gid *dgid, const union ibv_gid *src)
{
	/* With several next hops, or with a source address, the kernel may answer with other netdevs. */
	for (size_t i = 0; i < answer->n_routes; i++) {
		struct mv_route route = answer->routes[i];
		int err;

		if (route.ifindex != ifindex)
			continue;
		route.dst = *dgid;
		route.dst_len = 128;
		if (src)
			route.src = *src;
		err = mv_topo_add_route(topo, &route);
		return err ? err : 1;
	}
	return 0;
}

/*
 * Looks up the table entry for @dgid out of @ifindex, and adds it as a host route.
 * @src: source address for policy rules; NULL: none
 * Return: 1: added; 0: not reachable; -errno.
 */
static int query_route(struct mv_netlink *nl, struct mv_topo *topo, uint32_t ifindex,
		       const union ibv_gid *dgid, const union ibv_gid *src)
{
	bool ipv4 = mv_gid_family(dgid) == MV_FAMILY_IPV4;
	struct route_query query = {
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			   .nlmsg_type = RTM_GETROUTE,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.info = {.rtm_family = ipv4 ? AF_INET : AF_INET6,
			 .rtm_dst_len = ipv4 ? 32 : 128,
			 .rtm_src_len = !src   ? 0
					: ipv4 ? 32
					       : 128,
			 .rtm_flags = RTM_F_FIB_MATCH},
	};
	struct mv_topo answer;
	bool answered;
	int rc;

	add_gid_attr(&query, RTA_DST, dgid);
	if (src)
		add_gid_attr(&query, RTA_SRC, src);
	add_attr(&query, RTA_OIF, &ifindex, sizeof(ifindex));

	mv_topo_init(&answer);
	rc = mv_netlink_exchange(nl, &answer, &query.header, &answered);
	if (!rc)
		rc = add_host_route(topo, &answer, ifindex, dgid, src);
	else if (answered && is_unreachable(rc))
		rc = 0;
	mv_topo_fini(&answer);
	return rc;
}

/* Removes results of earlier look-ups. */
static void drop_routes(struct mv_topo *topo, uint32_t ifindex, const union ibv_gid *dgid)
{
	size_t kept = 0;

	for (size_t i = 0; i < topo->n_routes; i++) {
		const struct mv_route *route = &topo->routes[i];

		if (route->ifindex != ifindex || route->dst_len != 128 ||
		    !mv_gid_equal(&route->dst, dgid))
			topo->routes[kept++] = *route;
	}
	topo->n_routes = kept;
}

int mv_netlink_add_route(struct mv_netlink *nl, struct mv_topo *topo, uint32_t ifindex,
			 const union ibv_gid *dgid)
{
	enum mv_gid_family family = mv_gid_family(dgid);
	bool added = false;
	int rc;

	if (family == MV_FAMILY_NONE || family == MV_FAMILY_MULTICAST)
		return -EINVAL;
	drop_routes(topo, ifindex, dgid);
	rc = query_route(nl, topo, ifindex, dgid, NULL);
	if (rc)
		return rc;

	/* Hosts with several rails often have one routing table for each source address. */
	for (size_t i = 0; i < topo->n_addrs; i++) {
		const struct mv_addr *addr = &topo->addrs[i];

		if (addr->ifindex != ifindex || mv_gid_family(&addr->gid) != family)
			continue;
		rc = query_route(nl, topo, ifindex, dgid, &addr->gid);
		if (rc < 0)
			return rc;
		added |= rc > 0;
	}
	return added;
}

int mv_netlink_leads(struct mv_netlink *nl, uint32_t ifindex, const union ibv_gid *src, const union ibv_gid *dgid)
{
	enum mv_gid_family family = mv_gid_family(dgid);
	struct mv_topo found;
	int rc;

	if (family == MV_FAMILY_NONE || family == MV_FAMILY_MULTICAST || mv_gid_family(src) != family)
		return -EINVAL;
	mv_topo_init(&found);
	rc = query_route(nl, &found, ifindex, dgid, src);
	mv_topo_fini(&found);
	return rc;
}
