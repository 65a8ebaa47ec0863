// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <endian.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Queue pairs that are connected to themselves, in plain verbs: each work request has to be
 * executed once, and in its turn. */

static const char usage[] = "usage: chaos-self [-d DEVICE] [-q N] [-r ROUNDS] [-R N] [-a] [-c] [-A]\n"
			    "\n"
			    "Rounds of SEND with immediate data, WRITE, READ of what was written, "
			    "and with -a FETCH_ADD, over queue pairs that are connected\n"
			    "to themselves, so many rounds per second and queue pair (default: "
			    "200), until standard input ends. -R: retry_cnt (7).\n"
			    "-c: one more, which does nothing, is connected to that of another "
			    "such program: their numbers and GIDs are lines of standard\n"
			    "output and input. It has the same CQ.\n"
			    "-A: they allow no remote access before they are in RTS; once more: "
			    "nor while no round is outstanding.\n"
			    "\n"
			    "Exit status: 0 all was right; 1 something was not; 3 stuck; 5 right, "
			    "but work requests failed.\n";

#define DEPTH      8u /* rounds that are outstanding */
#define MAX_QPS    16u
#define BYTES      3000u /* of each message: three packets */
#define LINE       4096u
#define PATIENCE_S 60
#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

enum kind { SEND, WRITE, READ, ADD, RECV, N_KINDS };

/* What a round has in memory, each in a line of its own. */
enum place { FROM, INBOX, SLOT, BACK, COUNTER, RESULT, N_PLACES };

struct self {
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory;
	uint64_t n_begun, n_read, n_added, n_received; /* rounds */
	uint64_t last; /* wr_id of the last send that completed, plus one */
	unsigned int n_errors;
	bool closed; /* with -A: no remote access is allowed */
};

static struct {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	union ibv_gid gid;
	uint8_t gid_index;
	struct self selves[MAX_QPS];
	struct ibv_qp *other; /* NULL: none */
	unsigned int n, rounds_per_s, retry_cnt;
	unsigned int changes; /* -A: 1: one; 2: with each round */
	bool atomics;
} t = {.n = 1, .rounds_per_s = 200, .retry_cnt = 7};

__attribute__((format(printf, 1, 2), noreturn)) static void wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("WRONG: ");
	vprintf(format, args);
	puts("");
	va_end(args);
	fflush(NULL);
	_exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint8_t *place(const struct self *s, enum place what, uint64_t round)
{
	return s->memory + (what * DEPTH + (what == COUNTER ? 0 : round % DEPTH)) * LINE;
}

static uint8_t byte_of(uint64_t round, unsigned int i)
{
	return (uint8_t)(1 + (round * 31 + i * 7 + (i >> 8)) % 255); /* never 0 */
}

static void check(const struct self *s, enum place what, uint64_t round, bool empty,
		  const char *name)
{
	const uint8_t *at = place(s, what, round);
	unsigned int i;

	for (i = 0; i < BYTES; i++)
		if (at[i] != (empty ? 0 : byte_of(round, i)))
			wrong("QP 0x%x, round %llu: byte %u of %s is %02x%s", s->qp->qp_num,
			      (unsigned long long)round, i, name, at[i],
			      empty ? " and was not to be there" : "");
}

/* ---- objects
 * -------------------------------------------------------------------------------------------------
 */

static void *must(void *made, const char *what)
{
	if (!made)
		wrong("%s: cannot be made: %m", what);
	return made;
}

static void open_device(const char *name)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL), "list");
	struct ibv_gid_entry entries[64];
	ssize_t n, i;

	for (i = 0; list[i] && strcmp(ibv_get_device_name(list[i]), name); i++)
		;
	t.ctx = must(list[i] ? ibv_open_device(list[i]) : NULL, name);
	ibv_free_device_list(list);
	n = ibv_query_gid_table(t.ctx, entries, 64, 0);
	for (i = 0; i < n; i++) {
		if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2 || entries[i].gid.raw[10] != 0xff)
			continue;
		t.gid = entries[i].gid;
		t.gid_index = (uint8_t)entries[i].gid_index;
	}
	t.pd = must(ibv_alloc_pd(t.ctx), "PD");
	t.cq = must(ibv_create_cq(t.ctx, (int)(t.n * DEPTH * N_KINDS), NULL, NULL, 0), "CQ");
}

