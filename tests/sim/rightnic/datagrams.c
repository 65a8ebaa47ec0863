// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Datagrams between two hosts, and everything that a program can see of them.
 *
 *    datagrams [-e] [-w] [-r] [-c] [-n ROUNDS] [-t SECONDS] [-u FILE] [-a TIMES] -d DEVICE -g GID_INDEX -p TCP_PORT [SERVER]
 *       -e  sleep for completion events    -w  post with ibv_wr_*()
 *       -r  the server answers to where a datagram came from, by its completion
 *       -c  after -n rounds close the device as others in the process have opened it, which is not the program's to do,
 *           and then as many rounds again
 *       -t  more rounds than -n says, for so long
 *       -u  more rounds than -n says, until there is FILE, and then as many again
 *       -a  send one at most so often until its echo is there, every 0.3 s (400)
 *
 * Each side has two queue pairs; number i of one talks to number i of the other. The client sends and waits for the
 * echo, and sends again, as one has to with datagrams. Exit status: 0; 2 when nothing comes back; 1 for everything else.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define QKEY	0x11223344u
#define GRH	40u
#define MAX	4096u
#define SLOTS	64u
#define QPS	2u
#define PATIENCE_MS 300
#define REST_US	100 /* from one poll that found nothing to the next: other tests want the processor */

struct end {
	union ibv_gid gid;
	uint32_t qpn[QPS];
	uint16_t lid;
};

static struct {
	bool events, wr, reply, closes;
	unsigned int rounds, tries;
	long ms;
	const char *device, *server, *until;
	uint8_t gid_index;
	uint16_t port;
} opt = {.rounds = 20, .tries = 400};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qps[QPS];
static struct ibv_mr *mr;
static uint8_t *memory; /* SLOTS to receive into, then one to send from for each QP */
static struct end mine, theirs;
static uint32_t mtu_bytes;
static bool infiniband; /* the simulator has no GRHs there */
static unsigned int unpolled; /* sends */
static uint64_t last_sent[QPS], last_done[QPS];
static long longest_ms; /* that an answer took */

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int status, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(status);
}

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what))                                                                                           \
			fail(1, "line %d: %s: %m", __LINE__, #what);                                                   \
	} while (0)

static uint8_t *slot(unsigned int i)
{
	return memory + (size_t)i * (GRH + MAX);
}

static void post_recv(unsigned int i, unsigned int q)
{
	struct ibv_sge sge = {.addr = (uintptr_t)slot(i), .length = GRH + MAX, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(qps[q], &wr, &bad));
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;
	unsigned int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), opt.device))
			context = ibv_open_device(list[i]);
	CHECK(context);
	ibv_free_device_list(list);
	CHECK(!ibv_query_port(context, 1, &port));
	mtu_bytes = 128u << port.active_mtu;
	infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
	mine.lid = port.lid;
	CHECK(!ibv_query_gid(context, 1, opt.gid_index, &mine.gid));
	pd = ibv_alloc_pd(context);
	channel = opt.events ? ibv_create_comp_channel(context) : NULL;
	cq = ibv_create_cq(context, 4 * SLOTS, NULL, channel, 0);
	CHECK(cq);
	memory = aligned_alloc(4096, (SLOTS + QPS) * (GRH + MAX) / 4096 * 4096 + 4096);
	CHECK(memory);
	mr = ibv_reg_mr(pd, memory, (SLOTS + QPS) * (GRH + MAX), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = SLOTS, .max_recv_wr = SLOTS, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 64},
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (opt.wr ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

/* ---- the programs' own connection ---------------------------------------------------------------------------- */

static int call(void)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *info;
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(opt.port)};
	char port[8];
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, listener;

	if (opt.server) {
		snprintf(port, sizeof(port), "%u", opt.port);
		CHECK(!getaddrinfo(opt.server, port, &hints, &info));
		CHECK(!connect(fd, info->ai_addr, info->ai_addrlen));
		freeaddrinfo(info);
		return fd;
	}
	listener = fd;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	CHECK(!bind(listener, (struct sockaddr *)&any, sizeof(any)) && !listen(listener, 1));
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	close(listener);
	return fd;
}

