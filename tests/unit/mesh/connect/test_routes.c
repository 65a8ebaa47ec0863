/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two hosts whose first rails are in different subnets, with a second pair of rails in one. Where it is known that no
 * route leads from one subnet to the other, that pair is to be taken. Where that could not be looked up, there may be
 * one: everything stays as the program asks.
 */
#include "two_subnets.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "connectint.h"

#define DOWN "host a; rail mlx5_0 down; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.8.0.1/24 v2;" PEER

static void no_route_is_known(void)
{
	struct ibv_context *context = open_in(WORLD);

	assert_true(rtr_holds(context));
	assert_false(ah_is_the_programs(context));
	close_in(context);
}

static void stays(const char *text)
{
	struct ibv_context *context = open_in(text);

	assert_false(rtr_holds(context));
	assert_true(ah_is_the_programs(context));
	/* With the answer back, as ever. */
	open_error = route_error = fake.state->query_error = 0;
	assert_true(rtr_holds(context));
	assert_false(ah_is_the_programs(context));
	close_in(context);
}

/* As systemd does it, by RestrictAddressFamilies= without AF_NETLINK. */
static void no_socket(void)
{
	open_error = -EAFNOSUPPORT;
	stays(WORLD);
}

static void no_descriptor(void)
{
	open_error = -EMFILE;
	stays(WORLD);
}

static void no_answer(void)
{
	route_error = -ETIMEDOUT;
	stays(WORLD);
}

static void no_table(void)
{
	struct ibv_context *context = open_in(WORLD);

	fake.state->query_error = -EIO;
	assert_false(rtr_holds(context));
	assert_true(ah_is_the_programs(context));
	close_in(context);
}

static void another_namespace(void)
{
	struct ibv_context *context = open_in(WORLD);

	assert_true(rtr_holds(context));
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		print_message("no other namespace to be had: %s\n", strerror(errno));
	} else {
		assert_false(rtr_holds(context));
		assert_true(ah_is_the_programs(context));
	}
	close_in(context);
}

/* "It is this host" is an answer of that namespace, too; in the directory another host has the address. */
static void oneself_in_another_namespace(void)
{
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .dgid = gid("10.5.0.1")}};
	struct ibv_context *context = open_in(WORLD);
	struct mesh_choice choice;

	mesh_paths_choose(mesh_context_get(context), context, &ah, MV_CONNECTED, true, &choice);
	assert_true(choice.sure);
	assert_false(choice.fits);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		print_message("no other namespace to be had: %s\n", strerror(errno));
	} else {
		mesh_paths_choose(mesh_context_get(context), context, &ah, MV_CONNECTED, true, &choice);
		assert_false(choice.sure);
	}
	close_in(context);
}

/* A port that is down does not rest on a route. */
static void port_down(void)
{
	struct ibv_context *context = open_in(DOWN);

	open_error = -EAFNOSUPPORT;
	assert_true(rtr_holds(context));
	assert_true(ah_is_the_programs(context)); /* a relay takes loopback, which needs it up */
	close_in(context);
}

/* The kernel looks for the way in the namespace that the netdev is in. */
static void netdev_elsewhere(void)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE};
	struct ibv_context *context = open_in(WORLD);

	assert_true(rtr_holds(context));
	set_gid(0, 1, "10.1.0.1", 77);
	fake.async_event(context, &event);
	assert_false(rtr_holds(context));
	assert_true(ah_is_the_programs(context));
	close_in(context);
}

/* An agent to come, which nobody here can talk to. */
static void another_version(void)
{
	struct ibv_context *context = open_in(WORLD);

	assert_true(rtr_holds(context));
	((struct mv_dir_host *)&world.dir.hosts[1])->agent_version = MV_CTL_VERSION + 1;
	assert_false(rtr_holds(context));
	assert_true(ah_is_the_programs(context));
	close_in(context);
}

/* An older agent, which nobody here can talk to, either. The log has one line for its host, with both versions. */
static void version_before(void)
{
	struct ibv_context *context = open_in(WORLD);
	char text[128];

	log_to_file();
	((struct mv_dir_host *)&world.dir.hosts[1])->agent_version = MV_CTL_VERSION - 1;
	assert_false(rtr_holds(context));
	assert_false(rtr_holds(context));
	snprintf(text, sizeof(text), "host b: its agent speaks version %u of the messages between processes, meshverbs here version %u", MV_CTL_VERSION - 1,
		 MV_CTL_VERSION);
	assert_int_equal(lines_with(text), 1);
	assert_int_equal(lines_with("upgrade that host"), 1);
	unlink_log();
	close_in(context);
}

static uint64_t slow_ns;
static struct ibv_ah *(*lower_create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
static unsigned int n_asked;

/* The neighbour of the program's destination does not answer, which the kernel takes its time to find out. */
static struct ibv_ah *silent_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	const union ibv_gid to = gid("10.2.0.1");

	if (!mv_gid_equal(&attr->grh.dgid, &to))
		return lower_create_ah(pd, attr);
	n_asked++;
	clock_ns += slow_ns;
	errno = ETIMEDOUT;
	return NULL;
}

