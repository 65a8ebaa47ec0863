/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connection manager of two hosts: the input is a script of commands to rdma_cm (raw bytes, and
 * those that are believable), messages of the peer (as they were sent, changed, or made up), and
 * time. Whatever it says, each host must stay within its memory and be empty in the end.
 */
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"
#include "input.h"

#define N_HOSTS 2
#define N_FILES 3
#define N_IDS   8
#define ON_WIRE 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct host {
	struct cm cm;
	struct cm_file *files[N_FILES];
	uint8_t n;
	struct {
		struct cm_path path;
		uint8_t bytes[MAD_BYTES];
	} wire[ON_WIRE]; /* sent, the newest over the oldest */
	uint32_t n_wire;
};

static struct sim_state *states[N_HOSTS];
static struct host hosts[N_HOSTS];
static uint32_t route_answer, neighbour_answer;

static void take_bytes(struct input *in, uint8_t *dst, size_t n)
{
	memset(dst, 0, n);
	n = n < in->left ? n : in->left;
	memcpy(dst, in->p, n);
	in->p += n;
	in->left -= n;
}

static void address(uint8_t n, uint8_t *gid)
{
	memset(gid, 0, 16);
	memset(gid + 10, 0xff, 2);
	gid[12] = 10;
	gid[15] = n;
}

static void op_send(void *arg, const struct cm_path *path, const uint8_t *mad)
{
	struct host *h = arg;

	h->wire[h->n_wire % ON_WIRE].path = *path;
	memcpy(h->wire[h->n_wire++ % ON_WIRE].bytes, mad, MAD_BYTES);
}

static int op_route(void *arg, const uint8_t *src, const uint8_t *dst, uint32_t ifindex,
		    struct cm_route *ret)
{
	struct host *h = arg;

	(void)src;
	(void)ifindex;
	memset(ret, 0, sizeof(*ret));
	address(h->n, ret->src);
	ret->local = !memcmp(dst, ret->src, 16);
	return route_answer & 1 ? -101 : 0;
}

static int op_neighbour(void *arg, const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex,
			uint8_t *ret_mac)
{
	(void)arg;
	(void)sgid;
	(void)dgid;
	(void)ifindex;
	memset(ret_mac, 2, 6);
	return neighbour_answer & 1 ? -11 : 0;
}

static bool op_own_address(void *arg, const uint8_t *addr)
{
	const struct host *h = arg;

	return addr[15] == h->n || addr[15] & 1;
}

static void op_readable(void *arg, struct cm_file *f)
{
	(void)arg;
	(void)f;
}

static const struct cm_ops ops = {op_send, op_route, op_neighbour, op_own_address, op_readable};

static void set_up(struct host *h, uint8_t n, bool infiniband)
{
	struct sim_port *p;

	if (!states[n]) {
		states[n] = calloc(1, sizeof(*states[n]));
		states[n]->n_devs = 1;
		states[n]->devs[0].present = 1;
		states[n]->devs[0].n_ports = 1;
		p = &states[n]->devs[0].ports[0];
		p->state = SIM_PORT_ACTIVE;
		p->active_mtu = 5;
		p->n_gids = 2;
		p->gids[1].type = SIM_GID_ROCE_V2;
		address(n, p->gids[1].raw);
		p->lid = n + 1;
		p->pkeys[0] = CM_PKEY;
		for (uint8_t i = 0; i < N_HOSTS; i++) {
			states[n]->lids[i].lid = i + 1;
			states[n]->lids[i].gid[15] = i;
			address(i, states[n]->lids[i].addr);
		}
	}
	states[n]->devs[0].ports[0].link_layer = infiniband ? SIM_LINK_INFINIBAND : SIM_LINK_ETHERNET;
	memset(h, 0, sizeof(*h));
	h->n = n;
	cm_init(&h->cm, states[n], &ops, h, 1);
	h->cm.now_ns = 1;
	for (int i = 0; i < N_FILES; i++)
		h->files[i] = cm_open(&h->cm);
}

