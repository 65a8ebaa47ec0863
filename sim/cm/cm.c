/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Files, identifiers, events; messages and timers to the connection they are for. */
#include "cm.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

uint32_t cm_random(struct cm *cm)
{
	uint64_t x = cm->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)(x >> 32);
}

void cm_init(struct cm *cm, struct sim_state *state, const struct cm_ops *ops, void *arg,
	     uint64_t seed)
{
	memset(cm, 0, sizeof(*cm));
	TAILQ_INIT(&cm->all);
	LIST_INIT(&cm->files);
	cm->state = state;
	cm->ops = ops;
	cm->arg = arg;
	cm->random = seed;
	cm->next_comm_id = cm_random(cm);
}

void cm_fini(struct cm *cm)
{
	while (!LIST_EMPTY(&cm->files))
		cm_close(cm, LIST_FIRST(&cm->files));
	free(cm->handles);
}

struct cm_file *cm_open(struct cm *cm)
{
	struct cm_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->number = cm->next_file++;
	STAILQ_INIT(&f->events);
	LIST_INSERT_HEAD(&cm->files, f, link);
	return f;
}

void cm_close(struct cm *cm, struct cm_file *f)
{
	struct cm_id *id;

	/* From the start each time: with an identifier go the requests that wait for it. */
	for (id = TAILQ_FIRST(&cm->all); id;) {
		if (id->file == f) {
			id_destroy(cm, id);
			id = TAILQ_FIRST(&cm->all);
		} else {
			id = TAILQ_NEXT(id, link);
		}
	}
	LIST_REMOVE(f, link);
	free(f);
}

/* id_give_handle() - the lowest free one: librdmacm wants small numbers. */
int id_give_handle(struct cm *cm, struct cm_id *id)
{
	uint32_t i;

	for (i = 0; i < cm->n_handles && cm->handles[i]; i++)
		;
	if (i == cm->n_handles) {
		uint32_t n = i ? i * 2 : 64;
		struct cm_id **handles = realloc(cm->handles, n * sizeof(*handles));

		if (!handles)
			return -ENOMEM;
		memset(handles + i, 0, (n - i) * sizeof(*handles));
		cm->handles = handles;
		cm->n_handles = n;
	}
	cm->handles[i] = id;
	id->handle = i;
	id->has_handle = true;
	return 0;
}

/* id_get() - of this file only. */
int id_get(struct cm *cm, struct cm_file *f, uint32_t handle, struct cm_id **ret)
{
	struct cm_id *id = handle < cm->n_handles ? cm->handles[handle] : NULL;

	if (!id)
		return -ENOENT;
	if (id->file != f)
		return -EINVAL;
	*ret = id;
	return 0;
}

/* id_new() - an idle identifier without a handle. NULL without memory. */
struct cm_id *id_new(struct cm *cm, struct cm_file *f, uint16_t ps, uint8_t qp_type)
{
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->file = f;
	id->ps = ps;
	id->qp_type = qp_type;
	id->conn.local_id = cm->next_comm_id++;
	id->conn.tid = (uint64_t)cm_random(cm) << 32 | id->conn.local_id;
	id->conn.rq_psn = cm_random(cm) & 0xffffff;
	id->conn.transport = qp_type == IBV_QPT_UC ? MAD_UC : MAD_RC;
	TAILQ_INSERT_TAIL(&cm->all, id, link);
	return id;
}

static void drop_events(struct cm *cm, struct cm_id *id)
{
	struct cm_event *e, *next;

	for (e = STAILQ_FIRST(&id->file->events); e; e = next) {
		next = STAILQ_NEXT(e, link);
		if (e->id != id)
			continue;
		STAILQ_REMOVE(&id->file->events, e, cm_event, link);
		if (e->request) {
			struct cm_id *request = e->request;

			free(e);
			id_destroy(cm, request);
			next = STAILQ_FIRST(&id->file->events);
		} else {
			free(e);
		}
	}
}

/* id_free() - without a word to anybody. */
void id_free(struct cm *cm, struct cm_id *id)
{
	while (!LIST_EMPTY(&id->groups))
		group_free(cm, LIST_FIRST(&id->groups));
	if (id->has_handle)
		cm->handles[id->handle] = NULL;
	TAILQ_REMOVE(&cm->all, id, link);
	free(id);
}

/* id_destroy() - with its unread events; the peer is told. */
void id_destroy(struct cm *cm, struct cm_id *id)
{
	struct conn_out out;

	conn_close(&id->conn, &out);
	id_send(cm, id, &out);
	drop_events(cm, id);
	id_free(cm, id);
}

/* event_new() - not queued yet; nothing but its heads is filled in. */
int event_new(struct cm *cm, struct cm_id *id, uint32_t event, int status, struct cm_event **ret)
{
	struct cm_event *e = calloc(1, sizeof(*e));

	(void)cm;
	if (!e)
		return -ENOMEM;
	e->id = id;
	e->resp.uid = id->uid;
	e->resp.id = id->handle;
	e->resp.event = event;
	e->resp.status = (uint32_t)status;
	*ret = e;
	return 0;
}