/* In another subnet of the link the kernel may find it; if not, the other rails do, and the program does not wait for each address handle. */
static void other_subnet(void)
{
	struct ibv_context *context = open_in(WORLD "link 0 2;");
	struct mesh_context *mc = mesh_context_get(context);
	unsigned int i;

	assert_true(rtr_holds(context));
	assert_true(ah_is_the_programs(context));
	lower_create_ah = mc->lower.create_ah;
	mc->lower.create_ah = silent_create_ah;
	clock_ns = 1000000000000;
	slow_ns = 1000000000;
	for (i = 0; i < 8; i++) {
		assert_false(ah_is_the_programs(context));
		clock_ns += 100000000;
	}
	assert_int_equal(n_asked, 1);
	clock_ns += 4 * slow_ns;
	assert_false(ah_is_the_programs(context));
	assert_int_equal(n_asked, 2);
	/* What is refused at once costs nothing, and may be right the next time. */
	slow_ns = 0;
	clock_ns += 5000000000;
	assert_false(ah_is_the_programs(context));
	mc->lower.create_ah = lower_create_ah;
	assert_true(ah_is_the_programs(context));
	close_in(context);
}

/* A peer that sees things differently gets its answer at once. */
static void peer_is_answered(void)
{
	struct ibv_context *context = open_in(WORLD);
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .dgid = gid("10.2.0.1")}}};
	struct mesh_conn *conn = mesh_conn_new(mesh_context_get(context), &qp), *found;

	open_error = -EAFNOSUPPORT;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), 0);
	found = mesh_conn_get(&qp);
	assert_ptr_equal(found, conn);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
	mesh_conn_put(found);
	mesh_conn_unlink(conn);
	mesh_conn_put(conn);
	close_in(context);
}

static int refused_with;

/* While the lower provider looks for the neighbour the peer asks, and does not wait for that. */
static int slow_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	peer_asks();
	assert_answered();
	return refused_with;
}

/*
 * The NIC that it would go to cannot be opened: as bare, at once. The peer, which may have no reason to stay, is told so: its program may only
 * receive, and nothing else would end that.
 */
static void no_rail_to_be_had(void)
{
	struct ibv_context *context = open_in(WORLD);
	uint64_t nonce;
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_qp_attr attr = rtr_to_b();

	assert_true(rtr_holds(context));
	assert_false(ah_is_the_programs(context));
	no_rail = "mlx5_1 cannot be opened: No such file or directory";
	assert_true(ah_is_the_programs(context));
	refusing = mesh_conn_new(mc, &qp);
	lower_modify = mc->lower.qp.modify_qp;
	mc->lower.qp.modify_qp = slow_modify;
	n_vqps = 0;
	refused_with = ETIMEDOUT;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), ETIMEDOUT);
	assert_int_equal(n_vqps, 0);
	assert_int_equal(refusing->state, MESH_CONN_INIT);
	assert_false(refusing->flags.at_work);
	peer_asks(); /* until the program takes its queue pair away */
	assert_answered();
	nonce = sent.nonce;
	/* The neighbour is there, after all. */
	refused_with = 0;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), 0);
	assert_true(refusing->attempt.nonce != nonce);
	assert_int_equal(refusing->state, MESH_CONN_PASSTHROUGH);
	peer_asks();
	assert_answered();
	mc->lower.qp.modify_qp = lower_modify;
	mesh_conn_unlink(refusing);
	mesh_conn_put(refusing);
	close_in(context);
}

/* An RTR that refused its peer has failed. The next one needs no agreement: the peer gets the answers of that attempt. */
static void refused_before(void)
{
	struct ibv_context *context = open_in(WORLD);
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_qp_attr attr = rtr_to_b();

	no_rail = "mlx5_1 cannot be opened: No such file or directory";
	refusing = mesh_conn_new(mc, &qp);
	lower_modify = mc->lower.qp.modify_qp;
	mc->lower.qp.modify_qp = slow_modify;
	refused_with = ETIMEDOUT;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), ETIMEDOUT);
	mc->lower.qp.modify_qp = lower_modify;
	((struct mv_dir_host *)&world.dir.hosts[1])->agent_version = MV_CTL_VERSION - 1;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), 0);
	assert_int_equal(refusing->attempt.nonce, 0); /* nobody has asked yet */
	peer_asks();
	assert_answered();
	mesh_conn_unlink(refusing);
	mesh_conn_put(refusing);
	close_in(context);
}

/* Nothing proves who answers: as bare. */
static void no_random_numbers(void)
{
	struct ibv_context *context = open_in(WORLD);

	random_error = EPERM;
	assert_false(rtr_holds(context));
	random_error = 0;
	assert_true(rtr_holds(context));
	close_in(context);
}

TEST(no_route_is_known)
TEST(no_socket)
TEST(no_descriptor)
TEST(no_answer)
TEST(no_table)
TEST(another_namespace)
TEST(oneself_in_another_namespace)
TEST(port_down)
TEST(netdev_elsewhere)
TEST(another_version)
TEST(version_before)
TEST(other_subnet)
TEST(peer_is_answered)
TEST(no_rail_to_be_had)
TEST(refused_before)
TEST(no_random_numbers)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_route_is_known),
		cmocka_unit_test(test_no_socket),
		cmocka_unit_test(test_no_descriptor),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_no_table),
		cmocka_unit_test(test_another_namespace),
		cmocka_unit_test(test_oneself_in_another_namespace),
		cmocka_unit_test(test_port_down),
		cmocka_unit_test(test_netdev_elsewhere),
		cmocka_unit_test(test_another_version),
		cmocka_unit_test(test_version_before),
		cmocka_unit_test(test_other_subnet),
		cmocka_unit_test(test_peer_is_answered),
		cmocka_unit_test(test_no_rail_to_be_had),
		cmocka_unit_test(test_refused_before),
		cmocka_unit_test(test_no_random_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
