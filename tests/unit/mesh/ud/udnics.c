// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "udnics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_rail rails[N_RAILS];
unsigned int n_objects, n_qps; /* there; ever made */
uint64_t now_ns;

struct sent sent;
uint16_t last_pkey_index, pkey_shift;

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
	if (rail)
		assert_true(rail->refs-- > 0);
}

bool __wrap_mesh_rail_intact(struct mesh_rail *rail)
{
	assert_true(rail->refs > 0);
	return true;
}

uint64_t search_ns;

int __wrap_mesh_rail_find_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type,
				const union ibv_gid *dgid, uint8_t *ret_index)
{
	const struct fake_rail *r = (const struct fake_rail *)((char *)rail - offsetof(struct fake_rail, rail));

	(void)port;
	(void)gid;
	(void)type;
	(void)dgid;
	*ret_index = 3;
	now_ns += r->bare ? search_ns : 0;
	return r->bare ? -ENOENT : 0;
}

int __wrap_mesh_rail_find_pkey(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port, uint16_t own_index,
			       uint16_t *ret_index);

int __wrap_mesh_rail_find_pkey(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port, uint16_t own_index,
			       uint16_t *ret_index)
{
	const struct fake_rail *r = (const struct fake_rail *)((char *)rail - offsetof(struct fake_rail, rail));

	(void)own;
	assert_true(r->infiniband);
	assert_int_equal(port, 1);
	assert_int_equal(own_port, 1);
	*ret_index = (uint16_t)(own_index + pkey_shift);
	return r->no_pkey ? -ENOENT : 0;
}

bool __wrap_mesh_rail_has_one_partition(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port);

bool __wrap_mesh_rail_has_one_partition(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port)
{
	const struct fake_rail *r = (const struct fake_rail *)((char *)rail - offsetof(struct fake_rail, rail));

	assert_ptr_equal(own, &rails[0].context);
	assert_int_equal(port, 1);
	assert_int_equal(own_port, 1);
	return !r->no_pkey;
}

unsigned int n_lines;

void __wrap_mv_log(struct mv_log *log, enum mv_log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

void __wrap_mv_log(struct mv_log *log, enum mv_log_level level, const char *fmt, ...)
{
	(void)log;
	(void)fmt;
	n_lines += level <= MV_LOG_INFO;
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
	if (mask & IBV_QP_PKEY_INDEX)
		last_pkey_index = attr->pkey_index;
	return 0;
}

int __wrap_ibv_destroy_qp(struct ibv_qp *qp)
{
	return gone(qp);
}

static struct fake_rail *rail_of(struct ibv_context *context)
{
	return (struct fake_rail *)((char *)context - offsetof(struct fake_rail, context));
}

bool silent; /* the neighbours, on rails other than the program's */
unsigned int n_waited;

bool mute;

struct ibv_ah *__wrap_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	if (mute)
		return NULL;
	if (!silent || attr->grh.dgid.raw[15] != 2) {
		rail_of(pd->context)->ah = *attr;
		return made(pd->context);
	}
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
	struct ibv_port_attr *attr = (struct ibv_port_attr *)(void *)ret;
	const struct fake_rail *r = rail_of(context);

	(void)port;
	attr->active_mtu = IBV_MTU_4096;
	attr->lid = r->lid;
	attr->link_layer = r->infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
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
	struct fake_rail *r = rail_of(cq->context);

	(void)n;
	if (!r->has_wc && !r->n_flood)
		return 0;
	*ret = r->wc;
	r->n_flood -= !r->has_wc;
	r->has_wc = false;
	return 1;
}

const struct mv_host_id host_b = {.bytes = {'b'}}, host_c = {.bytes = {'c'}};
static struct mesh_path_decision decision;
const struct mv_host_id no_host;
struct mv_host_id last_host; /* that paths were looked for to; zero: any */
bool by_links;
enum mesh_holder holder; /* what the directory says of the peer's GID, and the host it was met on */
unsigned int n_holders; /* of the peer's GID */
bool c_has_it; /* host c has the peer's GID, too */
union ibv_gid doubted; /* this address is in doubt */
bool apart; /* no two addresses are joined */
struct mv_ctl_msg asked; /* last */
unsigned int n_asked;

void __wrap_mesh_directory_decide(const struct mv_path_request *request, struct mesh_path_decision *ret);
void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret);
int __wrap_mesh_directory_rail(const union ibv_gid *gid, uint8_t type, struct mesh_directory_rail *ret);
enum mesh_holder __wrap_mesh_directory_holder(const struct mv_host_id *host, const union ibv_gid *gid,
					      uint32_t *ret_flags);
unsigned int __wrap_mesh_directory_n_holders(const union ibv_gid *gid);
bool __wrap_mesh_directory_is_doubted(const union ibv_gid *gid, bool routed);
bool __wrap_mesh_directory_may_join(const union ibv_gid *local, const union ibv_gid *remote);
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
void __wrap_mesh_thread_rail(struct mesh_rail *rail);
uint64_t __wrap_mesh_now_ns(void);

/* Nothing of other paths where the program's own works. */
void __wrap_mesh_directory_decide(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	__wrap_mesh_directory_paths(request, ret);
	if (ret->verdict == MV_PATH_WORKS)
		ret->n_paths = 0;
}

