/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Identifiers as text, for people and tests: what `rdma resource show cm_id` tells on a real host.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const char *name_of_space(uint16_t ps)
{
	return ps == RDMA_PS_TCP     ? "tcp"
	       : ps == RDMA_PS_UDP   ? "udp"
	       : ps == RDMA_PS_IPOIB ? "ipoib"
				     : "ib";
}

static const char *name_of_state(const struct cm_id *id)
{
	static const char *const ids[] = {"idle",  "bound",   "resolving", "resolved",
					  "route", "connect", "listen"};
	static const char *const conns[] = {"closed",    "asked",     "requested", "accepted",
					    "answered",  "connected", "leaving",   "left",
					    "time-wait", "asked",     "requested"};

	return id->state == ID_CONNECT ? conns[id->conn.state] : ids[id->state];
}

static void format(const union cm_addr *a, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "-";

	if (a->sa.sa_family == AF_INET)
		inet_ntop(AF_INET, &a->v4.sin_addr, host, sizeof(host));
	else if (a->sa.sa_family == AF_INET6)
		inet_ntop(AF_INET6, &a->v6.sin6_addr, host, sizeof(host));
	snprintf(text, size, "%s/%u", host, addr_port(a));
}

void cm_show(const struct cm *cm, char *text, size_t size)
{
	const struct cm_id *id;
	size_t used = 0;

	snprintf(text, size, "none");
	TAILQ_FOREACH(id, &cm->all, link) {
		char src[64], dst[64];
		int n;

		format(&id->src, src, sizeof(src));
		format(&id->dst, dst, sizeof(dst));
		n = snprintf(text + used, size - used, "%s %s %s %s\n", name_of_space(id->ps), src,
			     dst, name_of_state(id));
		if (n < 0 || (size_t)n >= size - used) {
			text[used] = '\0';
			return;
		}
		used += (size_t)n;
	}
}