/* ---- datagrams ----------------------------------------------------------------------------------------------- */

struct message {
	uint32_t seq, length; /* of all of it */
	uint8_t bytes[];
};

static void fill(uint8_t *at, uint32_t seq, uint32_t length, uint32_t seed)
{
	struct message *m = (struct message *)(void *)at;
	uint32_t i;

	m->seq = seq;
	m->length = length;
	for (i = sizeof(*m); i < length; i++)
		at[i] = (uint8_t)(seed * 31 + i * 7);
}

static void check(const uint8_t *at, uint32_t length, uint32_t seed)
{
	uint32_t i;

	for (i = sizeof(struct message); i < length; i++)
		if (at[i] != (uint8_t)(seed * 31 + i * 7))
			fail(1, "byte %u of %u is wrong", i, length);
}

static void send_wr(unsigned int q, struct ibv_ah *ah, uint32_t qpn, uint32_t imm, uint32_t length)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qps[q]);
	uint8_t *from = slot(SLOTS + q);

	ibv_wr_start(ex);
	ex->wr_id = ++last_sent[q] << 8 | q | 0x80;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, htobe32(imm));
	ibv_wr_set_ud_addr(ex, ah, qpn, QKEY);
	if (length <= 64)
		ibv_wr_set_inline_data(ex, from, length);
	else
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)from, length);
	CHECK(!ibv_wr_complete(ex));
}

static void send_old(unsigned int q, struct ibv_ah *ah, uint32_t qpn, uint32_t imm, uint32_t length)
{
	uint8_t *from = slot(SLOTS + q);
	/* In two pieces, if there are enough bytes. */
	struct ibv_sge sge[2] = {{.addr = (uintptr_t)from, .length = length > 200 ? 100 : length, .lkey = mr->lkey},
				 {.addr = (uintptr_t)from + 100, .length = length - 100, .lkey = mr->lkey}};
	struct ibv_send_wr wr = {
		.wr_id = ++last_sent[q] << 8 | q | 0x80,
		.sg_list = sge,
		.num_sge = length > 200 ? 2 : 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | (length <= 64 ? IBV_SEND_INLINE : 0),
		.imm_data = htobe32(imm),
		.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY},
	}, *bad;

	CHECK(!ibv_post_send(qps[q], &wr, &bad));
}

static void post(unsigned int q, struct ibv_ah *ah, uint32_t qpn, uint32_t imm, uint32_t length)
{
	(opt.wr ? send_wr : send_old)(q, ah, qpn, imm, length);
	unpolled++;
}

static void sent(const struct ibv_wc *wc)
{
	unsigned int q = wc->wr_id & 0x7f;

	if (wc->status != IBV_WC_SUCCESS)
		fail(1, "a send completed with %s", ibv_wc_status_str(wc->status));
	if (wc->qp_num != qps[q]->qp_num || wc->wr_id >> 8 != ++last_done[q])
		fail(1, "completion %llu of QP 0x%x, expected %llu of 0x%x", (unsigned long long)(wc->wr_id >> 8), wc->qp_num,
		     (unsigned long long)last_done[q], qps[q]->qp_num);
	unpolled--;
}

/* Is the destination in the GRH our own address? In the last 16 bytes, of IPv4 the last four. */
static bool to_us(const uint8_t *grh)
{
	bool v4 = !memcmp(mine.gid.raw, (const uint8_t[12]){[10] = 0xff, [11] = 0xff}, 12);

	return v4 ? !memcmp(grh + 36, mine.gid.raw + 12, 4) : !memcmp(grh + 24, mine.gid.raw, 16);
}

