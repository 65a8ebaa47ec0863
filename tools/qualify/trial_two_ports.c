// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "stream.h"
#include "trial.h"

#define ROUNDS  20
#define FLAG_NS 10000000000ull

/* The other device, which sends to itself. */
struct flag {
	struct q_port *port;
	struct q_qp req, resp;
	struct q_mem from, to;
};

static int open_flag(struct flag *f)
{
	const struct q_size size = {.send_wr = 4, .recv_wr = 1, .sge = 1};
	int err = q_qp_make(f->port, &size, &f->req);

	if (!err)
		err = q_qp_make(f->port, &size, &f->resp);
	if (!err)
		err = q_mem_make(f->port, 4096, &f->from);
	return err ? err : q_mem_make(f->port, 4096, &f->to);
}

static void close_flag(struct flag *f)
{
	q_qp_end(&f->req);
	q_qp_end(&f->resp);
	q_mem_end(&f->from);
	q_mem_end(&f->to);
}

static enum mv_trial_verdict one(struct q_bench *b, struct stream *s, struct flag *f, struct mv_qualified_trial *t, uint32_t *ret_executed)
{
	struct q_way way = q_way(b, IBV_MTU_256);
	uint32_t executed, packet;
	int err;

	f->to.buf[0] = 0;
	f->from.buf[0] = 1;
	err = q_connect(&f->req, &f->resp, &way);
	if (!err)
		err = stream_cut(b, s, &executed);
	if (err)
		return q_broken(t, "large WRITEs", err);
	if (stream_is_beyond(s, executed))
		return q_fail(t, "rq_psn in ERR is beyond the last packet that was sent");
	err = q_post(&f->req, &(struct q_post){.opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .from = &f->from, .length = 1, .to = &f->to});
	if (err)
		return q_broken(t, "a flag by the other device", err);
	if (!q_wait_byte(f->to.buf, 1, FLAG_NS))
		return q_unsure(t, "a flag written by %s did not arrive within 10 s", f->port->device);
	if (stream_compare(s, executed, &packet))
		return q_fail(t, "the flag that %s wrote is there, but not packet %u of a pass of %u, which %s had executed before", f->port->device, packet, s->packets,
			      b->dut.device);
	*ret_executed = executed;
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict rounds(struct q_bench *b, struct stream *s, struct flag *f, struct mv_qualified_trial *t)
{
	enum mv_trial_verdict verdict;
	uint32_t n, cut = 0, executed = 0;

	for (n = 0; (n < ROUNDS || !cut) && q_has_time(b); n++) {
		s->passes = n < STREAM_SHORT || cut ? 1 : STREAM_PASSES;
		verdict = one(b, s, f, t, &executed);
		if (verdict != MV_TRIAL_PASS)
			return verdict;
		cut += stream_was_cut(s, executed);
	}
	q_figure(t, "rounds", n);
	q_figure(t, "rounds_cut", cut);
	return cut ? MV_TRIAL_PASS : q_unsure(t, "in none of %u rounds the queue pair reached ERR in the middle of the WRITEs", n);
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	struct flag f = {.port = b->second.ctx ? &b->second : b->away.ctx ? &b->away : NULL};
	enum mv_trial_verdict verdict;
	struct stream s;
	int err;

	if (!f.port && b->avoided)
		return q_unsure(t, "the other devices of this host carry others' traffic (%s): run it again when the host is idle", b->avoid);
	if (!f.port)
		return q_skip(t, "this host has no other device with an active port that is not excluded: there is none to move to, either");
	if (!b->reaches_itself)
		return q_skip(t, "%s does not reach itself", b->dut.device);
	err = stream_open(b, &b->dut, &b->dut, &s);
	if (err)
		return q_broken(t, "queue pairs and memory", err);
	err = open_flag(&f);
	verdict = err ? q_broken(t, "queue pairs and memory of the other device", err) : rounds(b, &s, &f, t);
	close_flag(&f);
	stream_close(&s);
	return verdict;
}

const struct q_trial trial_two_ports = {
	.name = "two-ports",
	.assumption =
		"What a drained device had executed is in host memory before anything that another device writes after the drain.",
	.source = "PCIe orders posted writes of one requester only; host memory. GPU memory is not tried",
	.run = run,
};
