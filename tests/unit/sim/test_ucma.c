/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Programs of two hosts, at the commands of /dev/infiniband/rdma_cm; the network between is a queue
 * of MADs. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "cm.h"

#define SECOND  1000000000ull
#define ON_WIRE 32

struct host {
	struct cm cm;
	struct sim_state *state;
	uint8_t n;
	int neighbour; /* what asking for one gives */
	bool removed; /* the addresses of device 1 */
	unsigned int readable;
	struct host *peer;
	struct {
		struct cm_path path;
		uint8_t bytes[MAD_BYTES];
	} wire[ON_WIRE]; /* sent */
	int n_wire;
};

static struct host *hosts;

/* Device d of host n has 10.d.0.n, and another netdev 192.0.2.n. */
static void address(uint8_t dev, uint8_t n, uint8_t *gid)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};

	memcpy(gid, v4, 12);
	gid[12] = 10;
	gid[13] = dev;
	gid[14] = 0;
	gid[15] = n;
}

static void op_send(void *arg, const struct cm_path *path, const uint8_t *mad)
{
	struct host *h = arg;

	if (h->n_wire == ON_WIRE)
		return;
	h->wire[h->n_wire].path = *path;
	memcpy(h->wire[h->n_wire++].bytes, mad, MAD_BYTES);
}

static int op_route(void *arg, const uint8_t *src, const uint8_t *dst, uint32_t ifindex,
		    struct cm_route *ret)
{
	struct host *h = arg;

	(void)ifindex;
	if (dst[12] == 192) {
		memcpy(ret->src, dst, 16);
		ret->src[15] = h->n;
		ret->local = dst[15] == h->n;
		return 0;
	}
	if (dst[12] != 10 || dst[13] > 1)
		return -ENETUNREACH;
	address(dst[13], h->n, ret->src);
	if (src && memcmp(src, ret->src, 16))
		return -ENETUNREACH;
	ret->local = dst[15] == h->n;
	return 0;
}

static int op_neighbour(void *arg, const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex,
			uint8_t *ret_mac)
{
	struct host *h = arg;

	(void)sgid;
	(void)ifindex;
	memset(ret_mac, dgid[15], 6);
	return h->neighbour;
}

static bool op_own_address(void *arg, const uint8_t *addr)
{
	struct host *h = arg;

	return (addr[12] == 192 || addr[12] == 10) && addr[13] < 2 - h->removed && addr[15] == h->n;
}

static void op_readable(void *arg, struct cm_file *f)
{
	(void)f;
	((struct host *)arg)->readable++;
}

static const struct cm_ops ops = {op_send, op_route, op_neighbour, op_own_address, op_readable};

static int set_up(void **state)
{
	(void)state;
	hosts = calloc(2, sizeof(*hosts));
	for (uint8_t i = 0; i < 2; i++) {
		struct host *h = &hosts[i];

		h->n = (uint8_t)(i + 1);
		h->peer = &hosts[!i];
		h->state = calloc(1, sizeof(*h->state));
		h->state->n_devs = 2;
		for (uint8_t d = 0; d < 2; d++) {
			struct sim_dev *dev = &h->state->devs[d];
			struct sim_port *p = &dev->ports[0];

			dev->present = 1;
			dev->n_ports = 1;
			memset(dev->node_guid, h->n * 16 + d, 8);
			p->link_layer = SIM_LINK_ETHERNET;
			p->state = SIM_PORT_ACTIVE;
			p->active_mtu = IBV_MTU_4096;
			p->active_speed = 32;
			p->active_width = 2;
			p->n_gids = 8;
			for (uint8_t g = 2; g < 4; g++) {
				p->gids[g].type = g == 2 ? SIM_GID_ROCE_V1 : SIM_GID_ROCE_V2;
				p->gids[g].ifindex = d + 2u;
				memset(p->gids[g].mac, h->n, 6);
				address(d, h->n, p->gids[g].raw);
			}
		}
		cm_init(&h->cm, h->state, &ops, h, i + 1u);
		h->cm.now_ns = SECOND;
	}
	return 0;
}

static void ib_gid(uint8_t n, uint8_t *gid)
{
	memset(gid, n, 16);
	memcpy(gid, "\xfe\x80\0\0\0\0\0\0", 8);
}

