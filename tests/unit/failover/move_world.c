/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "move_world.h"

#include "proof.h"

struct world w;
bool trace;

struct event *schedule(uint64_t in_ns, enum event_type type, unsigned int end)
{
	struct event *event = &w.events[w.n_events];

	CHECK(w.n_events < MAX_EVENTS);
	w.n_events++;
	*event = (struct event){
		.at = w.now + in_ns, .type = type, .end = end, .life = w.ends[end].life};
	return event;
}

/* ---- network -----------------------------------------------------------------------------------
 */

/* What was sealed by somebody who does not know a PSN of the connection, or with none. */
static void seal_wrongly(struct mv_ctl_msg *msg)
{
	if (msg->from_psn != MV_CTL_PSN_NONE)
		msg->from_psn ^= 1 + rnd(0xffffff);
	else
		msg->to_psn ^= 1 + rnd(0xffffff);
	mv_proof_seal(msg, NULL);
	if (chance(10)) {
		msg->proof = 0;
		msg->tag = 0;
	}
}

/*
 * Somebody knows all of a message but the random numbers, or all but the PSNs, and says something
 * in its place: nothing may come of it.
 */
static void forge(unsigned int to, const struct mv_ctl_msg *msg)
{
	static const enum mv_ctl_type types[] = {MV_CTL_OFFER,  MV_CTL_ANSWER, MV_CTL_CONFIRM,
						 MV_CTL_REFUSE, MV_CTL_BYE,    MV_CTL_SYNC};
	struct event *event = schedule(rnd(50) * MS, EV_MESSAGE, to);

	event->msg = *msg;
	if (chance(50)) {
		if (chance(50))
			event->msg.type = types[rnd(sizeof(types) / sizeof(types[0]))];
		event->msg.to_attempt = w.ends[to].attempt;
		event->msg.to_nonce = w.ends[to].nonce;
		event->msg.attempt += rnd(3);
		seal_wrongly(&event->msg);
		return;
	}
	event->msg.type = types[rnd(sizeof(types) / sizeof(types[0]))];
	event->msg.flags ^= chance(50) ? MV_CTL_READY : 0;
	event->msg.to_attempt = w.ends[to].attempt;
	event->msg.to_nonce = a_nonce();
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
	TRACE("%u says %s flags %u attempt %u to %u, offer %u\n", from, mv_ctl_type_name(msg->type),
	      msg->flags, msg->attempt, msg->to_attempt, msg->request_id);
	CHECK(!mv_ctl_decode(buf, mv_ctl_encode(&sealed, buf), &copy));
	if (chance(10))
		forge(!from, msg);
	if (chance(w.unreachable)) {
		schedule(rnd(20) * MS, EV_UNREACHABLE, from);
		return;
	}
	if (network_loses(&w.net, w.now, &w.ends[from].lost_in_a_row))
		return;
	for (int i = 0; i < copies; i++) {
		/* Now and then one comes seconds later: of an earlier life, perhaps. */
		uint64_t delay = w.restarts && chance(5) ? rnd(5000) : rnd(w.delay_max_ms + 1);
		struct event *event = schedule(delay * MS + rnd(1000), EV_MESSAGE, !from);

		event->msg = copy;
	}
}

/* ---- what the caller does with actions ---------------------------------------------------------
 */

bool same(const struct mv_ctl_end *a, const struct mv_ctl_end *b)
{
	return a->qpn == b->qpn && mv_gid_equal(&a->gid, &b->gid);
}

static bool path_works(const struct end *e, const union ibv_gid *local)
{
	return !e->path_fails[local->raw[14] & 3];
}

static void do_prepare(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];

	CHECK(!e->qp.alive);
	CHECK(action->gid_type == MV_GID_TYPE_ROCE_V2);
	CHECK(action->local_gid.raw[15] == e->host); /* one of ours */
	e->qp = (struct path_qp){.self = {.gid = action->local_gid}};
	schedule(rnd(5) * MS, EV_OUTCOME, i)->ok =
		e->fails_by_connect || path_works(e, &action->local_gid);
}

static void do_connect(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];

	CHECK(e->qp.alive && !e->qp.can_receive);
	CHECK(mv_gid_equal(&action->local_gid, &e->qp.self.gid));
	e->qp.peer = action->peer;
	schedule(rnd(5) * MS, EV_OUTCOME, i)->ok =
		!e->fails_by_connect || path_works(e, &action->local_gid);
}

static void do_activate(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i], *o = &w.ends[!i];

	CHECK(e->qp.alive && e->qp.can_receive && !e->active && !e->passthrough);
	e->active = true;
	e->doubtful = action->timed_out;
	/* The heart of it; a peer that has been reset since then is another matter. */
	if (action->timed_out || e->m.attempts.peer != o->attempt)
		return;
	CHECK(o->qp.alive && o->qp.can_receive);
	CHECK(same(&e->qp.peer, &o->qp.self) && same(&o->qp.peer, &e->qp.self));
}

static void do_action(unsigned int i, const struct mv_move_action *action)
{
	static const char *const names[] = {"nothing",  "send",   "prepare", "connect",
					    "activate", "passthrough", "release"};
	struct end *e = &w.ends[i];

	if (action->type != MV_DO_SEND)
		TRACE("%u is to %s%s\n", i, names[action->type],
		      action->timed_out ? ", time is up" : "");
	switch (action->type) {
	case MV_DO_SEND:
		network_send(i, &action->msg);
		break;
	case MV_DO_PREPARE:
		do_prepare(i, action);
		break;
	case MV_DO_CONNECT:
		do_connect(i, action);
		break;
	case MV_DO_ACTIVATE:
		do_activate(i, action);
		break;
	case MV_DO_PASSTHROUGH:
		CHECK(!e->active && !e->passthrough && !e->qp.alive);
		e->passthrough = true;
		e->passthrough_type = action->gid_type;
		e->passthrough_timed_out = action->timed_out;
		e->passthrough_reason = action->reason;
		break;
	case MV_DO_RELEASE:
		CHECK(e->qp.alive && !e->active);
		e->qp.alive = false;
		break;
	case MV_DO_QUIESCE:
	case MV_DO_DRAIN: /* of a live QP: test_move_failover_property.c */
	case MV_DO_STAY:
	case MV_DO_FLUSH:
	case MV_DO_WANTED:
	case MV_DO_STANDBY:
	case MV_DO_NOTHING:
		CHECK(false);
	}
}

void drain(unsigned int i, bool by_message)
{
	struct mv_move_action action;
	unsigned int sends = 0;

	while (mv_move_next(&w.ends[i].m, &action)) {
		sends += action.type == MV_DO_SEND;
		do_action(i, &action);
	}
	/* Or two ends could keep each other busy. */
	CHECK(!by_message || sends <= 1);
}
