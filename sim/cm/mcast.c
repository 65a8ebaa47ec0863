/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast groups. On RoCE there is nobody to ask: the group's GID is its IP address, and a member
 * is who attaches a queue pair to it. Cables and switches of the simulator pass on all multicast.
 */
#include "cm.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

static bool is_multicast(const union cm_addr *a)
{
	return (a->sa.sa_family == AF_INET && IN_MULTICAST(ntohl(a->v4.sin_addr.s_addr))) ||
	       (a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_MULTICAST(&a->v6.sin6_addr));
}

static int tell(struct cm *cm, struct cm_id *id, struct cm_group *g, const uint8_t *mgid)
{
	struct rdma_ucm_ud_param *p;
	struct cm_event *e;
	int err = event_new(cm, id, EVENT_MULTICAST_JOIN, 0, &e);

	if (err)
		return err;
	e->group = g;
	e->resp.uid = g->uid;
	e->resp.id = g->handle;
	p = &e->resp.param.ud;
	p->qp_num = CM_MCAST_QPN;
	p->qkey = CM_UDP_QKEY;
	id_ah_attr(id, &p->ah_attr);
	memcpy(p->ah_attr.grh.dgid, mgid, 16);
	p->ah_attr.grh.flow_label = 0;
	p->ah_attr.grh.hop_limit = 1;
	event_queue(cm, e);
	return 0;
}

/* id_join() - the event that says so comes at once. */
int id_join(struct cm *cm, struct cm_id *id, const union cm_addr *group, uint64_t uid,
	    uint32_t *ret_handle)
{
	struct cm_group *g;
	uint8_t mgid[16];
	int err;

	if (id->qp_type != IBV_QPT_UD || !id->has_dev || !is_multicast(group))
		return -EINVAL;
	if (id->conn.path.slid)
		return -ENOSYS; /* no subnet manager gives a multicast LID */
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->id = id;
	g->uid = uid;
	g->handle = cm->next_group++ & 0xffff;
	addr_to_gid(group, mgid);
	err = tell(cm, id, g, mgid);
	if (err) {
		free(g);
		return err;
	}
	LIST_INSERT_HEAD(&id->groups, g, link);
	*ret_handle = g->handle;
	return 0;
}

/* group_free() - with its unread events. */
void group_free(struct cm *cm, struct cm_group *g)
{
	struct cm_file *f = g->id->file;
	struct cm_event *e, *next;

	(void)cm;
	for (e = STAILQ_FIRST(&f->events); e; e = next) {
		next = STAILQ_NEXT(e, link);
		if (e->group != g)
			continue;
		STAILQ_REMOVE(&f->events, e, cm_event, link);
		free(e);
	}
	LIST_REMOVE(g, link);
	free(g);
}

/* group_leave() - -ENOENT: no such group; -EINVAL: of another file. */
int group_leave(struct cm *cm, struct cm_file *f, uint32_t handle, uint32_t *ret_events)
{
	struct cm_id *id;

	TAILQ_FOREACH(id, &cm->all, link) {
		struct cm_group *g;

		LIST_FOREACH(g, &id->groups, link) {
			if (g->handle != handle)
				continue;
			if (id->file != f)
				return -EINVAL;
			*ret_events = g->events_reported;
			group_free(cm, g);
			return 0;
		}
	}
	return -ENOENT;
}