static void sleep_for_event(int ms)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *which;
	void *arg;

	if (poll(&fd, 1, ms) > 0) {
		CHECK(!ibv_get_cq_event(channel, &which, &arg));
		ibv_ack_cq_events(which, 1);
	}
	CHECK(!ibv_req_notify_cq(cq, 0));
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The next datagram, its sends' completions on the way. Return: whether one came in time. */
static bool next(struct ibv_wc *wc, int ms)
{
	long end = now_ms() + ms;
	uint8_t *at;
	int n;

	while (now_ms() < end) {
		n = ibv_poll_cq(cq, 1, wc);
		CHECK(n >= 0);
		if (!n) {
			if (channel)
				sleep_for_event((int)(end - now_ms()));
			else
				usleep(REST_US);
			continue;
		}
		if (wc->wr_id & 0x80) {
			sent(wc);
			continue;
		}
		if (wc->status != IBV_WC_SUCCESS || wc->opcode != IBV_WC_RECV)
			fail(1, "a receive completed with %s", ibv_wc_status_str(wc->status));
		at = slot((unsigned int)wc->wr_id);
		CHECK(wc->wc_flags & IBV_WC_WITH_IMM && (infiniband || (wc->wc_flags & IBV_WC_GRH && to_us(at))));
		return true;
	}
	return false;
}

static unsigned int number_of(uint32_t qpn)
{
	unsigned int q;

	for (q = 0; q < QPS; q++)
		if (qps[q]->qp_num == qpn)
			return q;
	fail(1, "a completion of QP 0x%x", qpn);
}

static struct ibv_ah *ah_to(const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.dlid = theirs.lid,
		.grh = {.dgid = *gid, .sgid_index = opt.gid_index, .hop_limit = 64},
	};

	return ibv_create_ah(pd, &attr);
}

static void drain_sends(void)
{
	struct ibv_wc wc;
	long end = now_ms() + 60000;

	while (unpolled && now_ms() < end) {
		if (ibv_poll_cq(cq, 1, &wc) <= 0)
			usleep(REST_US);
		else if (wc.wr_id & 0x80)
			sent(&wc);
	}
	CHECK(!unpolled);
}

static void serve(struct ibv_ah *ah, int fd)
{
	struct ibv_ah *back = ah;
	struct pollfd hangup = {.fd = fd, .events = POLLIN};
	struct message *m;
	struct ibv_wc wc;
	unsigned int q;

	while (!poll(&hangup, 1, 0)) {
		if (!next(&wc, 100))
			continue;
		q = number_of(wc.qp_num);
		m = (struct message *)(void *)(slot((unsigned int)wc.wr_id) + GRH);
		CHECK(m->length + GRH == wc.byte_len && be32toh(wc.imm_data) == (m->seq << 1 | q));
		check((uint8_t *)m, m->length, m->seq);
		drain_sends(); /* there is one buffer to send from */
		fill(slot(SLOTS + q), m->seq, m->length, m->seq + 1);
		if (opt.reply)
			back = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)(void *)slot((unsigned int)wc.wr_id), 1);
		CHECK(back);
		post(q, back, opt.reply ? wc.src_qp : theirs.qpn[q], m->seq << 1 | q, m->length);
		post_recv((unsigned int)wc.wr_id, q);
		if (opt.reply) {
			drain_sends();
			CHECK(!ibv_destroy_ah(back));
		}
	}
}

