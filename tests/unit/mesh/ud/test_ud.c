// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Who a QP sends datagrams to, over three made-up NICs: the ways to him that are found, kept and lost. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "udint.h"

#define SECOND_NS  1000000000ull
#define REFRESH_NS (6 * SECOND_NS) /* more than it takes until a peer in use is asked again */
#define N_RAILS	   3u
#define QPN	   0x40u
#define PEER_QPN   0x50u
#define PATH_QPN   0x60u /* of the peer's outlets */
#define QKEY	   0x1234u

/* ---- NICs ------------------------------------------------------------------------------------------------------ */

static struct fake_rail {
	struct mesh_rail rail;
	struct ibv_context context;
	bool bare; /* has no addresses */
	bool shut; /* cannot be opened, or is not in the directory */
	struct ibv_wc wc; /* to be polled */
	bool has_wc;
} rails[N_RAILS];
static unsigned int n_objects, n_qps; /* there; ever made */
static uint64_t now_ns;

/* What was posted last, and how many in all. */
static struct {
	unsigned int n;
	uint32_t from, to;
} sent;

static void *made(struct ibv_context *context)
{
	struct {
		struct ibv_context *context;
	} *object = calloc(1, sizeof(struct ibv_qp) + sizeof(struct ibv_srq));

	assert_non_null(object);
	object->context = context; /* the first member of all of them */
	n_objects++;
	return object;
}

static int gone(void *object)
{
	free(object);
	n_objects--;
	return 0;
}

struct mesh_rail *__wrap_mesh_rail_get(const char *device, char *why, size_t why_size);
void __wrap_mesh_rail_put(struct mesh_rail *rail);
bool __wrap_mesh_rail_intact(struct mesh_rail *rail);
int __wrap_mesh_rail_find_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type,
				const union ibv_gid *dgid, uint8_t *ret_index);
struct ibv_srq *__wrap_mesh_rail_create_srq(struct mesh_rail *rail, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int __wrap_mesh_rail_destroy_srq(struct mesh_rail *rail, struct ibv_srq *srq);
struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *context);
int __wrap_ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *context, int n, void *cookie, struct ibv_comp_channel *channel, int vector);
int __wrap_ibv_destroy_cq(struct ibv_cq *cq);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int __wrap_ibv_dereg_mr(struct ibv_mr *mr);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_destroy_qp(struct ibv_qp *qp);
struct ibv_ah *__wrap_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int __wrap_ibv_destroy_ah(struct ibv_ah *ah);
int __wrap_ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *ret);

struct mesh_rail *__wrap_mesh_rail_get(const char *device, char *why, size_t why_size)
{
	struct fake_rail *r = &rails[device[strlen(device) - 1] - '0'];

	snprintf(why, why_size, "it is shut");
	if (r->shut)
		return NULL;
	r->rail.refs++;
	return &r->rail;
}

void __wrap_mesh_rail_put(struct mesh_rail *rail)
{
	assert_true(rail->refs-- > 0);
}

bool __wrap_mesh_rail_intact(struct mesh_rail *rail)
{
	assert_true(rail->refs > 0);
	return true;
}

int __wrap_mesh_rail_find_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type,
				const union ibv_gid *dgid, uint8_t *ret_index)
{
	const struct fake_rail *r = (const struct fake_rail *)((char *)rail - offsetof(struct fake_rail, rail));

	(void)port;
	(void)gid;
	(void)type;
	(void)dgid;
	*ret_index = 3;
	return r->bare ? -ENOENT : 0;
}

struct ibv_srq *__wrap_mesh_rail_create_srq(struct mesh_rail *rail, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	(void)pd;
	(void)attr;
	return made(rail->context);
}

int __wrap_mesh_rail_destroy_srq(struct mesh_rail *rail, struct ibv_srq *srq)
{
	(void)rail;
	return gone(srq);
}

struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *context)
{
	return made(context);
}

int __wrap_ibv_dealloc_pd(struct ibv_pd *pd)
{
	return gone(pd);
}

struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *context, int n, void *cookie, struct ibv_comp_channel *channel, int vector)
{
	(void)n;
	(void)cookie;
	(void)channel;
	(void)vector;
	return made(context);
}

int __wrap_ibv_destroy_cq(struct ibv_cq *cq)
{
	return gone(cq);
}

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)addr;
	(void)length;
	(void)access;
	return made(pd->context);
}