/* Device 1 of both hosts is on InfiniBand: LID 0x20 of the first, 0x21 of the second. 10.1.0.9 has no LID. */
static void make_infiniband(void)
{
	for (int i = 0; i < 2; i++) {
		struct sim_port *p = &hosts[i].state->devs[1].ports[0];
		struct sim_lid *lids = hosts[i].state->lids;

		memset(p->gids, 0, sizeof(p->gids));
		p->link_layer = SIM_LINK_INFINIBAND;
		p->lid = (uint16_t)(0x20 + i);
		p->ifindex = 3;
		memset(p->mac, hosts[i].n, 6);
		p->gids[0].type = SIM_GID_IB;
		ib_gid(hosts[i].n, p->gids[0].raw);
		p->pkeys[0] = 0x8001;
		p->pkeys[1] = 0x7fff;
		p->pkeys[2] = 0xffff;
		for (uint8_t k = 0; k < 2; k++) {
			lids[k].lid = (uint16_t)(0x20 + k);
			address(1, (uint8_t)(k + 1), lids[k].addr);
			ib_gid((uint8_t)(k + 1), lids[k].gid);
		}
	}
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		cm_fini(&hosts[i].cm);
		assert_true(TAILQ_EMPTY(&hosts[i].cm.all));
		free(hosts[i].state);
	}
	free(hosts);
	return 0;
}

/* What each sent reaches the other; until nobody says anything more. */
static void exchange(void)
{
	for (bool more = true; more;) {
		more = false;
		for (int i = 0; i < 2; i++) {
			struct host *h = &hosts[i];

			for (int k = 0; k < h->n_wire; k++) {
				const uint8_t *src, *dst;
				struct cm_path back;

				memset(&back, 0, sizeof(back));
				assert_true(path_addrs(h->state, &h->wire[k].path, &src, &dst));
				assert_true(dev_of_addr(&h->peer->cm, dst, 0, &back));
				assert_int_equal(path_to(&h->peer->cm, src, &back), 0);
				cm_receive(&h->peer->cm, &back, h->wire[k].bytes, MAD_BYTES);
				more = true;
			}
			h->n_wire = 0;
		}
	}
}

static int run(struct host *h, struct cm_file *f, uint32_t cmd, const void *in, size_t in_len,
	       void *out, size_t out_len)
{
	uint32_t len = 0;
	int err = cm_command(&h->cm, f, cmd, in, (uint32_t)in_len, out, (uint32_t)out_len, &len);

	if (!err && out_len)
		assert_int_equal(len, out_len);
	return err;
}

static uint32_t new_id(struct host *h, struct cm_file *f, uint16_t ps, uint64_t uid)
{
	struct rdma_ucm_create_id in = {.uid = uid, .ps = ps};
	struct rdma_ucm_create_id_resp out;

	assert_int_equal(run(h, f, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof(in), &out, sizeof(out)),
			 0);
	return out.id;
}

static struct sockaddr_in sockaddr(const char *text, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, text, &a.sin_addr);
	return a;
}

static int bind_to(struct host *h, struct cm_file *f, uint32_t id, const char *text, uint16_t port)
{
	struct sockaddr_in a = sockaddr(text, port);
	struct rdma_ucm_bind in = {.id = id, .addr_size = sizeof(a)};

	memcpy(&in.addr, &a, sizeof(a));
	return run(h, f, RDMA_USER_CM_CMD_BIND, &in, sizeof(in), NULL, 0);
}

static int listen_at(struct host *h, struct cm_file *f, uint32_t id, uint32_t backlog)
{
	struct rdma_ucm_listen in = {.id = id, .backlog = backlog};

	return run(h, f, RDMA_USER_CM_CMD_LISTEN, &in, sizeof(in), NULL, 0);
}

static int resolve(struct host *h, struct cm_file *f, uint32_t id, const char *text, uint16_t port)
{
	struct sockaddr_in a = sockaddr(text, port);
	struct rdma_ucm_resolve_addr in = {.id = id, .timeout_ms = 2000, .dst_size = sizeof(a)};

	memcpy(&in.dst_addr, &a, sizeof(a));
	return run(h, f, RDMA_USER_CM_CMD_RESOLVE_ADDR, &in, sizeof(in), NULL, 0);
}

static int route(struct host *h, struct cm_file *f, uint32_t id)
{
	struct rdma_ucm_resolve_route in = {.id = id, .timeout_ms = 2000};

	return run(h, f, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &in, sizeof(in), NULL, 0);
}

