// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "stream.h"
#include "trial.h"

#define FLAG_NS 10000000000ull

/* The other device, which sends to itself, into the same kind of memory. */
struct flag {
	struct q_port *port;
	struct q_qp req, resp;
	struct q_mem from, to;
};

static int open_flag(struct flag *f, const struct q_kind *kind)
{
	const struct q_size size = {.send_wr = 4, .recv_wr = 1, .sge = 1};
	int err = q_qp_make(f->port, &size, &f->req);

	if (!err)
		err = q_qp_make(f->port, &size, &f->resp);
	if (!err)
		err = q_mem_make(f->port, 4096, &f->from);
	return err ? err : q_mem_make_of(f->port, kind, 4096, &f->to);
}

static void close_flag(struct flag *f)
{
	q_qp_end(&f->req);
	q_qp_end(&f->resp);
	q_mem_end(&f->from);
	q_mem_end(&f->to);
}

static enum mv_trial_verdict one(struct q_bench *b, struct stream *s, uint32_t n, void *arg, struct mv_qualified_trial *t,
				 uint32_t *ret_executed)
{
	struct q_way way = q_way(b, IBV_MTU_256);
	uint32_t executed, packet;
	struct flag *f = arg;
	int err, differs;

	(void)n;
	f->from.buf[0] = 1;
	err = q_mem_clear(&f->to);
	if (!err)
		err = q_connect(&f->req, &f->resp, &way);
	if (!err)
		err = stream_cut(b, s, &executed);
	if (err)
		return q_kind_broken(t, s->kind, "large WRITEs", err);
	if (stream_is_beyond(s, executed))
		return q_fail(t, "%s: rq_psn in ERR is beyond the last packet that was sent", s->kind->name);
	err = q_post(
		&f->req,
		&(struct q_post){.opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .from = &f->from, .length = 1, .to = &f->to});
	if (!err)
		err = q_mem_wait(&f->to, 0, 1, FLAG_NS);
	if (err == -ETIMEDOUT)
		return q_unsure(t, "%s: a flag written by %s did not arrive within 10 s", s->kind->name, f->port->device);
	if (!err)
		err = stream_compare(s, executed, &differs, &packet);
	if (err)
		return q_kind_broken(t, s->kind, "a flag by the other device", err);
	if (differs)
		return q_fail(t, "%s: the flag that %s wrote is there, but not packet %u of a pass of %u, which %s had executed before",
			      s->kind->name, f->port->device, packet, s->packets, b->dut.device);
	*ret_executed = executed;
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict with_kind(struct q_bench *b, const struct q_kind *kind, struct mv_qualified_trial *t)
{
	struct flag f = {.port = b->second.ctx ? &b->second : &b->away};
	enum mv_trial_verdict verdict;
	struct stream s;
	int err = stream_open(&b->dut, &b->dut, kind, &s);

	if (!err) {
		err = open_flag(&f, kind);
		verdict = err ? MV_TRIAL_PASS : stream_rounds(b, &s, t, one, &f);
		close_flag(&f);
		stream_close(&s);
	}
	if (err)
		return kind->is_optional ? MV_TRIAL_PASS : q_kind_broken(t, kind, "queue pairs and memory of both devices", err);
	return verdict;
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	bool has_other = b->second.ctx || b->away.ctx;

	if (!has_other && b->avoided)
		return q_unsure(t, "the other devices of this host carry others' traffic (%s): run it again when the host is idle",
				b->avoid);
	if (!has_other)
		return q_skip(t,
			      "this host has no other device with an active port that is not excluded: there is none to move to, either");
	if (!b->reaches_itself)
		return q_skip(t, "%s does not reach itself", b->dut.device);
	return stream_kinds(b, t, with_kind);
}

const struct q_trial trial_two_ports = {
	.name = "two-ports",
	.assumption = "What a drained device had executed is in memory before anything that another device writes after the drain.",
	.source = "PCIe orders posted writes of one requester only",
	.run = run,
};
