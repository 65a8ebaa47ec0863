/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The same commands between ports of InfiniBand, which go by LIDs. */
#include "ucma_hosts.h"

#include <errno.h>
#include <string.h>

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
	union {
		struct rdma_ucm_query_path_resp head; /* the path follows */
		uint8_t bytes[sizeof(struct rdma_ucm_query_path_resp) + sizeof(struct ib_path_rec_data)];
	} path;
	uint8_t gids[2][16], *b = path.bytes + sizeof(path.head) + offsetof(struct ib_path_rec_data, path_rec);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_infiniband, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_infiniband_path, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_infiniband_datagrams, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_infiniband_addresses, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