int __wrap_ibv_dereg_mr(struct ibv_mr *mr)
{
	return gone(mr);
}

struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp *qp = made(pd->context);

	(void)init;
	qp->qp_num = 0x100 + n_qps++;
	return qp;
}

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	return 0;
}

int __wrap_ibv_destroy_qp(struct ibv_qp *qp)
{
	return gone(qp);
}

static bool silent; /* the neighbours, on rails other than the program's */
static unsigned int n_waited;

struct ibv_ah *__wrap_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	if (!silent || attr->grh.dgid.raw[15] != 2)
		return made(pd->context);
	now_ns += SECOND_NS;
	n_waited++;
	errno = ETIMEDOUT;
	return NULL;
}

int __wrap_ibv_destroy_ah(struct ibv_ah *ah)
{
	return gone(ah);
}

int __wrap_ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *ret)
{
	(void)context;
	(void)port;
	((struct ibv_port_attr *)(void *)ret)->active_mtu = IBV_MTU_4096;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)bad;
	assert_non_null(wr->wr.ud.ah->context);
	sent.n++;
	sent.from = qp->qp_num;
	sent.to = wr->wr.ud.remote_qpn;
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)wr;
	(void)bad;
	return 0;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *ret)
{
	struct fake_rail *r = (struct fake_rail *)((char *)cq->context - offsetof(struct fake_rail, context));

	(void)n;
	if (!r->has_wc)
		return 0;
	*ret = r->wc;
	r->has_wc = false;
	return 1;
}

/* ---- the agent ------------------------------------------------------------------------------------------------- */

static const struct mv_host_id host_b = {.bytes = {'b'}}, host_c = {.bytes = {'c'}};
static struct mesh_view view;
static const struct mv_host_id no_host;
static struct mv_host_id last_host; /* that paths were looked for to; zero: any */
static enum mesh_holder holder; /* what the directory says of the peer's GID, and the host it was met on */
static bool c_has_it; /* host c has the GID, too */
static unsigned int n_holders; /* of the peer's GID */
static struct mv_ctl_msg asked; /* last */
static unsigned int n_asked;

void __wrap_mesh_view_judge(const struct mv_path_request *request, struct mesh_view *ret);
void __wrap_mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret);
int __wrap_mesh_view_rail(const union ibv_gid *gid, uint8_t type, struct mesh_view_rail *ret);
enum mesh_holder __wrap_mesh_view_holder(const struct mv_host_id *host, const union ibv_gid *gid, uint32_t *ret_flags);
unsigned int __wrap_mesh_view_n_holders(const union ibv_gid *gid);
bool __wrap_mesh_view_is_doubted(const union ibv_gid *gid, bool routed);
bool __wrap_mesh_view_may_join(const union ibv_gid *local, const union ibv_gid *remote);
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
void __wrap_mesh_thread_rail(struct mesh_rail *rail);
uint64_t __wrap_mesh_now_ns(void);

/* Nothing of other paths where the program's own works. */
void __wrap_mesh_view_judge(const struct mv_path_request *request, struct mesh_view *ret)
{
	__wrap_mesh_view_paths(request, ret);
	if (ret->verdict == MV_PATH_WORKS)
		ret->n_paths = 0;
}

void __wrap_mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret)
{
	assert_string_equal(request->device, "mlx5_0");
	assert_true(request->made == !!request->host);
	last_host = request->host ? *request->host : no_host;
	*ret = view;
}

enum mesh_holder __wrap_mesh_view_holder(const struct mv_host_id *host, const union ibv_gid *gid, uint32_t *ret_flags)
{
	(void)gid;
	*ret_flags = 0;
	if (!memcmp(host, &host_c, sizeof(*host)))
		return c_has_it ? MESH_HOLDER_SAME : MESH_HOLDER_OTHER;
	assert_int_equal(host->bytes[0], 'b');
	return holder;
}

static union ibv_gid doubted; /* this address is in doubt */
static bool apart; /* no two addresses are joined */

bool __wrap_mesh_view_is_doubted(const union ibv_gid *gid, bool routed)
{
	assert_true(routed);
	return mv_gid_equal(gid, &doubted);
}

bool __wrap_mesh_view_may_join(const union ibv_gid *local, const union ibv_gid *remote)
{
	assert_int_equal(local->raw[15], 1);
	assert_int_equal(remote->raw[15], 2);
	return !apart;
}