static int next_event(struct host *h, struct cm_file *f, struct rdma_ucm_event_resp *ret)
{
	struct rdma_ucm_get_event in = {0};

	return run(h, f, RDMA_USER_CM_CMD_GET_EVENT, &in, sizeof(in), ret, sizeof(*ret));
}

static struct rdma_ucm_event_resp expect(struct host *h, struct cm_file *f, uint32_t event,
					 uint64_t uid)
{
	struct rdma_ucm_event_resp e;

	assert_int_equal(next_event(h, f, &e), 0);
	assert_int_equal(e.event, event);
	assert_int_equal(e.uid, uid);
	return e;
}

static void quiet(struct host *h, struct cm_file *f)
{
	struct rdma_ucm_event_resp e;

	assert_int_equal(next_event(h, f, &e), -EAGAIN);
}

static int connect_to(struct host *h, struct cm_file *f, uint32_t id, const char *data)
{
	struct rdma_ucm_connect in = {.id = id,
				      .conn_param = {.qp_num = 0x41,
						     .valid = 1,
						     .responder_resources = 1,
						     .initiator_depth = 2,
						     .retry_count = 7,
						     .rnr_retry_count = 7}};

	in.conn_param.private_data_len = (uint8_t)strlen(data);
	memcpy(in.conn_param.private_data, data, strlen(data));
	return run(h, f, RDMA_USER_CM_CMD_CONNECT, &in, sizeof(in), NULL, 0);
}

static int accept_it(struct host *h, struct cm_file *f, uint32_t id, uint64_t uid)
{
	struct rdma_ucm_accept in = {.id = id,
				     .uid = uid,
				     .conn_param = {.qp_num = 0x42,
						    .valid = uid != 0,
						    .responder_resources = 2,
						    .initiator_depth = 1}};

	return run(h, f, RDMA_USER_CM_CMD_ACCEPT, &in, sizeof(in), NULL, 0);
}

static uint32_t destroy(struct host *h, struct cm_file *f, uint32_t id)
{
	struct rdma_ucm_destroy_id in = {.id = id};
	struct rdma_ucm_destroy_id_resp out;

	assert_int_equal(run(h, f, RDMA_USER_CM_CMD_DESTROY_ID, &in, sizeof(in), &out, sizeof(out)),
			 0);
	return out.events_reported;
}

static struct ib_uverbs_qp_attr attr_of(struct host *h, struct cm_file *f, uint32_t id,
					uint32_t qp_state)
{
	struct rdma_ucm_init_qp_attr in = {.id = id, .qp_state = qp_state};
	struct ib_uverbs_qp_attr out;

	assert_int_equal(
		run(h, f, RDMA_USER_CM_CMD_INIT_QP_ATTR, &in, sizeof(in), &out, sizeof(out)), 0);
	return out;
}

struct both {
	struct host *a, *b; /* client, server */
	struct cm_file *fa, *fb;
	uint32_t ida, listener, idb;
};

/* Resolved at the client, listening at the server; @text: its address. */
static struct both prepare(uint16_t ps, const char *text)
{
	struct both w = {.a = &hosts[0], .b = &hosts[1]};

	w.fa = cm_open(&w.a->cm);
	w.fb = cm_open(&w.b->cm);
	w.listener = new_id(w.b, w.fb, ps, 2);
	assert_int_equal(bind_to(w.b, w.fb, w.listener, "0.0.0.0", 7174), 0);
	assert_int_equal(listen_at(w.b, w.fb, w.listener, 1), 0);
	w.ida = new_id(w.a, w.fa, ps, 1);
	assert_int_equal(resolve(w.a, w.fa, w.ida, text, 7174), 0);
	expect(w.a, w.fa, EVENT_ADDR_RESOLVED, 1);
	assert_int_equal(route(w.a, w.fa, w.ida), 0);
	expect(w.a, w.fa, EVENT_ROUTE_RESOLVED, 1);
	return w;
}

