/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ucma_hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct host *hosts;

void address(uint8_t dev, uint8_t n, uint8_t *gid)
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

int set_up(void **state)
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

int tear_down(void **state)
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

void exchange(void)
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

int run(struct host *h, struct cm_file *f, uint32_t cmd, const void *in, size_t in_len, void *out,
	size_t out_len)
{
	uint32_t len = 0;
	int err = cm_command(&h->cm, f, cmd, in, (uint32_t)in_len, out, (uint32_t)out_len, &len);

	if (!err && out_len)
		assert_int_equal(len, out_len);
	return err;
}

uint32_t new_id(struct host *h, struct cm_file *f, uint16_t ps, uint64_t uid)
{
	struct rdma_ucm_create_id in = {.uid = uid, .ps = ps};
	struct rdma_ucm_create_id_resp out;

	assert_int_equal(run(h, f, RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof(in), &out, sizeof(out)),
			 0);
	return out.id;
}

struct sockaddr_in sockaddr(const char *text, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, text, &a.sin_addr);
	return a;
}

int bind_to(struct host *h, struct cm_file *f, uint32_t id, const char *text, uint16_t port)
{
	struct sockaddr_in a = sockaddr(text, port);
	struct rdma_ucm_bind in = {.id = id, .addr_size = sizeof(a)};

	memcpy(&in.addr, &a, sizeof(a));
	return run(h, f, RDMA_USER_CM_CMD_BIND, &in, sizeof(in), NULL, 0);
}

int listen_at(struct host *h, struct cm_file *f, uint32_t id, uint32_t backlog)
{
	struct rdma_ucm_listen in = {.id = id, .backlog = backlog};

	return run(h, f, RDMA_USER_CM_CMD_LISTEN, &in, sizeof(in), NULL, 0);
}

int resolve(struct host *h, struct cm_file *f, uint32_t id, const char *text, uint16_t port)
{
	struct sockaddr_in a = sockaddr(text, port);
	struct rdma_ucm_resolve_addr in = {.id = id, .timeout_ms = 2000, .dst_size = sizeof(a)};

	memcpy(&in.dst_addr, &a, sizeof(a));
	return run(h, f, RDMA_USER_CM_CMD_RESOLVE_ADDR, &in, sizeof(in), NULL, 0);
}

int route(struct host *h, struct cm_file *f, uint32_t id)
{
	struct rdma_ucm_resolve_route in = {.id = id, .timeout_ms = 2000};

	return run(h, f, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &in, sizeof(in), NULL, 0);
}

static int next_event(struct host *h, struct cm_file *f, struct rdma_ucm_event_resp *ret)
{
	struct rdma_ucm_get_event in = {0};

	return run(h, f, RDMA_USER_CM_CMD_GET_EVENT, &in, sizeof(in), ret, sizeof(*ret));
}

struct rdma_ucm_event_resp expect(struct host *h, struct cm_file *f, uint32_t event, uint64_t uid)
{
	struct rdma_ucm_event_resp e;

	assert_int_equal(next_event(h, f, &e), 0);
	assert_int_equal(e.event, event);
	assert_int_equal(e.uid, uid);
	return e;
}

void quiet(struct host *h, struct cm_file *f)
{
	struct rdma_ucm_event_resp e;

	assert_int_equal(next_event(h, f, &e), -EAGAIN);
}

int connect_to(struct host *h, struct cm_file *f, uint32_t id, const char *data)
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

int accept_it(struct host *h, struct cm_file *f, uint32_t id, uint64_t uid)
{
	struct rdma_ucm_accept in = {.id = id,
				     .uid = uid,
				     .conn_param = {.qp_num = 0x42,
						    .valid = uid != 0,
						    .responder_resources = 2,
						    .initiator_depth = 1}};

	return run(h, f, RDMA_USER_CM_CMD_ACCEPT, &in, sizeof(in), NULL, 0);
}

uint32_t destroy(struct host *h, struct cm_file *f, uint32_t id)
{
	struct rdma_ucm_destroy_id in = {.id = id};
	struct rdma_ucm_destroy_id_resp out;

	assert_int_equal(run(h, f, RDMA_USER_CM_CMD_DESTROY_ID, &in, sizeof(in), &out, sizeof(out)),
			 0);
	return out.events_reported;
}

struct ib_uverbs_qp_attr attr_of(struct host *h, struct cm_file *f, uint32_t id, uint32_t qp_state)
{
	struct rdma_ucm_init_qp_attr in = {.id = id, .qp_state = qp_state};
	struct ib_uverbs_qp_attr out;

	assert_int_equal(
		run(h, f, RDMA_USER_CM_CMD_INIT_QP_ATTR, &in, sizeof(in), &out, sizeof(out)), 0);
	return out;
}

struct both prepare(uint16_t ps, const char *text)
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

void connect_both(struct both *w)
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