void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	assert_string_equal(request->device, "mlx5_0");
	assert_true(request->made == !!request->host);
	by_links = request->by_links;
	last_host = request->host ? *request->host : no_host;
	*ret = decision;
}

enum mesh_holder __wrap_mesh_directory_holder(const struct mv_host_id *host, const union ibv_gid *of,
					      uint32_t *ret_flags)
{
	const union ibv_gid peers = gid(0, 2);

	*ret_flags = 0;
	if (!memcmp(host, &host_c, sizeof(*host)))
		return c_has_it || !mv_gid_equal(of, &peers) ? MESH_HOLDER_SAME : MESH_HOLDER_OTHER;
	assert_int_equal(host->bytes[0], 'b');
	return holder;
}

bool __wrap_mesh_directory_is_doubted(const union ibv_gid *gid, bool routed)
{
	assert_false(routed);
	return mv_gid_equal(gid, &doubted);
}

bool __wrap_mesh_directory_may_join(const union ibv_gid *local, const union ibv_gid *remote)
{
	assert_int_equal(local->raw[15], 1);
	assert_int_equal(remote->raw[15], 2);
	return !apart;
}

unsigned int __wrap_mesh_directory_n_holders(const union ibv_gid *gid)
{
	(void)gid;
	return n_holders;
}

union ibv_gid gid(unsigned int rail, unsigned int host)
{
	return (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, 10, (uint8_t)rail, 0, (uint8_t)host}};
}

int __wrap_mesh_directory_rail(const union ibv_gid *of, uint8_t type, struct mesh_directory_rail *ret)
{
	(void)type;
	assert_int_equal(of->raw[15], 1);
	if (rails[of->raw[13]].shut)
		return -ENOENT;
	*ret = (struct mesh_directory_rail){
		.port = 1,
		.link_layer = rails[of->raw[13]].infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
	};
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

static struct mesh_process process;
static struct mesh_context context = {.device = "mlx5_0"};
static struct ibv_qp program_qp;
struct mesh_ud_qp u;

void paths(enum mv_path_verdict verdict, unsigned int first, unsigned int second)
{
	unsigned int which[] = {first, second};

	decision = (struct mesh_path_decision){.verdict = verdict,
					       .host_id = verdict == MV_PATH_UNKNOWN ? no_host : host_b};
	snprintf(decision.host, sizeof(decision.host), "%s", verdict == MV_PATH_UNKNOWN ? "" : "b");
	for (; decision.n_paths < 2 && which[decision.n_paths] < N_RAILS; decision.n_paths++)
		decision.paths[decision.n_paths] = (struct mv_path){
			.local_gid = gid(which[decision.n_paths], 1),
			.remote_gid = gid(which[decision.n_paths], 2),
			.type = rails[0].infiniband ? MV_GID_TYPE_IB : MV_GID_TYPE_ROCE_V2,
		};
}

void infiniband(void)
{
	unsigned int i;

	for (i = 0; i < N_RAILS; i++) {
		rails[i].infiniband = true;
		rails[i].lid = (uint16_t)(0x10 + i);
	}
	paths(MV_PATH_APART, 1, 2);
}

struct mesh_ud_peer *new_peer(void)
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

bool talk(const struct mesh_ud_peer *peer)
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

unsigned int asked_rail(void)
{
	assert_int_equal(asked.type, MV_CTL_UD_GET);
	assert_int_equal(asked.path_peer_gid.raw[13], asked.path.gid.raw[13]);
	return asked.path.gid.raw[13];
}

void answer(enum mv_ctl_reason reason)
{
	const struct mv_ctl_msg msg = {
		.type = MV_CTL_UD_PUT,
		.request_id = asked.request_id,
		.from = asked.to,
		.to = asked.from,
		.reason = (uint8_t)reason,
		.path = {.gid = asked.path_peer_gid, .qpn = PATH_QPN + asked_rail()},
		.path_lid = asked.path_lid ? (uint16_t)(asked.path_lid + 0x10) : 0,
	};

	mesh_ud_message("mlx5_0", QPN, &host_b, &msg, now_ns);
}

void ready_by(struct mesh_ud_peer *peer, unsigned int rail)
{
	assert_int_equal(asked_rail(), rail);
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_READY);
	assert_true(talk(peer));
	assert_int_equal(sent.from, asked.path.qpn);
	assert_int_equal(sent.to, PATH_QPN + rail);
}

void go_on(struct mesh_ud_peer *peer)
{
	now_ns += REFRESH_NS;
	talk(peer);
	mesh_ud_run(now_ns);
}

int setup(void **state)
{
	unsigned int i;

	(void)state;
	mesh_root.process = &process;
	mesh_lock_init(&process.ud_lock);
	mesh_root.ud = (struct mesh_ud){.qps = &u};
	u = (struct mesh_ud_qp){.mc = &context, .qp = &program_qp, .qpn = QPN, .qkey = QKEY, .port_num = 1, .registered = true};
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
	pkey_shift = 5;
	n_asked = 0;
	holder = MESH_HOLDER_SAME;
	n_holders = 1;
	c_has_it = true;
	doubted = (union ibv_gid){0};
	apart = silent = mute = false;
	search_ns = 0;
	n_waited = n_lines = 0;
	paths(MV_PATH_APART, 1, 2);
	return 0;
}

int teardown(void **state)
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