static void connect_both(struct both *w)
{
	struct rdma_ucm_event_resp e;

	assert_int_equal(connect_to(w->a, w->fa, w->ida, "hello"), 0);
	exchange();
	e = expect(w->b, w->fb, EVENT_CONNECT_REQUEST, 2);
	w->idb = e.id;
	assert_int_not_equal(w->idb, w->listener);
	assert_string_equal((char *)e.param.conn.private_data, "hello");
	assert_int_equal(e.param.conn.private_data_len, 56);
	assert_int_equal(e.param.conn.qp_num, 0x41);
	assert_int_equal(e.param.conn.responder_resources, 2);
	assert_int_equal(e.param.conn.initiator_depth, 1);
	assert_int_equal(accept_it(w->b, w->fb, w->idb, 3), 0);
	exchange();
	expect(w->a, w->fa, EVENT_CONNECT_RESPONSE, 1);
	quiet(w->b, w->fb);
	assert_int_equal(accept_it(w->a, w->fa, w->ida, 0), 0);
	exchange();
	expect(w->b, w->fb, EVENT_ESTABLISHED, 3);
	quiet(w->a, w->fa);
}

static void test_connection(void **state)
{
	struct both w = prepare(RDMA_PS_TCP, "10.1.0.2");
	struct ib_uverbs_qp_attr a, b;
	struct rdma_ucm_disconnect bye;

	(void)state;
	connect_both(&w);
	a = attr_of(w.a, w.fa, w.ida, IBV_QPS_RTR);
	b = attr_of(w.b, w.fb, w.idb, IBV_QPS_RTS);
	assert_int_equal(a.qp_attr_mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(a.dest_qp_num, 0x42);
	assert_int_equal(a.path_mtu, IBV_MTU_4096);
	assert_int_equal(a.rq_psn, b.sq_psn);
	assert_int_equal(a.ah_attr.grh.sgid_index, 3); /* RoCE v2 */
	assert_int_equal(a.ah_attr.grh.dgid[13], 1);
	assert_int_equal(a.ah_attr.grh.dgid[15], 2);
	assert_int_equal(b.timeout, 19);
	assert_int_equal(b.retry_cnt, 7);
	a = attr_of(w.a, w.fa, w.ida, IBV_QPS_INIT);
	assert_int_equal(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC);
	bye.id = w.ida;
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_DISCONNECT, &bye, sizeof(bye), NULL, 0),
			 0);
	exchange();
	expect(w.b, w.fb, EVENT_DISCONNECTED, 3);
	quiet(w.a, w.fa);
	bye.id = w.idb;
	assert_int_equal(run(w.b, w.fb, RDMA_USER_CM_CMD_DISCONNECT, &bye, sizeof(bye), NULL, 0),
			 0);
	exchange();
	expect(w.a, w.fa, EVENT_DISCONNECTED, 1);
	for (int i = 0; i < 2; i++) {
		hosts[i].cm.now_ns += 3 * SECOND;
		cm_timers(&hosts[i].cm);
	}
	expect(w.a, w.fa, EVENT_TIMEWAIT_EXIT, 1);
	assert_int_equal(destroy(w.a, w.fa, w.ida), 5);
	assert_int_equal(destroy(w.b, w.fb, w.idb),
			 2); /* established, disconnected; the last was not read */
	assert_int_equal(destroy(w.b, w.fb, w.listener), 1);
	quiet(w.b, w.fb);
}

static void test_query(void **state)
{
	struct both w = prepare(RDMA_PS_TCP, "10.1.0.2");
	struct rdma_ucm_query in = {.id = w.ida, .option = RDMA_USER_CM_QUERY_ADDR};
	struct rdma_ucm_query_addr_resp r;
	struct rdma_ucm_query_route_resp route_resp;
	struct sockaddr_in src;
	uint8_t gid[16];

	(void)state;
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), &r, sizeof(r)), 0);
	memcpy(&src, &r.src_addr, sizeof(src));
	assert_int_equal(src.sin_addr.s_addr, sockaddr("10.1.0.1", 0).sin_addr.s_addr);
	assert_in_range(ntohs(src.sin_port), CM_PORT_FIRST, CM_PORT_LAST);
	assert_int_equal(r.node_guid, 0x1111111111111111);
	assert_int_equal(r.port_num, 1);
	in.option = RDMA_USER_CM_QUERY_GID;
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), &r, sizeof(r)), 0);
	address(1, 2, gid);
	assert_memory_equal((uint8_t *)&r.dst_addr + 8, gid, 16);
	in.option = 3;
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), &r, sizeof(r)),
			 -ENOSYS);
	in.option = RDMA_USER_CM_QUERY_ADDR;
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), &r, 8), -ENOSPC);
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_QUERY_ROUTE, &in, sizeof(in), &route_resp,
			     sizeof(route_resp)),
			 0);
	assert_int_equal(route_resp.num_paths, 1);
	assert_memory_equal(route_resp.ib_route[0].dgid, gid, 16);
	assert_int_equal(route_resp.ib_route[0].mtu, IBV_MTU_4096);
}