static void connect(struct ibv_qp *qp, uint32_t qpn, const union ibv_gid *gid)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = t.changes ? IBV_ACCESS_LOCAL_WRITE : ALL_ACCESS};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.rq_psn = 0xfffff0, /* wraps soon */
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = *gid, .sgid_index = t.gid_index, .hop_limit = 1}}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .sq_psn = 0xfffff0,
				  .timeout = 14,
				  .retry_cnt = (uint8_t)t.retry_cnt,
				  .rnr_retry = 7,
				  .max_rd_atomic = 4};

	if (ibv_modify_qp(qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    ibv_modify_qp(qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(qp, &rts,
			  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
		wrong("QP 0x%x cannot be connected: %m", qp->qp_num);
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr attr = {.send_cq = t.cq,
					.recv_cq = t.cq,
					.cap = {.max_send_wr = DEPTH * RECV,
						.max_recv_wr = DEPTH,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};

	return must(ibv_create_qp(t.pd, &attr), "QP");
}

static void open_other(void)
{
	union ibv_gid gid;
	uint32_t qpn;
	unsigned int i;

	t.other = make_qp();
	printf("%u", t.other->qp_num);
	for (i = 0; i < sizeof(gid.raw); i++)
		printf(" %u", t.gid.raw[i]);
	puts("");
	if (scanf("%u", &qpn) != 1)
		wrong("nothing to connect to");
	for (i = 0; i < sizeof(gid.raw); i++)
		if (scanf("%hhu", &gid.raw[i]) != 1)
			wrong("no GID to connect to");
	connect(t.other, qpn, &gid);
}

static void open_self(struct self *s)
{
	size_t size = (size_t)N_PLACES * DEPTH * LINE;

	s->memory = must(aligned_alloc(4096, size), "memory");
	memset(s->memory, 0, size);
	s->mr = must(ibv_reg_mr(t.pd, s->memory, size, ALL_ACCESS), "MR");
	s->qp = make_qp();
	connect(s->qp, s->qp->qp_num, &t.gid);
	s->closed = t.changes > 0;
}

static void allow(struct self *s, bool all)
{
	struct ibv_qp_attr attr = {.qp_access_flags = all ? ALL_ACCESS : IBV_ACCESS_LOCAL_WRITE,
				   .min_rnr_timer = all ? 1 : 2};
	int err = ibv_modify_qp(s->qp, &attr, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER);

	if (err)
		wrong("QP 0x%x: what it allows cannot be changed: %s", s->qp->qp_num,
		      strerror(err));
	s->closed = !all;
}

/* ---- a round
 * -------------------------------------------------------------------------------------------------
 */

static uint64_t id_of(uint64_t round, enum kind kind)
{
	return round * N_KINDS + kind;
}

static void post_recv(struct self *s, uint64_t round)
{
	struct ibv_sge sge = {(uintptr_t)place(s, INBOX, round), LINE, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id_of(round, RECV), .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(s->qp, &wr, &bad))
		wrong("QP 0x%x takes no receive: %m", s->qp->qp_num);
}

static void post(struct self *s, uint64_t round, enum kind kind)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		enum place local, remote;
		uint32_t bytes;
	} kinds[] = {
		[SEND] = {IBV_WR_SEND_WITH_IMM, FROM, FROM, BYTES},
		[WRITE] = {IBV_WR_RDMA_WRITE, FROM, SLOT, BYTES},
		[READ] = {IBV_WR_RDMA_READ, BACK, SLOT, BYTES},
		[ADD] = {IBV_WR_ATOMIC_FETCH_AND_ADD, RESULT, COUNTER, 8},
	};
	struct ibv_sge sge = {(uintptr_t)place(s, kinds[kind].local, round), kinds[kind].bytes,
			      s->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id_of(round, kind),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = kinds[kind].opcode,
				 /* Of those that a READ stands behind, some are unsignaled. */
				 .send_flags = kind >= READ || round % 3 ? IBV_SEND_SIGNALED : 0,
				 .imm_data = htobe32((uint32_t)round)},
			   *bad;

	if (kind == ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)place(s, COUNTER, 0);
		wr.wr.atomic.rkey = s->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)place(s, kinds[kind].remote, round);
		wr.wr.rdma.rkey = s->mr->rkey;
	}
	if (ibv_post_send(s->qp, &wr, &bad))
		wrong("QP 0x%x takes no work request: %m", s->qp->qp_num);
}