unsigned int __wrap_mesh_view_n_holders(const union ibv_gid *gid)
{
	(void)gid;
	return n_holders;
}

static union ibv_gid gid(unsigned int rail, unsigned int host)
{
	return (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, 10, (uint8_t)rail, 0, (uint8_t)host}};
}

int __wrap_mesh_view_rail(const union ibv_gid *of, uint8_t type, struct mesh_view_rail *ret)
{
	(void)type;
	assert_int_equal(of->raw[15], 1);
	if (rails[of->raw[13]].shut)
		return -ENOENT;
	*ret = (struct mesh_view_rail){.port = 1};
	snprintf(ret->device, sizeof(ret->device), "mlx5_%u", of->raw[13]);
	return 0;
}

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	asked = *msg;
	n_asked++;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

void __wrap_mesh_thread_rail(struct mesh_rail *rail)
{
	(void)rail;
}

uint64_t __wrap_mesh_now_ns(void)
{
	return now_ns;
}

/* ---- what the tests do ----------------------------------------------------------------------------------------- */

static struct mesh_process process;
static struct mesh_context context = {.device = "mlx5_0"};
static struct ibv_qp program_qp;
static struct mesh_ud_qp u;

/* The paths by these rails, the best first; a number too many ends them. */
static void paths(enum mv_path_verdict verdict, unsigned int first, unsigned int second)
{
	unsigned int which[] = {first, second};

	view = (struct mesh_view){.verdict = verdict, .host_id = verdict == MV_PATH_UNKNOWN ? no_host : host_b};
	snprintf(view.host, sizeof(view.host), "%s", verdict == MV_PATH_UNKNOWN ? "" : "b");
	for (; view.n_paths < 2 && which[view.n_paths] < N_RAILS; view.n_paths++)
		view.paths[view.n_paths] = (struct mv_path){
			.local_gid = gid(which[view.n_paths], 1),
			.remote_gid = gid(which[view.n_paths], 2),
			.type = MV_GID_TYPE_ROCE_V2,
		};
}

static struct mesh_ud_peer *new_peer(void)
{
	const struct mv_ctl_end end = {.gid = gid(0, 2), .qpn = PEER_QPN};
	const union ibv_gid own = gid(0, 1);
	struct mesh_ud_peer *peer = mesh_ud_peer_new(&u, &end, &own, MV_GID_TYPE_ROCE_V2, QKEY);

	assert_non_null(peer);
	peer->spoken = true;
	mesh_ud_peer_ask(peer, now_ns);
	mesh_ud_run(now_ns);
	return peer;
}

/* A datagram of the program's, by the relay. Return: whether it went on; sent.from says from where. */
static bool talk(const struct mesh_ud_peer *peer)
{
	const struct mesh_ud_rail *rail = peer->relay->rail;
	struct fake_rail *r = (struct fake_rail *)((char *)rail->rail - offsetof(struct fake_rail, rail));
	unsigned int before = sent.n;

	r->wc = (struct ibv_wc){
		.status = IBV_WC_SUCCESS,
		.byte_len = UD_GRH_BYTES + 1,
		.qp_num = peer->relay->qp->qp_num,
		.src_qp = QPN,
		.wc_flags = IBV_WC_GRH,
	};
	r->has_wc = true;
	assert_true(mesh_ud_event(rail->rail, rail->cq));
	assert_false(r->has_wc);
	return sent.n > before;
}

/* A datagram of the peer's by the way that is described in a question, to the program. Return: whether it got there. */
static bool hear(const struct mesh_ud_peer *peer, const struct mv_ctl_msg *way)
{
	struct fake_rail *r = &rails[way->path.gid.raw[13]];
	struct mesh_ud_rail *rail = mesh_ud_rail_of(&r->rail);
	uint8_t *grh = mesh_ud_buffer(rail, 0);
	unsigned int before = sent.n;

	grh[20] = 4 << 4;
	memcpy(grh + 32, way->path_peer_gid.raw + 12, 4);
	r->wc = (struct ibv_wc){
		.status = IBV_WC_SUCCESS,
		.byte_len = UD_GRH_BYTES + 1,
		.qp_num = way->path.qpn,
		.src_qp = PATH_QPN + way->path_peer_gid.raw[13],
		.wc_flags = IBV_WC_GRH,
	};
	r->has_wc = true;
	assert_true(mesh_ud_event(rail->rail, rail->cq));
	if (sent.n == before)
		return false;
	assert_int_equal(sent.from, peer->relay->qp->qp_num);
	assert_int_equal(sent.to, QPN);
	return true;
}

