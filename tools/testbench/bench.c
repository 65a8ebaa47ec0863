// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The device under test, and devices that talk to it. */
#include "bench.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gid.h"

#define ENTRIES     512
#define ATTEMPTS    8
#define ANSWER_NS   3000000000ull
#define SAME_PREFIX 64 /* shared bits of an IPv6 GID; of an IPv4 one: */
#define SAME_IPV4   (96 + 24)

/* mlx5dv_init_obj() in the object that has the context's functions. */
static void find_init_obj(struct q_port *port)
{
	void *function = (void *)(uintptr_t)port->ctx->ops.poll_cq, *handle;
	Dl_info info;

	if (!dladdr(function, &info) || !info.dli_fname)
		return;
	handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	if (!handle)
		return;
	*(void **)&port->init_obj = dlsym(handle, "mlx5dv_init_obj");
}

static int open_port(struct ibv_device *device, struct q_port *port)
{
	port->device = ibv_get_device_name(device);
	errno = 0;
	port->ctx = ibv_open_device(device);
	if (!port->ctx)
		return errno ? -errno : -EIO;
	port->pd = ibv_alloc_pd(port->ctx);
	if (!port->pd) {
		ibv_close_device(port->ctx);
		port->ctx = NULL;
		return errno ? -errno : -ENOMEM;
	}
	find_init_obj(port);
	return 0;
}

static void close_port(struct q_port *port)
{
	if (!port->ctx)
		return;
	ibv_dealloc_pd(port->pd);
	ibv_close_device(port->ctx);
	memset(port, 0, sizeof(*port));
}

/* Do a WRITE from one port to the other, and its acknowledgement, arrive? */
static bool gets_through(struct q_bench *b, struct q_port *from, struct q_port *to)
{
	const struct q_size size = {.send_wr = 4, .recv_wr = 1, .sge = 1};
	struct q_way way = q_way(b, IBV_MTU_256);
	struct q_mem src = {0}, dst = {0};
	struct q_qp a = {0}, z = {0};
	struct q_post post = {.opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .from = &src, .length = 8, .to = &dst};
	struct ibv_wc wc;
	bool through = false;

	way.retry_cnt = 3;
	if (!q_mem_make(from, 4096, &src) && !q_mem_make(to, 4096, &dst) && !q_qp_make(from, &size, &a) && !q_qp_make(to, &size, &z)) {
		src.buf[0] = 7;
		through = !q_connect(&a, &z, &way) && !q_post(&a, &post) && !q_wait(a.send_cq, ANSWER_NS, &wc) &&
			  wc.status == IBV_WC_SUCCESS && dst.buf[0] == 7;
	}
	q_qp_end(&a);
	q_qp_end(&z);
	q_mem_end(&src);
	q_mem_end(&dst);
	return through;
}

static bool is_ipv4(const struct ibv_gid_entry *e)
{
	return e->gid_type == IBV_GID_TYPE_ROCE_V2 && mv_gid_family(&e->gid) == MV_FAMILY_IPV4;
}

static int set_address(struct q_port *port, const struct ibv_gid_entry *e)
{
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof(attr));
	if (ibv_query_port(port->ctx, (uint8_t)e->port_num, &attr) || attr.state != IBV_PORT_ACTIVE)
		return -ENETDOWN;
	port->num = (uint8_t)e->port_num;
	port->active_mtu = attr.active_mtu;
	port->own = (struct ibv_ah_attr){.port_num = port->num};
	if (attr.link_layer == IBV_LINK_LAYER_INFINIBAND && attr.lid)
		port->own.dlid = attr.lid;
	else
		port->own.is_global = 1;
	port->own.grh = (struct ibv_global_route){.dgid = e->gid, .sgid_index = (uint8_t)e->gid_index, .hop_limit = 64};
	return 0;
}

/* The first GID by which the port reaches itself, IPv4 first. Return: 0; -EHOSTUNREACH; -ENETDOWN: no GID is active. */
static int find_address(struct q_bench *b, struct q_port *port)
{
	struct ibv_gid_entry *entries = calloc(ENTRIES, sizeof(*entries));
	int err = -ENETDOWN, attempts = 0;
	ssize_t n;

	if (!entries)
		return -ENOMEM;
	n = ibv_query_gid_table(port->ctx, entries, ENTRIES, 0);
	for (int pass = 0; pass < 2; pass++)
		for (ssize_t i = 0; i < n && err && attempts < ATTEMPTS; i++) {
			if (is_ipv4(&entries[i]) == !!pass || entries[i].gid_index > UINT8_MAX || set_address(port, &entries[i]))
				continue;
			attempts++;
			err = gets_through(b, port, port) ? 0 : -EHOSTUNREACH;
		}
	free(entries);
	return err;
}