static struct host *any_host(struct input *in)
{
	return &hosts[take(in, 1) % N_HOSTS];
}

static void run(struct host *h, struct input *in, uint32_t cmd, const void *body, size_t len)
{
	/* On the heap and of that very length, so that nobody reads or writes beyond it. */
	uint32_t out_len = take(in, 1) & 7 ? 1024 : (uint32_t)take(in, 2) % 1025, ret_len = 0;
	uint8_t *copy = malloc(len ? len : 1), *out = malloc(out_len ? out_len : 1);
	struct cm_file *f = h->files[take(in, 1) % N_FILES];

	memcpy(copy, body, len);
	if (f && !cm_command(&h->cm, f, cmd, copy, (uint32_t)len, out, out_len, &ret_len) &&
	    ret_len > out_len)
		abort();
	free(copy);
	free(out);
}

static void raw_command(struct input *in)
{
	uint8_t body[600];
	size_t len = take(in, 2) % sizeof(body);
	struct host *h = any_host(in);
	uint32_t cmd = (uint32_t)take(in, 1) % 26;

	take_bytes(in, body, len);
	run(h, in, cmd, body, len);
}

static void fill_addr(struct input *in, struct __kernel_sockaddr_storage *ret)
{
	uint8_t what = (uint8_t)take(in, 1), gid[16];
	union cm_addr a;

	address(what & 0xc ? what & 1 : 0x77, gid);
	if (what & 2)
		memset(gid + 12, 0, 4);
	addr_from_gid(gid, 7000 + (what >> 7), &a);
	memcpy(ret, &a, sizeof(a.v4));
}