static uint64_t n_done(const struct self *s)
{
	uint64_t n = s->n_read < s->n_received ? s->n_read : s->n_received;

	return t.atomics && s->n_added < n ? s->n_added : n;
}

static void begin(struct self *s)
{
	uint64_t round = s->n_begun++;
	unsigned int i;

	if (s->closed)
		allow(s, true);
	check(s, SLOT, round, true, "what was taken away after the last WRITE");
	for (i = 0; i < BYTES; i++)
		place(s, FROM, round)[i] = byte_of(round, i);
	memset(place(s, INBOX, round), 0, BYTES);
	memset(place(s, BACK, round), 0, BYTES);
	post_recv(s, round);
	post(s, round, SEND);
	post(s, round, WRITE);
	post(s, round, READ);
	if (t.atomics)
		post(s, round, ADD);
}

/* ---- completions
 * --------------------------------------------------------------------------------------------- */

static void received(struct self *s, const struct ibv_wc *wc, uint64_t round)
{
	if (wc->opcode != IBV_WC_RECV || wc->byte_len != BYTES ||
	    be32toh(wc->imm_data) != (uint32_t)round || round != s->n_received)
		wrong("QP 0x%x: received %u bytes, number %u, opcode %u, in round %llu",
		      s->qp->qp_num, wc->byte_len, be32toh(wc->imm_data), wc->opcode,
		      (unsigned long long)round);
	check(s, INBOX, round, false, "what was received");
	s->n_received++;
}

static void was_read(struct self *s, uint64_t round)
{
	if (round != s->n_read)
		wrong("QP 0x%x: READ of round %llu, not %llu", s->qp->qp_num,
		      (unsigned long long)round, (unsigned long long)s->n_read);
	check(s, BACK, round, false, "what was read");
	check(s, SLOT, round, false, "what was written");
	memset(place(s, SLOT, round), 0, BYTES); /* and has to stay so */
	s->n_read++;
}

static void added(struct self *s, uint64_t round)
{
	uint64_t before;

	memcpy(&before, place(s, RESULT, round), sizeof(before));
	if (round != s->n_added || before != round)
		wrong("QP 0x%x: FETCH_ADD of round %llu returned %llu", s->qp->qp_num,
		      (unsigned long long)round, (unsigned long long)before);
	s->n_added++;
}

static void failed(struct self *s, const struct ibv_wc *wc)
{
	enum ibv_wc_status want = s->n_errors++ ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR;

	if (wc->status != want &&
	    !(s->n_errors == 1 && wc->wr_id % N_KINDS == RECV && wc->status == IBV_WC_WR_FLUSH_ERR))
		wrong("QP 0x%x: %s", s->qp->qp_num, ibv_wc_status_str(wc->status));
	printf("QP 0x%x: round %llu: %s\n", s->qp->qp_num,
	       (unsigned long long)(wc->wr_id / N_KINDS), ibv_wc_status_str(wc->status));
	if (wc->status == IBV_WC_WR_FLUSH_ERR && s->n_errors == 1)
		s->n_errors = 0; /* a receive may be polled before what failed */
}