static void check_lid_only(const struct ib_uverbs_ah_attr *ah, uint16_t dlid)
{
	static const struct ib_uverbs_ah_attr zero;

	assert_int_equal(ah->dlid, dlid);
	assert_int_equal(ah->is_global, 0);
	assert_int_equal(ah->sl, 0);
	assert_int_equal(ah->src_path_bits, 0);
	assert_int_equal(ah->port_num, 1);
	assert_memory_equal(&ah->grh, &zero.grh, sizeof(zero.grh));
}

/* A program's connection between two ports of InfiniBand goes by LIDs, without a GRH. */
static void test_infiniband(void **state)
{
	struct ib_uverbs_qp_attr a, b;
	uint8_t gids[2][16];
	struct mad req;
	struct both w;

	(void)state;
	make_infiniband();
	w = prepare(RDMA_PS_TCP, "10.1.0.2");
	assert_int_equal(attr_of(w.a, w.fa, w.ida, IBV_QPS_INIT).pkey_index, 2);
	assert_int_equal(connect_to(w.a, w.fa, w.ida, "hello"), 0);
	assert_int_equal(mad_decode(w.a->wire[0].bytes, MAD_BYTES, &req), 0);
	ib_gid(1, gids[0]);
	ib_gid(2, gids[1]);
	assert_int_equal(req.req.path.local_lid, 0x20);
	assert_int_equal(req.req.path.remote_lid, 0x21);
	assert_memory_equal(req.req.path.local_gid, gids[0], 16);
	assert_memory_equal(req.req.path.remote_gid, gids[1], 16);
	assert_true(req.req.path.subnet_local);
	assert_int_equal(req.req.path.hop_limit, 0);
	assert_int_equal(req.pkey, 0xffff);
	w.a->cm.now_ns += 60 * SECOND;
	cm_timers(&w.a->cm);
	assert_int_equal(w.a->n_wire, 2); /* the same once more: one request */
	exchange();
	w.idb = expect(w.b, w.fb, EVENT_CONNECT_REQUEST, 2).id;
	quiet(w.b, w.fb);
	assert_int_equal(accept_it(w.b, w.fb, w.idb, 3), 0);
	exchange();
	expect(w.a, w.fa, EVENT_CONNECT_RESPONSE, 1);
	a = attr_of(w.a, w.fa, w.ida, IBV_QPS_RTR);
	b = attr_of(w.b, w.fb, w.idb, IBV_QPS_RTR);
	check_lid_only(&a.ah_attr, 0x21);
	check_lid_only(&b.ah_attr, 0x20);
	assert_int_equal(a.ah_attr.static_rate, IBV_RATE_100_GBPS);
	assert_int_equal(b.ah_attr.static_rate, IBV_RATE_100_GBPS);
	assert_int_equal(a.path_mtu, IBV_MTU_4096);
	assert_int_equal(attr_of(w.b, w.fb, w.idb, IBV_QPS_INIT).pkey_index, 2);
	assert_int_equal(attr_of(w.b, w.fb, w.idb, IBV_QPS_RTS).timeout, 19);
}