/* One that gets somewhere. */
static void good_command(struct input *in)
{
	struct host *h = any_host(in);
	uint32_t id = (uint32_t)take(in, 1) % N_IDS;
	union {
		struct rdma_ucm_create_id create;
		struct rdma_ucm_bind bind;
		struct rdma_ucm_resolve_addr resolve;
		struct rdma_ucm_resolve_route route;
		struct rdma_ucm_connect connect;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_listen listen;
		struct rdma_ucm_init_qp_attr attr;
		struct rdma_ucm_query query;
		struct rdma_ucm_migrate_id migrate;
		struct rdma_ucm_join_mcast join;
		struct rdma_ucm_destroy_id destroy;
		struct rdma_ucm_reject reject;
		uint8_t bytes[600];
	} c;

	memset(&c, 0, sizeof(c));
	switch (take(in, 1) % 16) {
	case 0:
		c.create.uid = 1 + id;
		c.create.ps = take(in, 1) & 1 ? RDMA_PS_TCP : RDMA_PS_UDP;
		run(h, in, RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof(c.create));
		break;
	case 1:
		c.bind.id = id;
		c.bind.addr_size = sizeof(struct sockaddr_in);
		fill_addr(in, &c.bind.addr);
		run(h, in, RDMA_USER_CM_CMD_BIND, &c, sizeof(c.bind));
		break;
	case 2:
		c.listen.id = id;
		c.listen.backlog = (uint32_t)take(in, 1) & 3;
		run(h, in, RDMA_USER_CM_CMD_LISTEN, &c, sizeof(c.listen));
		break;
	case 3:
		c.resolve.id = id;
		c.resolve.dst_size = sizeof(struct sockaddr_in);
		c.resolve.timeout_ms = (uint32_t)take(in, 1);
		fill_addr(in, &c.resolve.dst_addr);
		run(h, in, RDMA_USER_CM_CMD_RESOLVE_ADDR, &c, sizeof(c.resolve));
		break;
	case 4:
		c.route.id = id;
		run(h, in, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &c, sizeof(c.route));
		break;
	case 5:
		c.connect.id = id;
		c.connect.conn_param.valid = 1;
		c.connect.conn_param.private_data_len = (uint8_t)take(in, 1);
		run(h, in, RDMA_USER_CM_CMD_CONNECT, &c, sizeof(c.connect));
		break;
	case 6:
	case 7:
		c.accept.id = id;
		c.accept.uid = 100 + id;
		c.accept.conn_param.valid = (uint8_t)take(in, 1) & 1;
		c.accept.conn_param.private_data_len = (uint8_t)take(in, 1);
		run(h, in, RDMA_USER_CM_CMD_ACCEPT, &c, sizeof(c.accept));
		break;
	case 8:
		c.attr.id = id;
		c.attr.qp_state = (uint32_t)take(in, 1) & 3;
		run(h, in, RDMA_USER_CM_CMD_INIT_QP_ATTR, &c, sizeof(c.attr));
		break;
	case 9:
		c.query.id = id;
		c.query.option = (uint32_t)take(in, 1) & 3;
		run(h, in,
		    c.query.option == 3 ? RDMA_USER_CM_CMD_QUERY_ROUTE : RDMA_USER_CM_CMD_QUERY, &c,
		    sizeof(c.query));
		break;
	case 10:
		c.migrate.id = id;
		c.migrate.fd = (uint32_t)take(in, 1) % N_FILES;
		run(h, in, RDMA_USER_CM_CMD_MIGRATE_ID, &c, sizeof(c.migrate));
		break;
	case 11:
		c.destroy.id = id;
		run(h, in, RDMA_USER_CM_CMD_DESTROY_ID, &c, sizeof(c.destroy));
		break;
	case 12:
		c.route.id = id;
		run(h, in, RDMA_USER_CM_CMD_DISCONNECT, &c, sizeof(struct rdma_ucm_disconnect));
		break;
	case 13:
		c.reject.id = id;
		c.reject.private_data_len = (uint8_t)take(in, 1);
		run(h, in, RDMA_USER_CM_CMD_REJECT, &c, sizeof(c.reject));
		break;
	case 14:
		c.join.id = id;
		c.join.addr_size = sizeof(struct sockaddr_in);
		fill_addr(in, &c.join.addr);
		((struct sockaddr_in *)&c.join.addr)->sin_addr.s_addr |= 0xe0;
		run(h, in, RDMA_USER_CM_CMD_JOIN_MCAST, &c, sizeof(c.join));
		break;
	default:
		run(h, in, RDMA_USER_CM_CMD_GET_EVENT, &c, sizeof(struct rdma_ucm_get_event));
		break;
	}
}

static void way_back(struct host *to, const struct host *from, struct cm_path *ret)
{
	uint8_t addr[16];

	memset(ret, 0, sizeof(*ret));
	address(to->n, addr);
	dev_of_addr(&to->cm, addr, 0, ret);
	address(from->n, addr);
	path_to(&to->cm, addr, ret);
}

/* What the peer sent lately, perhaps with some bytes changed; or anything. */
static void message(struct input *in)
{
	struct host *to = any_host(in), *from = &hosts[!to->n];
	uint8_t bytes[MAD_BYTES], how = (uint8_t)take(in, 1);
	struct cm_path back;
	size_t len = MAD_BYTES;

	way_back(to, from, &back);
	if (from->n_wire && how & 7) {
		memcpy(bytes, from->wire[(from->n_wire - 1 - (how >> 3 & 3)) % ON_WIRE].bytes,
		       MAD_BYTES);
	} else {
		take_bytes(in, bytes, sizeof(bytes));
		memcpy(bytes, "\1\7\2\3", 4);
		bytes[16] = 0;
		bytes[17] = 0x10 + bytes[17] % 11;
	}
	for (how >>= 5; how & 3; how--)
		bytes[take(in, 1)] = (uint8_t)take(in, 1);
	if (how & 4)
		len = take(in, 1);
	cm_receive(&to->cm, &back, bytes, len);
}

static void reopen(struct input *in)
{
	struct host *h = any_host(in);
	int i = (int)(take(in, 1) % N_FILES);

	cm_close(&h->cm, h->files[i]);
	h->files[i] = cm_open(&h->cm);
}