/* Could the ports reach each other, by their addresses? */
static bool are_neighbours(const struct q_port *a, const struct q_port *b)
{
	const union ibv_gid *x = &a->own.grh.dgid, *y = &b->own.grh.dgid;
	enum mv_gid_family family = mv_gid_family(x);

	if (a->own.is_global != b->own.is_global)
		return false;
	if (!a->own.is_global)
		return mv_gid_in_prefix(x, y, 64);
	if (family != mv_gid_family(y) || family == MV_FAMILY_LINK_LOCAL)
		return false;
	return mv_gid_in_prefix(x, y, family == MV_FAMILY_IPV4 ? SAME_IPV4 : SAME_PREFIX);
}

/* Another device that reaches itself, for the order between two; and perhaps the device under test. */
static void consider(struct q_bench *b, struct ibv_device *device)
{
	struct q_port port = {0};

	if (open_port(device, &port))
		return;
	if (find_address(b, &port)) {
		close_port(&port);
		return;
	}
	if (!b->away.ctx && are_neighbours(&b->dut, &port) && gets_through(b, &port, &b->dut) && gets_through(b, &b->dut, &port))
		b->away = port;
	else if (!b->second.ctx)
		b->second = port;
	else
		close_port(&port);
}

static struct ibv_device *find_device(struct ibv_device **list, const char *name)
{
	for (; *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return *list;
	return NULL;
}

static bool same_driver(const struct ibv_device *a, const struct ibv_device *b)
{
	return a->node_type == b->node_type && a->transport_type == b->transport_type;
}

bool q_is_listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

/* Sets @b->avoided. */
static bool is_left_alone(struct q_bench *b, const char *device)
{
	if (mv_config_list_match(b->exclude, device))
		return true;
	if (!b->avoid || !q_is_listed(b->avoid, device))
		return false;
	b->avoided = true;
	return true;
}

static int open_others(struct q_bench *b, struct ibv_device **list, struct ibv_device *dut, const char *peer, char *why, size_t why_size)
{
	struct ibv_device *named = peer ? find_device(list, peer) : NULL;

	if (peer && !named) {
		snprintf(why, why_size, "there is no RDMA device %s", peer);
		return -ENODEV;
	}
	if (named && named != dut)
		consider(b, named);
	if (named && named != dut && !b->away.ctx) {
		snprintf(why, why_size, "%s does not reach %s", peer, b->dut.device);
		return -EHOSTUNREACH;
	}
	for (int i = 0; list[i] && !peer; i++)
		if (list[i] != dut && same_driver(list[i], dut) && !is_left_alone(b, ibv_get_device_name(list[i])) &&
		    !(b->away.ctx && b->second.ctx))
			consider(b, list[i]);
	b->peer = b->away.ctx ? &b->away : &b->dut;
	return 0;
}

int q_bench_open(struct q_bench *b, const char *device, const char *peer, char *why, size_t why_size)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *dut;
	int err;

	if (!list) {
		snprintf(why, why_size, "RDMA devices cannot be listed: %s", strerror(errno));
		return errno ? -errno : -ENODEV;
	}
	dut = find_device(list, device);
	if (!dut) {
		snprintf(why, why_size, "there is no RDMA device %s", device);
		err = -ENODEV;
		goto out;
	}
	err = open_port(dut, &b->dut);
	if (err) {
		snprintf(why, why_size, "%s cannot be opened: %s", device, strerror(-err));
		goto out;
	}
	err = find_address(b, &b->dut);
	b->reaches_itself = !err;
	if (err == -ENETDOWN)
		snprintf(why, why_size, "%s has no port that is active and has a GID", device);
	else if (!err || err == -EHOSTUNREACH)
		err = open_others(b, list, dut, peer, why, why_size);
	if (!err && b->peer == &b->dut && !b->reaches_itself) {
		snprintf(why, why_size, "%s reaches neither itself nor another port of this host%s: a WRITE does not arrive", device,
			 b->avoided ? ", where ports that carry others' traffic are left out" : "");
		err = -EHOSTUNREACH;
	}
	if (err)
		q_bench_close(b);
out:
	ibv_free_device_list(list);
	return err;
}

void q_bench_close(struct q_bench *b)
{
	close_port(&b->second);
	close_port(&b->away);
	close_port(&b->dut);
}