static void test_infiniband_path(void **state)
{
	struct rdma_ucm_query in = {.option = RDMA_USER_CM_QUERY_PATH};
	struct rdma_ucm_query_route_resp all;
	struct rdma_ucm_query_addr_resp addrs;
	struct ib_user_path_rec *r = &all.ib_route[0];
	struct {
		struct rdma_ucm_query_path_resp head;
		struct ib_path_rec_data data;
	} path;
	uint8_t gids[2][16], *b = (uint8_t *)path.data.path_rec;
	struct both w;

	(void)state;
	make_infiniband();
	w = prepare(RDMA_PS_TCP, "10.1.0.2");
	in.id = w.ida;
	ib_gid(1, gids[0]);
	ib_gid(2, gids[1]);
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_QUERY_ROUTE, &in, sizeof(in), &all, sizeof(all)), 0);
	assert_int_equal(all.num_paths, 1);
	assert_int_equal(ntohs(r->slid), 0x20);
	assert_int_equal(ntohs(r->dlid), 0x21);
	assert_memory_equal(r->sgid, gids[0], 16);
	assert_memory_equal(r->dgid, gids[1], 16);
	assert_int_equal(ntohs(r->pkey), 0xffff);
	assert_int_equal(r->hop_limit, 0);
	assert_int_equal(r->flow_label, 0);
	assert_int_equal(r->rate, IBV_RATE_100_GBPS);
	assert_int_equal(r->mtu, IBV_MTU_4096);
	assert_int_equal(r->packet_life_time, 18);
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), &path, sizeof(path)), 0);
	assert_int_equal(path.head.num_paths, 1);
	assert_memory_equal(b + 8, gids[1], 16);
	assert_memory_equal(b + 24, gids[0], 16);
	assert_memory_equal(b + 40, "\0\x21\0\x20\0\0\0", 8);
	assert_memory_equal(b + 50, "\xff\xff", 2);
	in.option = RDMA_USER_CM_QUERY_GID;
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), &addrs, sizeof(addrs)), 0);
	assert_int_equal(ntohs(addrs.pkey), 0xffff);
	assert_memory_equal((uint8_t *)&addrs.src_addr + 2, "\xff\xff", 2);
	assert_memory_equal((uint8_t *)&addrs.src_addr + 8, gids[0], 16);
	assert_memory_equal((uint8_t *)&addrs.dst_addr + 8, gids[1], 16);
}

static void test_infiniband_datagrams(void **state)
{
	struct rdma_ucm_join_mcast group = {.addr_size = sizeof(struct sockaddr_in)};
	struct sockaddr_in a = sockaddr("224.0.0.77", 0);
	struct rdma_ucm_create_id_resp out;
	struct rdma_ucm_event_resp e;
	struct both w;

	(void)state;
	make_infiniband();
	w = prepare(RDMA_PS_UDP, "10.1.0.2");
	assert_int_equal(attr_of(w.a, w.fa, w.ida, IBV_QPS_INIT).pkey_index, 2);
	assert_int_equal(connect_to(w.a, w.fa, w.ida, "hello"), 0);
	exchange();
	e = expect(w.b, w.fb, EVENT_CONNECT_REQUEST, 2);
	assert_int_equal(accept_it(w.b, w.fb, e.id, 3), 0);
	exchange();
	e = expect(w.a, w.fa, EVENT_ESTABLISHED, 1);
	check_lid_only(&e.param.ud.ah_attr, 0x21);
	group.id = w.ida;
	memcpy(&group.addr, &a, sizeof(a));
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_JOIN_MCAST, &group, sizeof(group), &out, sizeof(out)),
			 -ENOSYS);
}

static void test_infiniband_addresses(void **state)
{
	struct host *h = &hosts[0];
	struct cm_file *f = cm_open(&h->cm);
	struct sim_port *p = &h->state->devs[1].ports[0];
	struct cm_path path;
	uint8_t addr[16];
	uint32_t id[4];

	(void)state;
	make_infiniband();
	address(1, 2, addr);
	assert_false(dev_of_addr(&h->cm, addr, 0, &path)); /* a LID of the other host */
	address(1, 1, addr);
	assert_false(dev_of_addr(&h->cm, addr, 7, &path)); /* on another netdev */
	assert_true(dev_of_addr(&h->cm, addr, 3, &path));
	for (uint32_t i = 0; i < 4; i++)
		id[i] = new_id(h, f, RDMA_PS_TCP, i + 1);
	assert_int_equal(resolve(h, f, id[0], "10.1.0.9", 1), 0);
	assert_int_equal((int)expect(h, f, EVENT_ADDR_ERROR, 1).status, -EHOSTUNREACH);
	assert_int_equal(resolve(h, f, id[1], "10.1.0.1", 1), 0); /* its own */
	expect(h, f, EVENT_ADDR_RESOLVED, 2);
	h->state->devs[0].ports[0].state = SIM_PORT_DOWN;
	assert_int_equal(resolve(h, f, id[2], "127.0.0.1", 1), 0);
	expect(h, f, EVENT_ADDR_RESOLVED, 3);
	assert_int_equal(route(h, f, id[2]), 0);
	expect(h, f, EVENT_ROUTE_RESOLVED, 3);
	assert_int_equal(connect_to(h, f, id[2], ""), 0);
	assert_int_equal(h->wire[0].path.dlid, 0x20);
	h->removed = true;
	assert_int_equal(bind_to(h, f, id[3], "10.1.0.1", 1), -EADDRNOTAVAIL);
	h->removed = false;
	p->pkeys[2] = 0;
	assert_int_equal(bind_to(h, f, id[3], "10.1.0.1", 1), 0);
	assert_int_equal(attr_of(h, f, id[3], IBV_QPS_INIT).pkey_index, 1); /* as a limited member */
}