static void ask(struct ibv_ah *ah, unsigned int q, uint32_t seq, uint32_t length)
{
	long since = now_ms();
	unsigned int tries, from;
	struct message *m;
	struct ibv_wc wc;
	bool right;

	for (tries = 0; tries < opt.tries; tries++) {
		drain_sends();
		fill(slot(SLOTS + q), seq, length, seq);
		post(q, ah, theirs.qpn[q], seq << 1 | q, length);
		while (next(&wc, PATIENCE_MS)) {
			from = number_of(wc.qp_num);
			m = (struct message *)(void *)(slot((unsigned int)wc.wr_id) + GRH);
			CHECK(m->length + GRH == wc.byte_len && be32toh(wc.imm_data) == (m->seq << 1 | from));
			check((uint8_t *)m, m->length, m->seq + 1);
			right = from == q && m->seq == seq; /* else an echo of an earlier try */
			post_recv((unsigned int)wc.wr_id, from);
			if (right && now_ms() - since > longest_ms)
				longest_ms = now_ms() - since;
			if (right)
				return;
		}
	}
	fail(2, "no echo of %u bytes from QP 0x%x", length, theirs.qpn[q]);
}

/* Return: whether @fd is open; @ret: what it is. */
static bool what_is(int fd, char ret[256])
{
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, ret, 255);
	ret[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static void close_others(void)
{
	char device[256], other[256];
	unsigned int n = 0;
	int fd;

	CHECK(what_is(context->cmd_fd, device));
	for (fd = 3; fd < 1024; fd++)
		if (fd != context->cmd_fd && what_is(fd, other) && !strcmp(other, device)) {
			CHECK(!close(fd));
			n++;
		}
	printf("%u closed\n", n);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "ewrcn:t:u:a:d:g:p:")) >= 0) {
		switch (c) {
		case 'e': opt.events = true; break;
		case 'w': opt.wr = true; break;
		case 'r': opt.reply = true; break;
		case 'c': opt.closes = true; break;
		case 'n': opt.rounds = (unsigned int)atoi(optarg); break;
		case 't': opt.ms = 1000L * atoi(optarg); break;
		case 'u': opt.until = optarg; break;
		case 'a': opt.tries = (unsigned int)atoi(optarg); break;
		case 'd': opt.device = optarg; break;
		case 'g': opt.gid_index = (uint8_t)atoi(optarg); break;
		case 'p': opt.port = (uint16_t)atoi(optarg); break;
		default: fail(1, "bad option");
		}
	}
	opt.server = argv[optind];
}

static uint32_t next_seq;

static void play_round(struct ibv_ah *ah)
{
	const uint32_t lengths[] = {8, 9, 64, 65, 333, 1024, mtu_bytes};
	unsigned int i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++, next_seq++)
		ask(ah, next_seq % QPS, next_seq, lengths[i]);
}

static void play_rounds(struct ibv_ah *ah)
{
	unsigned int r;

	for (r = 0; r < opt.rounds; r++)
		play_round(ah);
}

static void play(struct ibv_ah *ah)
{
	long end = now_ms() + opt.ms;

	play_rounds(ah);
	if (opt.closes)
		close_others();
	while (now_ms() < end || (opt.until && access(opt.until, F_OK)))
		play_round(ah);
	if (opt.closes || opt.until)
		play_rounds(ah);
	printf("%u datagrams answered, each within %ld ms\n", next_seq, longest_ms);
}

int main(int argc, char **argv)
{
	struct ibv_ah *ah;
	unsigned int i;
	int fd;

	parse(argc, argv);
	open_device();
	for (i = 0; i < QPS; i++) {
		qps[i] = new_qp();
		mine.qpn[i] = qps[i]->qp_num;
	}
	for (i = 0; i < SLOTS; i++)
		post_recv(i, i % QPS);
	if (channel)
		CHECK(!ibv_req_notify_cq(cq, 0));
	fd = call();
	CHECK(write(fd, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(recv(fd, &theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs));
	ah = ah_to(&theirs.gid);
	if (!ah)
		fail(2, "no address handle: %m");
	if (opt.server)
		play(ah);
	else
		serve(ah, fd);
	drain_sends();
	CHECK(!ibv_destroy_ah(ah));
	for (i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(qps[i]));
	CHECK(!ibv_destroy_cq(cq));
	if (channel)
		CHECK(!ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	free(memory);
	close(fd);
	return 0;
}
