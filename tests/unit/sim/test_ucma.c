/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands of programs at two hosts' /dev/infiniband/rdma_cm: connections, datagrams, addresses, options. */
#include "ucma_hosts.h"

#include <errno.h>
#include <string.h>

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
		cmocka_unit_test_setup_teardown(test_connection, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_query, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nobody_listens, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_backlog, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_process_dies, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_datagrams, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_addresses, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_resolving, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_migrate, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_options, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