static void test_nobody_listens(void **state)
{
	struct both w = prepare(RDMA_PS_TCP, "10.0.0.2");
	struct rdma_ucm_event_resp e;

	(void)state;
	destroy(w.b, w.fb, w.listener);
	assert_int_equal(connect_to(w.a, w.fa, w.ida, ""), 0);
	exchange();
	e = expect(w.a, w.fa, EVENT_REJECTED, 1);
	assert_int_equal(e.status, MAD_REJ_INVALID_SERVICE_ID);
}

static void test_backlog(void **state)
{
	struct both w = prepare(RDMA_PS_TCP, "10.0.0.2");
	uint32_t second = new_id(w.a, w.fa, RDMA_PS_TCP, 4);
	struct rdma_ucm_event_resp e;

	(void)state;
	assert_int_equal(resolve(w.a, w.fa, second, "10.0.0.2", 7174), 0);
	assert_int_equal(route(w.a, w.fa, second), 0);
	expect(w.a, w.fa, EVENT_ADDR_RESOLVED, 4);
	expect(w.a, w.fa, EVENT_ROUTE_RESOLVED, 4);
	assert_int_equal(connect_to(w.a, w.fa, w.ida, ""), 0);
	assert_int_equal(connect_to(w.a, w.fa, second, ""), 0);
	exchange();
	e = expect(w.a, w.fa, EVENT_REJECTED, 4);
	assert_int_equal(e.status, MAD_REJ_CONSUMER);
	/* Who never reads the request refuses it in the end. */
	cm_close(&w.b->cm, w.fb);
	exchange();
	expect(w.a, w.fa, EVENT_REJECTED, 1);
}

static void test_process_dies(void **state)
{
	struct both w = prepare(RDMA_PS_TCP, "10.0.0.2");

	(void)state;
	connect_both(&w);
	cm_close(&w.a->cm, w.fa);
	exchange();
	expect(w.b, w.fb, EVENT_DISCONNECTED, 3);
}

static void test_datagrams(void **state)
{
	struct both w = prepare(RDMA_PS_UDP, "10.1.0.2");
	struct rdma_ucm_event_resp e;

	(void)state;
	assert_int_equal(attr_of(w.a, w.fa, w.ida, IBV_QPS_INIT).qkey, CM_UDP_QKEY);
	assert_int_equal(connect_to(w.a, w.fa, w.ida, "hello"), 0);
	exchange();
	e = expect(w.b, w.fb, EVENT_CONNECT_REQUEST, 2);
	assert_int_equal(e.param.ud.private_data_len, 180);
	assert_string_equal((char *)e.param.ud.private_data, "hello");
	assert_int_equal(accept_it(w.b, w.fb, e.id, 3), 0);
	exchange();
	e = expect(w.a, w.fa, EVENT_ESTABLISHED, 1);
	assert_int_equal(e.param.ud.qp_num, 0x42);
	assert_int_equal(e.param.ud.qkey, CM_UDP_QKEY);
	assert_int_equal(e.param.ud.ah_attr.grh.dgid[15], 2);
	assert_int_equal(e.param.ud.ah_attr.grh.sgid_index, 3);
	quiet(w.b, w.fb);
}

static void test_addresses(void **state)
{
	struct host *h = &hosts[0];
	struct cm_file *f = cm_open(&h->cm);
	uint32_t a = new_id(h, f, RDMA_PS_TCP, 1), b = new_id(h, f, RDMA_PS_TCP, 2),
		 c = new_id(h, f, RDMA_PS_UDP, 3);

	(void)state;
	assert_int_equal(bind_to(h, f, a, "10.7.0.1", 1), -EADDRNOTAVAIL);
	assert_int_equal(bind_to(h, f, a, "192.0.2.1", 1), -ENODEV);
	assert_int_equal(bind_to(h, f, a, "10.1.0.1", 7000), 0);
	assert_int_equal(bind_to(h, f, a, "10.1.0.1", 7000), -EINVAL);
	assert_int_equal(bind_to(h, f, b, "10.1.0.1", 7000), -EADDRINUSE);
	assert_int_equal(bind_to(h, f, b, "0.0.0.0", 7000), -EADDRNOTAVAIL);
	assert_int_equal(bind_to(h, f, b, "10.0.0.1", 7000), 0);
	assert_int_equal(bind_to(h, f, c, "0.0.0.0", 7000), 0);
}