static void must(struct host *h, uint32_t cmd, const void *body, uint32_t len)
{
	uint8_t out[1024];
	uint32_t ret_len;

	if (cm_command(&h->cm, h->files[0], cmd, body, len, out, sizeof(out), &ret_len))
		abort();
}

/* The newest of what one sent reaches the other. */
static void pass(struct host *from)
{
	struct host *to = &hosts[!from->n];
	struct cm_path back;

	way_back(to, from, &back);
	cm_receive(&to->cm, &back, from->wire[(from->n_wire - 1) % ON_WIRE].bytes, MAD_BYTES);
}

/* Host 1 listens, host 0 is about to connect; and goes on as far as @how says. */
static void prepare(uint8_t how)
{
	struct rdma_ucm_create_id create = {.uid = 1, .ps = how & 1 ? RDMA_PS_UDP : RDMA_PS_TCP};
	struct rdma_ucm_bind bind = {.addr_size = sizeof(struct sockaddr_in)};
	struct rdma_ucm_listen listen = {.backlog = 2};
	struct rdma_ucm_resolve_addr resolve = {.dst_size = sizeof(struct sockaddr_in)};
	struct rdma_ucm_resolve_route route = {0};
	struct rdma_ucm_connect connect = {.conn_param.valid = 1};
	struct rdma_ucm_accept accept = {.id = 1, .uid = 9, .conn_param.valid = 1};
	struct rdma_ucm_get_event event = {0};
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7000)};

	memcpy(&bind.addr, &a, sizeof(a));
	a.sin_addr.s_addr = htonl(0x0a000001);
	memcpy(&resolve.dst_addr, &a, sizeof(a));
	must(&hosts[1], RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create));
	must(&hosts[1], RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind));
	must(&hosts[1], RDMA_USER_CM_CMD_LISTEN, &listen, sizeof(listen));
	must(&hosts[0], RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create));
	must(&hosts[0], RDMA_USER_CM_CMD_RESOLVE_ADDR, &resolve, sizeof(resolve));
	must(&hosts[0], RDMA_USER_CM_CMD_RESOLVE_ROUTE, &route, sizeof(route));
	if (!(how & 6))
		return;
	must(&hosts[0], RDMA_USER_CM_CMD_CONNECT, &connect, sizeof(connect));
	pass(&hosts[0]);
	must(&hosts[1], RDMA_USER_CM_CMD_GET_EVENT, &event, sizeof(event));
	if (how & 2)
		return;
	must(&hosts[1], RDMA_USER_CM_CMD_ACCEPT, &accept, sizeof(accept));
	pass(&hosts[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t how;

	how = (uint8_t)take(&in, 1);
	for (uint8_t i = 0; i < N_HOSTS; i++)
		set_up(&hosts[i], i, how >> 7);
	route_answer = neighbour_answer = 0;
	if (how & 0xf8)
		prepare(how);
	while (in.left) {
		uint8_t what = (uint8_t)take(&in, 1);

		route_answer = what >> 6 == 3;
		neighbour_answer = what >> 6 == 2;
		switch (what & 15) {
		case 0:
			raw_command(&in);
			break;
		case 1:
			reopen(&in);
			break;
		case 2:
		case 3:
			for (int i = 0; i < N_HOSTS; i++) {
				hosts[i].cm.now_ns += take(&in, 2) * 1000000;
				cm_timers(&hosts[i].cm);
			}
			break;
		case 4:
		case 5:
		case 6:
		case 7:
			message(&in);
			break;
		default:
			good_command(&in);
			break;
		}
	}
	for (int i = 0; i < N_HOSTS; i++) {
		char text[256];

		cm_show(&hosts[i].cm, text, sizeof(text));
		cm_fini(&hosts[i].cm);
		if (!TAILQ_EMPTY(&hosts[i].cm.all))
			abort();
	}
	return 0;
}