static void completed(struct self *s, const struct ibv_wc *wc)
{
	uint64_t round = wc->wr_id / N_KINDS;
	enum kind kind = wc->wr_id % N_KINDS;

	if (round >= s->n_begun || (kind != RECV && wc->wr_id < s->last))
		wrong("QP 0x%x: work request %llu completes after %llu", s->qp->qp_num,
		      (unsigned long long)wc->wr_id, (unsigned long long)s->last);
	if (kind != RECV)
		s->last = wc->wr_id + 1;
	if (wc->status) {
		failed(s, wc);
		return;
	}
	if (s->n_errors)
		wrong("QP 0x%x: round %llu: right after an error", s->qp->qp_num,
		      (unsigned long long)round);
	if (kind < READ && round % 3 == 0)
		wrong("QP 0x%x: round %llu: unsignaled, and completes", s->qp->qp_num,
		      (unsigned long long)round);
	if (kind == RECV)
		received(s, wc, round);
	else if (kind == READ)
		was_read(s, round);
	else if (kind == ADD)
		added(s, round);
}

static bool look(void)
{
	struct ibv_wc wcs[16];
	int n = ibv_poll_cq(t.cq, 16, wcs), i;
	unsigned int q;

	for (i = 0; i < n; i++) {
		for (q = 0; q < t.n && t.selves[q].qp->qp_num != wcs[i].qp_num; q++)
			;
		if (q == t.n)
			wrong("a completion of QP 0x%x", wcs[i].qp_num);
		completed(&t.selves[q], &wcs[i]);
	}
	if (n < 0)
		wrong("CQ: %d", n);
	return n;
}

static bool ended(void)
{
	struct pollfd in = {.events = POLLIN};
	char c;

	return poll(&in, 1, 0) > 0 && read(0, &c, 1) <= 0;
}

static bool any_failed(void)
{
	unsigned int q;

	for (q = 0; q < t.n && !t.selves[q].n_errors; q++)
		;
	return q < t.n;
}

static int run(void)
{
	uint64_t next = now_ns(), moved = next, n_rounds = 0, n_open;
	bool stop = false;
	unsigned int q;

	do {
		stop = stop || ended() || any_failed();
		if (look())
			moved = now_ns();
		else
			usleep(500);
		n_open = 0;
		for (q = 0; q < t.n; q++) {
			n_open += t.selves[q].n_begun - n_done(&t.selves[q]);
			if (t.changes > 1 && !t.selves[q].closed && !t.selves[q].n_errors &&
			    t.selves[q].n_begun == n_done(&t.selves[q]))
				allow(&t.selves[q], false);
		}
		if (!stop && now_ns() >= next) {
			next = now_ns() + 1000000000u / t.rounds_per_s;
			for (q = 0; q < t.n; q++)
				if (t.selves[q].n_begun - n_done(&t.selves[q]) < DEPTH)
					begin(&t.selves[q]);
		}
		if (any_failed() && now_ns() > moved + 1000000000u)
			break; /* what is to be flushed has been */
		if (n_open && now_ns() > moved + PATIENCE_S * 1000000000ull) {
			puts("stuck");
			return 3;
		}
	} while (!stop || n_open);
	for (q = 0; q < t.n; q++)
		n_rounds += n_done(&t.selves[q]);
	printf("%llu rounds, all right\n", (unsigned long long)n_rounds);
	return any_failed() ? 5 : 0;
}

int main(int argc, char *argv[])
{
	const char *device = "mlx5_0";
	bool other = false;
	unsigned int q;
	int c, rc;

	while ((c = getopt(argc, argv, "d:q:r:R:acA")) > 0) {
		if (c == 'd')
			device = optarg;
		else if (c == 'q')
			t.n = (unsigned int)atoi(optarg);
		else if (c == 'r')
			t.rounds_per_s = (unsigned int)atoi(optarg);
		else if (c == 'R')
			t.retry_cnt = (unsigned int)atoi(optarg);
		else if (c == 'a')
			t.atomics = true;
		else if (c == 'A')
			t.changes++;
		else
			other = c == 'c';
		if (c == '?' || !t.n || t.n > MAX_QPS || !t.rounds_per_s || t.retry_cnt > 7) {
			fputs(usage, stderr);
			return 2;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_device(device);
	if (other)
		open_other();
	for (q = 0; q < t.n; q++)
		open_self(&t.selves[q]);
	puts("begun");
	rc = run();
	for (q = 0; q < t.n; q++)
		ibv_destroy_qp(t.selves[q].qp);
	if (t.other)
		ibv_destroy_qp(t.other);
	return rc;
}