static void test_resolving(void **state)
{
	struct host *h = &hosts[0];
	struct cm_file *f = cm_open(&h->cm);
	uint32_t id[4];
	uint64_t next;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		id[i] = new_id(h, f, RDMA_PS_TCP, i + 1);
	assert_int_equal(resolve(h, f, id[0], "172.16.0.1", 1), 0);
	assert_int_equal((int)expect(h, f, EVENT_ADDR_ERROR, 1).status, -ENETUNREACH);
	assert_int_equal(resolve(h, f, id[1], "192.0.2.2", 1), 0);
	assert_int_equal((int)expect(h, f, EVENT_ADDR_ERROR, 2).status, -ENODEV);
	h->neighbour = -EAGAIN;
	assert_int_equal(resolve(h, f, id[2], "10.0.0.2", 1), 0);
	quiet(h, f);
	for (next = cm_timers(&h->cm); next; next = cm_timers(&h->cm))
		h->cm.now_ns = next;
	assert_int_equal((int)expect(h, f, EVENT_ADDR_ERROR, 3).status, -ETIMEDOUT);
	assert_in_range(h->cm.now_ns, 3 * SECOND, 3 * SECOND + SECOND / 10);
	h->neighbour = 0;
	assert_int_equal(route(h, f, id[3]), -EINVAL);
	assert_int_equal(resolve(h, f, id[3], "10.0.0.1", 1), 0); /* its own */
	expect(h, f, EVENT_ADDR_RESOLVED, 4);
}

static void test_migrate(void **state)
{
	struct both w = prepare(RDMA_PS_TCP, "10.0.0.2");
	struct cm_file *other = cm_open(&w.a->cm);
	struct rdma_ucm_migrate_id in = {.id = w.ida, .fd = w.fa->number};
	struct rdma_ucm_migrate_resp out;

	(void)state;
	destroy(w.b, w.fb, w.listener);
	assert_int_equal(connect_to(w.a, w.fa, w.ida, ""), 0);
	exchange();
	assert_int_equal(
		run(w.a, other, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), &out, sizeof(out)),
		0);
	assert_int_equal(out.events_reported, 2);
	quiet(w.a, w.fa);
	expect(w.a, other, EVENT_REJECTED, 1);
	assert_int_equal(connect_to(w.a, w.fa, w.ida, ""), -EINVAL); /* not of this file any more */
	in.fd = 77;
	assert_int_equal(
		run(w.a, other, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), &out, sizeof(out)),
		-ENOENT);
}

static void test_options(void **state)
{
	struct {
		struct rdma_ucm_set_option in;
		uint8_t value[4];
	} o = {.in = {.level = RDMA_OPTION_ID, .optname = RDMA_OPTION_ID_ACK_TIMEOUT, .optlen = 1},
	       .value = {14}};
	struct both w = prepare(RDMA_PS_TCP, "10.0.0.2");
	size_t head = offsetof(typeof(o), value);

	(void)state;
	o.in.id = w.ida;
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_SET_OPTION, &o, head + 1, NULL, 0), 0);
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_SET_OPTION, &o, head, NULL, 0), -EINVAL);
	o.in.optname = 9;
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_SET_OPTION, &o, head + 1, NULL, 0),
			 -ENOSYS);
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_GET_OPTION, &o, head, NULL, 0), -ENOSYS);
	assert_int_equal(run(w.a, w.fa, 23, &o, head, NULL, 0), -EINVAL);
	assert_int_equal(run(w.a, w.fa, RDMA_USER_CM_CMD_LISTEN, &o, 3, NULL, 0), -EINVAL);
	connect_both(&w);
	assert_int_equal(attr_of(w.a, w.fa, w.ida, IBV_QPS_RTS).timeout, 14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_connection), TEST(test_query),        TEST(test_nobody_listens),
		TEST(test_backlog),    TEST(test_process_dies), TEST(test_datagrams),
		TEST(test_addresses),  TEST(test_resolving),    TEST(test_migrate),
		TEST(test_options),    TEST(test_infiniband),   TEST(test_infiniband_path),
		TEST(test_infiniband_datagrams), TEST(test_infiniband_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