/* By which rail did the last question want to go? */
static unsigned int asked_rail(void)
{
	assert_int_equal(asked.type, MV_CTL_UD_GET);
	assert_int_equal(asked.path_peer_gid.raw[13], asked.path.gid.raw[13]);
	return asked.path.gid.raw[13];
}

static void answer(enum mv_ctl_reason reason)
{
	const struct mv_ctl_msg msg = {
		.type = MV_CTL_UD_PUT,
		.request_id = asked.request_id,
		.from = asked.to,
		.to = asked.from,
		.reason = (uint8_t)reason,
		.path = {.gid = asked.path_peer_gid, .qpn = PATH_QPN + asked_rail()},
	};

	mesh_ud_message("mlx5_0", QPN, &host_b, &msg, now_ns);
}

static void ready_by(struct mesh_ud_peer *peer, unsigned int rail)
{
	assert_int_equal(asked_rail(), rail);
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_READY);
	assert_true(talk(peer));
	assert_int_equal(sent.from, asked.path.qpn);
	assert_int_equal(sent.to, PATH_QPN + rail);
}

/* Until it is asked again, in use. */
static void go_on(struct mesh_ud_peer *peer)
{
	now_ns += REFRESH_NS;
	talk(peer);
	mesh_ud_run(now_ns);
}

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	mesh_root.process = &process;
	mesh_lock_init(&process.ud_lock);
	mesh_root.ud = (struct mesh_ud){.qps = &u};
	u = (struct mesh_ud_qp){.mc = &context, .qp = &program_qp, .qpn = QPN, .qkey = QKEY, .port_num = 1, .claimed = true};
	memset(rails, 0, sizeof(rails));
	for (i = 0; i < N_RAILS; i++) {
		rails[i].context.ops.post_send = post_send;
		rails[i].context.ops.post_srq_recv = post_srq_recv;
		rails[i].context.ops.req_notify_cq = req_notify_cq;
		rails[i].context.ops.poll_cq = poll_cq;
		rails[i].rail.context = &rails[i].context;
		snprintf(rails[i].rail.device, sizeof(rails[i].rail.device), "mlx5_%u", i);
	}
	now_ns = 100 * SECOND_NS;
	n_asked = 0;
	holder = MESH_HOLDER_SAME;
	n_holders = 1;
	c_has_it = true;
	doubted = (union ibv_gid){0};
	apart = false;
	paths(MV_PATH_APART, 1, 2);
	return 0;
}

static int teardown(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < N_RAILS; i++)
		mesh_ud_rail_lost(&rails[i].rail);
	for (i = 0; i < N_RAILS; i++)
		assert_int_equal(rails[i].rail.refs, 0);
	assert_null(u.peers);
	assert_null(u.outlets);
	assert_int_equal(n_objects, 0);
	mesh_root.ud.qps = NULL;
	return 0;
}

/* ---- the tests ------------------------------------------------------------------------------------------------- */

/* What is there is used while nobody can be asked for anything better; and then it is asked for. */
static void test_stays(void **state)
{
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	ready_by(peer, 1);
	paths(MV_PATH_UNKNOWN, N_RAILS, N_RAILS); /* there is no agent */
	go_on(peer);
	assert_true(talk(peer));
	assert_string_equal(peer->host, "b");
	paths(MV_PATH_APART, 1, N_RAILS);
	rails[1].shut = true; /* for new ones */
	go_on(peer);
	assert_true(talk(peer));
	rails[1].shut = false;
	assert_int_equal(n_asked, 1);
	go_on(peer);
	assert_int_equal(n_asked, 2);
	assert_true(talk(peer));
}

/* The program's own path works by now. It goes on with what it has. */
static void test_own_path_works(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	paths(MV_PATH_WORKS, 0, 1);
	peer = new_peer();
	ready_by(peer, 0);
}

static void test_first_has_no_outlet(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	rails[1].shut = true;
	peer = new_peer();
	assert_int_equal(n_asked, 1);
	ready_by(peer, 2);
	go_on(peer); /* there is nothing better yet */
	ready_by(peer, 2);
	rails[1].shut = false;
	go_on(peer);
	ready_by(peer, 1);
}

