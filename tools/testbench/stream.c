// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "stream.h"

#include <string.h>

#include "psn.h"

#define WATCH_NS 500000000ull
#define ROUNDS   20 /* with each kind of memory */

int stream_open(struct q_port *req, struct q_port *resp, const struct q_kind *kind, struct stream *s)
{
	const struct q_size size = {.send_wr = STREAM_SLOTS * STREAM_PASSES, .recv_wr = 1, .sge = 1};
	int err;

	memset(s, 0, sizeof(*s));
	s->kind = kind;
	s->mtu = q_mtu_bytes(req->active_mtu < resp->active_mtu ? req->active_mtu : resp->active_mtu);
	s->packets = (uint32_t)(STREAM_BYTES / s->mtu);
	err = q_qp_make(req, &size, &s->req);
	if (!err)
		err = q_qp_make(resp, &size, &s->resp);
	if (!err)
		err = q_mem_make(req, (size_t)STREAM_PASSES * STREAM_MESSAGE, &s->from);
	if (!err)
		err = q_mem_make_of(resp, kind, STREAM_BYTES, &s->to);
	for (uint32_t p = 0; p < STREAM_PASSES && !err; p++)
		memset(s->from.buf + (size_t)p * STREAM_MESSAGE, (int)p + 1, STREAM_MESSAGE);
	if (err)
		stream_close(s);
	return err;
}

void stream_close(struct stream *s)
{
	q_qp_end(&s->req);
	q_qp_end(&s->resp);
	q_mem_end(&s->from);
	q_mem_end(&s->to);
}

static int post_all(struct stream *s)
{
	uint32_t n = s->passes * STREAM_SLOTS;
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++)
		err = q_post(&s->req, &(struct q_post){.wr_id = i,
						       .opcode = IBV_WR_RDMA_WRITE,
						       .flags = i + 1 == n ? IBV_SEND_SIGNALED : 0,
						       .from = &s->from,
						       .from_at = (size_t)(i / STREAM_SLOTS) * STREAM_MESSAGE,
						       .length = STREAM_MESSAGE,
						       .to = &s->to,
						       .to_at = (size_t)(i % STREAM_SLOTS) * STREAM_MESSAGE});
	return err;
}

/* Waits for some packet of the first half. */
static int watch(struct q_bench *b, struct stream *s)
{
	uint32_t target = q_random(b, s->passes * s->packets / 2);
	size_t at = (size_t)(target % s->packets) * s->mtu;
	uint64_t began_ns = q_now_ns();
	int err;

	do
		err = q_mem_get(&s->to, at, 1);
	while (!err && s->to.buf[at] <= target / s->packets && q_now_ns() - began_ns < WATCH_NS);
	return err;
}

int stream_cut(struct q_bench *b, struct stream *s, uint32_t *ret_executed)
{
	struct q_way way = q_way(b, IBV_MTU_256);
	uint32_t psn;
	int err;

	for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
		if (q_mtu_bytes((enum ibv_mtu)mtu) == s->mtu)
			way.mtu = (enum ibv_mtu)mtu;
	s->psn = way.psn;
	err = q_mem_clear(&s->to);
	if (!err)
		err = q_connect(&s->req, &s->resp, &way);
	if (!err)
		err = post_all(s);
	if (!err)
		err = watch(b, s);
	if (!err)
		err = q_to(&s->resp, IBV_QPS_ERR);
	if (!err)
		err = q_rq_psn(&s->resp, &psn);
	if (!err)
		*ret_executed = mv_psn_ahead(s->psn, psn);
	return err;
}

bool stream_is_beyond(const struct stream *s, uint32_t executed)
{
	return executed > s->passes * s->packets;
}

bool stream_was_cut(const struct stream *s, uint32_t executed)
{
	return executed && executed < s->passes * s->packets;
}

/* -1: a part of the packet's place is too old; 1: too new. */
static int compare_packet(const struct stream *s, uint32_t executed, uint32_t packet)
{
	uint8_t should = (uint8_t)(executed / s->packets + (packet < executed % s->packets));
	const uint8_t *at = s->to.buf + (size_t)packet * s->mtu;

	if (at[0] == should && !memcmp(at, at + 1, s->mtu - 1))
		return 0;
	for (uint32_t i = 0; i < s->mtu; i++)
		if (at[i] > should)
			return 1;
	return -1;
}

int stream_compare(struct stream *s, uint32_t executed, int *ret_differs, uint32_t *ret_packet)
{
	uint32_t last = (executed + s->packets - 1) % s->packets, packet = last;
	/* The first packet is read alone, as early as can be. */
	int err = q_mem_get(&s->to, (size_t)last * s->mtu, s->mtu), differs = 0;

	for (uint32_t i = 0; i < s->packets && !err && !differs; i++) {
		if (i == 1)
			err = q_mem_get(&s->to, 0, s->to.bytes);
		packet = (last + s->packets - i) % s->packets;
		if (!err)
			differs = compare_packet(s, executed, packet);
	}
	if (err)
		return err;
	*ret_differs = differs;
	*ret_packet = packet;
	return 0;
}

enum mv_trial_verdict stream_rounds(struct q_bench *b, struct stream *s, struct mv_qualified_trial *t,
				    enum mv_trial_verdict (*round)(struct q_bench *b, struct stream *s, uint32_t n, void *arg,
								   struct mv_qualified_trial *t, uint32_t *ret_executed),
				    void *arg)
{
	uint32_t n, cut = 0, executed = 0;
	enum mv_trial_verdict verdict;

	for (n = 0; (n < ROUNDS || (!cut && !s->kind->is_optional)) && q_has_time(b); n++) {
		s->passes = n < STREAM_SHORT || cut ? 1 : STREAM_PASSES;
		verdict = round(b, s, n, arg, t, &executed);
		if (verdict != MV_TRIAL_PASS)
			return verdict;
		cut += stream_was_cut(s, executed);
	}
	q_figure(t, s->kind->figure, n);
	q_figure(t, s->kind->figure_cut, cut);
	if (cut || s->kind->is_optional)
		return MV_TRIAL_PASS;
	return q_unsure(t, "%s: in none of %u rounds the queue pair reached ERR in the middle of the WRITEs", s->kind->name, n);
}

enum mv_trial_verdict stream_kinds(struct q_bench *b, struct mv_qualified_trial *t,
				   enum mv_trial_verdict (*trial)(struct q_bench *b, const struct q_kind *kind,
								  struct mv_qualified_trial *t))
{
	enum mv_trial_verdict verdict = MV_TRIAL_PASS;

	for (size_t i = 0; i < Q_KINDS; i++) {
		q_figure(t, b->kinds[i].figure, 0);
		q_figure(t, b->kinds[i].figure_cut, 0);
	}
	for (size_t i = 0; i < Q_KINDS && verdict == MV_TRIAL_PASS; i++)
		if (b->kinds[i].is_there)
			verdict = trial(b, &b->kinds[i], t);
	return verdict;
}
