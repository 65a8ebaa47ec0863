/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "failover_world.h"

#include "proof.h"

struct world w;

bool trace;
unsigned int n_connects, n_standbys; /* of all runs: CONNECTs; those with nothing left to do */
unsigned int n_expected, n_early; /* moves that began on a suspicion; ends that went on with what was agreed upon then */

struct event *schedule(uint64_t in_ns, enum event_type type, unsigned int end)
{
	struct event *event = &w.events[w.n_events];

	CHECK(w.n_events < MAX_EVENTS);
	w.n_events++;
	*event = (struct event){.at = w.now + in_ns, .type = type, .end = end};
	return event;
}

/*
 * Somebody knows all of a message but the random numbers, and says something in its place, or that a later life of its sender's has begun:
 * nothing may come of it.
 */
static void forge(unsigned int to, const struct mv_ctl_msg *msg)
{
	static const enum mv_ctl_type types[] = {MV_CTL_OFFER, MV_CTL_ANSWER, MV_CTL_CONFIRM, MV_CTL_REFUSE,
						 MV_CTL_BYE,   MV_CTL_SYNC,   MV_CTL_HELLO,   MV_CTL_STANDBY};
	struct event *event = schedule(rnd(50) * MS, EV_MESSAGE, to);

	event->msg = *msg;
	/* Who is still connecting begins anew with a later life of its peer's. */
	event->msg.type = types[rnd(sizeof(types) / sizeof(types[0]) - (w.held ? 2 : 0))];
	event->msg.flags ^= chance(50) ? MV_CTL_READY : 0;
	event->msg.to_attempt = w.ends[to].attempt;
	event->msg.to_nonce = a_nonce();
	if (event->msg.type == MV_CTL_HELLO) {
		event->msg.flags |= MV_CTL_MOVE;
		event->msg.reason = MV_CTL_REASON_NONE;
		event->msg.to_attempt = 0;
		event->msg.attempt += w.ends[to].m.attempts.peer_knows_us ? 1 + rnd(3) : 0;
	}
	if (chance(50))
		event->msg.nonce = a_nonce();
	mv_proof_seal(&event->msg, NULL);
}

void network_send(unsigned int from, const struct mv_ctl_msg *msg)
{
	uint8_t buf[MV_CTL_MAX_BYTES];
	struct mv_ctl_msg copy, sealed = *msg;
	int copies = 1 + chance(w.repeat);

	w.n_messages++;
	mv_proof_seal(&sealed, NULL);
	TRACE("%u says %s flags %u number %u base %u reason %u\n", from,
	      mv_ctl_type_name(msg->type), msg->flags, msg->request_id, msg->base, msg->reason);
	CHECK(!mv_ctl_decode(buf, mv_ctl_encode(&sealed, buf), &copy));
	if (chance(10))
		forge(!from, msg);
	if (network_loses(&w.net, w.now, &w.ends[from].lost_in_a_row))
		return;
	for (int i = 0; i < copies; i++) {
		/* Now and then one comes when the next move, or the one after it, is under way. */
		uint64_t delay = chance(5) ? rnd(3000) : rnd(w.delay_max_ms + 1);

		schedule(delay * MS + rnd(1000), EV_MESSAGE, !from)->msg = copy;
	}
}

bool same(const struct mv_ctl_end *a, const struct mv_ctl_end *b)
{
	return a->qpn == b->qpn && mv_gid_equal(&a->gid, &b->gid);
}

struct qp *make_qp(struct end *e, unsigned int path, const union ibv_gid *gid)
{
	struct qp *qp = &e->qps[e->n_qps];

	CHECK(e->n_qps < MAX_QPS);
	e->n_qps++;
	*qp = (struct qp){.alive = true, .path = path, .self = {.gid = *gid, .qpn = ++w.next_qpn}};
	return qp;
}

struct qp *peer_of(unsigned int i, const struct qp *qp)
{
	struct end *o = &w.ends[!i];

	for (size_t q = 0; q < o->n_qps; q++)
		if (o->qps[q].connected && same(&o->qps[q].self, &qp->peer) &&
		    same(&o->qps[q].peer, &qp->self))
			return &o->qps[q];
	return NULL;
}

/* What was sent may arrive until the receiver is drained, whatever the sender does. */
static void arrive(unsigned int i, struct qp *qp)
{
	struct qp *peer = peer_of(i, qp);
	struct end *o = &w.ends[!i];

	if (!peer || !peer->alive || peer->err || !w.up[qp->path] || o->dead)
		return;
	while (peer->executed < qp->sent && chance(70)) {
		CHECK(peer->peer_psn == qp->my_psn);
		/* The heart of it: each once, in order. */
		CHECK(qp->first_wr + peer->executed == o->executed);
		peer->executed++;
		o->executed++;
	}
}

static void acknowledge(unsigned int i)
{
	struct end *e = &w.ends[i];
	struct qp *peer = e->work ? peer_of(i, e->work) : NULL;
	unsigned int known;

	if (!peer || !peer->alive || peer->err || e->work->err || !w.up[e->work->path])
		return;
	known = e->work->first_wr + peer->executed;
	if (known > e->completed)
		e->completed += rnd(known - e->completed + 1);
}

void traffic(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct end *e = &w.ends[i];

		if (!e->dead && !e->failed && e->posted - e->completed < 20)
			e->posted += rnd(3);
		if (!e->dead && e->work && !e->work->err && !e->quiet && e->posted > e->work->first_wr)
			e->work->sent = e->posted - e->work->first_wr;
		for (size_t q = 0; q < e->n_qps; q++)
			arrive(i, &e->qps[q]);
		if (!e->dead)
			acknowledge(i);
		/* No work request is completed that was not executed. */
		CHECK(e->completed <= w.ends[!i].executed);
	}
}

union ibv_gid path_gid(unsigned int path, uint8_t host)
{
	union ibv_gid gid = unit_gid("10.9.0.0");

	gid.raw[14] = (uint8_t)path;
	gid.raw[15] = host;
	return gid;
}