/* The peer would have it, but an address has gone meanwhile. */
static void test_first_has_no_address(void **state)
{
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	rails[1].bare = true;
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	now_ns += SECOND_NS;
	mesh_ud_run(now_ns);
	ready_by(peer, 2);
}

static void test_none_has_an_outlet(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	rails[1].shut = rails[2].shut = true;
	peer = new_peer();
	assert_int_equal(n_asked, 0);
	assert_int_equal(peer->state, MESH_UD_FAILED);
	rails[2].shut = false;
	assert_false(talk(peer)); /* not at once */
	mesh_ud_run(now_ns);
	assert_int_equal(n_asked, 0);
	go_on(peer);
	ready_by(peer, 2);
}

/* By a peer that cannot have an outlet there: also when we have another path already. */
static void test_refused(void **state)
{
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	assert_int_equal(asked_rail(), 1);
	answer(MV_CTL_REASON_NO_PATH);
	now_ns += SECOND_NS;
	mesh_ud_run(now_ns);
	ready_by(peer, 2);
	go_on(peer);
	assert_int_equal(asked_rail(), 1);
	answer(MV_CTL_REASON_NO_PATH);
	assert_true(talk(peer));
	go_on(peer);
	ready_by(peer, 2);
}

/* The neighbour does not answer, which the kernel takes a second to find out; the peer asks again and again. */
static void test_silent_neighbour(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	struct mv_ctl_msg theirs = {
		.type = MV_CTL_UD_GET,
		.gid_type = MV_GID_TYPE_ROCE_V2,
		.key = QKEY,
		.rkey = QKEY,
		.from = asked.to,
		.to = asked.from,
		.path = {.gid = gid(2, 2), .qpn = PATH_QPN + 2},
		.path_peer_gid = gid(2, 1),
	};
	unsigned int i;

	(void)state;
	silent = true;
	n_waited = 0;
	for (i = 0; i < 30; i++) {
		mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
		assert_int_equal(asked.type, MV_CTL_UD_PUT);
		assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
		now_ns += SECOND_NS / 2;
	}
	assert_int_equal(n_waited, 4); /* of 30 */
	silent = false;
	now_ns += 4 * SECOND_NS;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_READY);
}

/* Each end finds another way the best, and has got what it asked for. */
static void test_two_ways(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	struct mv_ctl_msg ours = asked, theirs = {
		.type = MV_CTL_UD_GET,
		.gid_type = MV_GID_TYPE_ROCE_V2,
		.key = QKEY,
		.rkey = QKEY,
		.from = ours.to,
		.to = ours.from,
		.path = {.gid = gid(2, 2), .qpn = PATH_QPN + 2},
		.path_peer_gid = gid(2, 1),
	};
	struct mv_ctl_msg other = theirs; /* as we would have asked for theirs */

	(void)state;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.type, MV_CTL_UD_PUT);
	other.path = asked.path;
	other.path_peer_gid = theirs.path.gid;
	assert_true(hear(peer, &other));
	assert_false(hear(peer, &ours));
	asked = ours;
	ready_by(peer, 1);
	assert_true(hear(peer, &ours));
	assert_true(hear(peer, &other));
	mesh_ud_rail_lost(&rails[2].rail);
	assert_true(hear(peer, &ours));
	assert_null(peer->old_outlet);
}

static void test_outlet_is_lost(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	struct mv_ctl_msg late;
	unsigned int before;

	(void)state;
	ready_by(peer, 1);
	go_on(peer);
	late = asked;
	mesh_ud_rail_lost(&rails[1].rail);
	assert_int_equal(rails[1].rail.refs, 0);
	answer(MV_CTL_REASON_NONE); /* to a question that named what is no more */
	assert_int_equal(peer->state, MESH_UD_ASKING);
	mesh_ud_run(now_ns);
	assert_false(talk(peer));
	assert_int_not_equal(asked.path.qpn, late.path.qpn);
	before = sent.n;
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(sent.n, before + 1); /* what was kept */
	assert_true(talk(peer));
	assert_int_equal(sent.from, asked.path.qpn);
}