void event_queue(struct cm *cm, struct cm_event *e)
{
	struct cm_file *f = e->id->file;

	STAILQ_INSERT_TAIL(&f->events, e, link);
	cm->ops->readable(cm->arg, f);
}

/* event_conn() - the connection parameters of a message. */
void event_conn(struct cm_event *e, const struct mad *m)
{
	struct rdma_ucm_conn_param *p = &e->resp.param.conn;

	p->qp_num = m->qpn;
	p->private_data_len = m->private_len;
	memcpy(p->private_data, m->private_data, m->private_len);
	p->responder_resources = m->initiator_depth;
	p->initiator_depth = m->responder_resources;
	p->flow_control = m->flow_control;
	p->retry_count = m->retry_count;
	p->rnr_retry_count = m->rnr_retry_count;
	p->srq = m->srq;
}

/*
 * id_event() - one without parameters. What happens to a connection that the program has not taken
 * into its hands yet is not told: it finds out when it accepts.
 */
void id_event(struct cm *cm, struct cm_id *id, uint32_t event, int status)
{
	struct cm_event *e;

	if (!id->uid || event_new(cm, id, event, status, &e))
		return;
	event_queue(cm, e);
}

static struct cm_id *id_of_comm(struct cm *cm, uint32_t local_id)
{
	struct cm_id *id;

	TAILQ_FOREACH(id, &cm->all, link)
		if (id->conn.local_id == local_id && id->state == ID_CONNECT)
			return id;
	return NULL;
}

/* By the peer's ID, where it does not know ours. */
static struct cm_id *id_of_request(struct cm *cm, uint32_t remote_id, const struct cm_path *back)
{
	struct cm_id *id;

	TAILQ_FOREACH(id, &cm->all, link)
		if (id->passive && id->conn.state != CONN_IDLE && id->conn.remote_id == remote_id &&
		    !memcmp(id->conn.path.dgid, back->dgid, 16))
			return id;
	return NULL;
}

static struct cm_id *id_of_mad(struct cm *cm, const struct cm_path *back, const struct mad *m)
{
	struct cm_id *id;

	switch (m->attr) {
	case MAD_REQ:
	case MAD_SIDR_REQ:
		return id_of_request(cm, m->local_id, back);
	case MAD_SIDR_REP:
		return id_of_comm(cm, m->local_id);
	case MAD_REJ:
		if (m->rej.reason == MAD_REJ_TIMEOUT)
			return id_of_request(cm, m->local_id, back);
		break;
	}
	id = id_of_comm(cm, m->remote_id);
	/* The peer's ID must be the one that it had before, if it is known. */
	if (id && m->attr != MAD_REP && id->conn.state != CONN_REQ_SENT &&
	    id->conn.remote_id != m->local_id)
		return NULL;
	return id;
}

static void answer_stranger(struct cm *cm, const struct cm_path *back, const struct mad *m)
{
	struct mad answer = {.attr = MAD_DREP,
			     .tid = m->tid,
			     .local_id = m->remote_id,
			     .remote_id = m->local_id};
	uint8_t bytes[MAD_BYTES];

	if (m->attr != MAD_DREQ)
		return;
	mad_encode(&answer, bytes);
	cm->ops->send(cm->arg, back, bytes);
}

void cm_receive(struct cm *cm, const struct cm_path *back, const uint8_t *bytes, size_t len)
{
	struct conn_out out;
	struct cm_id *id;
	struct mad m;

	if (mad_decode(bytes, len, &m))
		return;
	id = id_of_mad(cm, back, &m);
	if (id) {
		conn_receive(&id->conn, &m, cm->now_ns, &out);
		id_send(cm, id, &out);
		id_conn_event(cm, id, &out, &m);
	} else if (m.attr == MAD_REQ || m.attr == MAD_SIDR_REQ) {
		cm_requested(cm, back, &m);
	} else {
		answer_stranger(cm, back, &m);
	}
}

static void earlier(uint64_t *t, uint64_t other)
{
	if (other && (!*t || other < *t))
		*t = other;
}

uint64_t cm_timers(struct cm *cm)
{
	uint64_t next = 0;
	struct cm_id *id;

	TAILQ_FOREACH(id, &cm->all, link) {
		struct conn_out out;

		conn_timer(&id->conn, cm->now_ns, &out);
		id_send(cm, id, &out);
		id_conn_event(cm, id, &out, NULL);
		if (id->resolve_at_ns && cm->now_ns >= id->resolve_at_ns)
			id_resolve_more(cm, id);
		earlier(&next, id->conn.deadline_ns);
		earlier(&next, id->resolve_at_ns);
	}
	return next;
}