/* It is not in use: not yet, not any more. */
static void test_other_outlet_is_lost(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	uint32_t outlet;

	(void)state;
	ready_by(peer, 1);
	outlet = sent.from;
	paths(MV_PATH_APART, 2, N_RAILS);
	go_on(peer);
	mesh_ud_rail_lost(&rails[2].rail);
	answer(MV_CTL_REASON_NONE); /* the peer has been told of one that is no more */
	assert_true(talk(peer));
	assert_int_equal(sent.from, outlet);
	go_on(peer);
	ready_by(peer, 2);
	mesh_ud_rail_lost(&rails[1].rail);
	assert_int_equal(peer->state, MESH_UD_READY);
	assert_true(talk(peer));
	assert_non_null(u.outlets);
	assert_null(u.outlets->next_outlet);
}

/* The peer is found anew, by whoever speaks first. */
static void test_relay_is_lost(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	const union ibv_gid to = peer->end.gid;
	struct mv_ctl_msg question = {.type = MV_CTL_UD_GET, .gid_type = MV_GID_TYPE_ROCE_V2, .key = QKEY, .rkey = QKEY};
	uint32_t relay = peer->relay->qp->qp_num;

	(void)state;
	ready_by(peer, 1);
	mesh_ud_rail_lost(&rails[0].rail);
	assert_int_equal(rails[0].rail.refs, 0);
	assert_null(mesh_ud_peer_find(&u, &to, PEER_QPN));
	assert_int_equal(mesh_root.ud.n_peers, 0);
	peer = new_peer();
	assert_int_not_equal(peer->relay->qp->qp_num, relay);
	ready_by(peer, 1);
	relay = peer->relay->qp->qp_num;
	mesh_ud_rail_lost(&rails[0].rail);
	question.from = (struct mv_ctl_end){.gid = to, .qpn = PEER_QPN};
	question.to = (struct mv_ctl_end){.gid = gid(0, 1), .qpn = QPN};
	question.path = (struct mv_ctl_end){.gid = gid(1, 2), .qpn = PATH_QPN};
	question.path_peer_gid = gid(1, 1);
	mesh_ud_message("mlx5_0", QPN, &host_b, &question, now_ns);
	peer = mesh_ud_peer_find(&u, &to, PEER_QPN);
	assert_non_null(peer);
	assert_int_not_equal(peer->relay->qp->qp_num, relay);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN);
}

/* Both by one NIC. */
static void test_all_is_lost(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	paths(MV_PATH_APART, 0, N_RAILS);
	peer = new_peer();
	ready_by(peer, 0);
	mesh_ud_rail_lost(&rails[0].rail);
	assert_null(u.peers);
	assert_null(u.outlets);
	assert_int_equal(n_objects, 0);
}

/* A question for a way by a rail, in the peer's name. */
static struct mv_ctl_msg question_by(unsigned int rail)
{
	return (struct mv_ctl_msg){
		.type = MV_CTL_UD_GET,
		.gid_type = MV_GID_TYPE_ROCE_V2,
		.key = QKEY,
		.rkey = QKEY,
		.from = {.gid = gid(0, 2), .qpn = PEER_QPN},
		.to = {.gid = gid(0, 1), .qpn = QPN},
		.path = {.gid = gid(rail, 2), .qpn = PATH_QPN + rail},
		.path_peer_gid = gid(rail, 1),
	};
}

static bool is_last_host(const struct mv_host_id *host)
{
	return !memcmp(&last_host, host, sizeof(*host));
}

/* Another holder of the peer's GID does not speak for the peer. */
static void test_another_host(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();
	struct mv_ctl_msg forged = {
		.type = MV_CTL_UD_PUT,
		.request_id = asked.request_id,
		.from = asked.to,
		.to = asked.from,
		.path = {.gid = asked.path_peer_gid, .qpn = PATH_QPN + 1},
	};

	(void)state;
	assert_true(is_last_host(&no_host));
	mesh_ud_message("mlx5_0", QPN, &host_c, &forged, now_ns);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	assert_int_equal(asked.type, MV_CTL_UD_GET); /* it had no answer */
	ready_by(peer, 1);
	n_holders = 2;
	go_on(peer);
	assert_true(is_last_host(&host_b));
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 1);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 2);
}

/* The peer's address is on another host by now; or its host started anew, and has another id. */
static void test_host_has_changed(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	ready_by(peer, 1);
	holder = MESH_HOLDER_OTHER;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 2);
	assert_memory_equal(&peer->host_id, &host_c, sizeof(host_c));
}

/* An agent of an older version does not tell which host asks. */
static void test_host_is_not_told(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	ready_by(peer, 1);
	mesh_ud_message("mlx5_0", QPN, &no_host, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 2);
	assert_memory_equal(&peer->host_id, &host_b, sizeof(host_b));
}

/* A stranger who asks first may be any of the hosts that have his GID. */
static void test_several_holders_ask(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);

	(void)state;
	n_holders = 2;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_int_equal(asked.type, MV_CTL_UD_PUT);
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
	assert_null(u.peers);
	n_holders = 1;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_memory_equal(&u.peers->host_id, &host_b, sizeof(host_b));
}

/* The question of a host that is not believed to have the address that it asks for, or to have it there, has no answer. */
static void test_not_believed(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	ready_by(peer, 1);
	doubted = theirs.path.gid;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	doubted = theirs.from.gid;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	/* Nor that of a host that another one's address went to, in doubt. */
	holder = MESH_HOLDER_OTHER;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	doubted = (union ibv_gid){0};
	c_has_it = false;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	holder = MESH_HOLDER_SAME;
	apart = true;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.type, MV_CTL_UD_GET);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 1);
	apart = false;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 2);
}

/* Nor does an answer lead to an address in doubt. */
static void test_answer_not_believed(void **state)
{
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	doubted = asked.path_peer_gid;
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	doubted = (union ibv_gid){0};
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_READY);
}

static unsigned int n_of_peers(void)
{
	const struct mesh_ud_peer *peer;
	unsigned int n = 0;

	for (peer = u.peers; peer; peer = peer->next)
		n++;
	return n;
}

/* Whoever asks under many numbers leaves room for others, and for those that the program speaks to. */
static void test_many_strangers(void **state)
{
	struct mv_ctl_msg theirs = question_by(2);
	struct mv_host_id host = host_b;
	unsigned int i;

	(void)state;
	for (i = 0; i < UD_MAX_PEERS; i++) {
		theirs.from.qpn = 0x1000 + i;
		mesh_ud_message("mlx5_0", QPN, &host, &theirs, now_ns);
	}
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_RESOURCES);
	assert_int_equal(n_of_peers(), UD_MAX_OF_A_HOST);
	u.peers->spoken = true;
	theirs.from.qpn = 0x2000;
	mesh_ud_message("mlx5_0", QPN, &host, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	u.peers->next->spoken = false;
	/* Of many hosts. */
	for (i = 0; i < UD_MAX_PEERS; i++) {
		host.bytes[1] = (uint8_t)(i / 32);
		theirs.from.qpn = 0x3000 + i;
		mesh_ud_message("mlx5_0", QPN, &host, &theirs, now_ns);
	}
	assert_int_equal(n_of_peers(), UD_MAX_STRANGERS);
	ready_by(new_peer(), 1);
}

/* Each question names another neighbour, and all of them are silent. */
static void test_many_silent_neighbours(void **state)
{
	struct mv_ctl_msg theirs = question_by(2);
	uint64_t began_ns = now_ns;
	unsigned int i;

	(void)state;
	silent = true;
	n_waited = 0;
	for (i = 0; i < 100; i++) {
		theirs.path.gid.raw[14] = (uint8_t)i;
		mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
		now_ns += SECOND_NS / 10;
	}
	assert_in_range(n_waited, 4, 4 + (now_ns - began_ns) / (4 * SECOND_NS) + 1);
	silent = false;
	now_ns += 20 * SECOND_NS;
	theirs = question_by(2);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_stays),
		TEST(test_own_path_works),
		TEST(test_first_has_no_outlet),
		TEST(test_first_has_no_address),
		TEST(test_none_has_an_outlet),
		TEST(test_refused),
		TEST(test_silent_neighbour),
		TEST(test_two_ways),
		TEST(test_outlet_is_lost),
		TEST(test_other_outlet_is_lost),
		TEST(test_relay_is_lost),
		TEST(test_all_is_lost),
		TEST(test_another_host),
		TEST(test_host_has_changed),
		TEST(test_host_is_not_told),
		TEST(test_several_holders_ask),
		TEST(test_not_believed),
		TEST(test_answer_not_believed),
		TEST(test_many_strangers),
		TEST(test_many_silent_neighbours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
