/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A destination whose host the directory does not know, or doubts: what the agent and the lower provider are asked. */
#include "two_subnets.h"

#include <errno.h>

#include "connectint.h"

static unsigned int lookups_at_rtr(struct ibv_context *context, const char *to)
{
	unsigned int before = n_lookups;

	assert_false(rtr_holds_to(context, to));
	return n_lookups - before;
}

/* A host that the directory does not have: where no route leads the agent is asked, and waited for; where none could be looked up, nobody waits. */
static void stranger(void)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE};
	struct ibv_context *context = open_in(WORLD);

	assert_int_equal(lookups_at_rtr(context, "10.9.0.1"), 1);
	assert_int_equal(n_lookups_of_broken, 1);
	route_error = -ETIMEDOUT;
	assert_int_equal(lookups_at_rtr(context, "10.9.0.2"), 0);
	route_error = 0;
	set_gid(0, 1, "10.1.0.1", 77); /* its netdev is in another namespace */
	fake.async_event(context, &event);
	assert_int_equal(lookups_at_rtr(context, "10.9.0.3"), 0);
	close_in(context);
}

static void stranger_without_netlink(void)
{
	struct ibv_context *context = open_in(WORLD);

	open_error = -EAFNOSUPPORT;
	assert_int_equal(lookups_at_rtr(context, "10.9.0.1"), 0);
	close_in(context);
}

static unsigned int n_refused;

/* While the lower provider looks for the neighbour, its host answers the agent. */
static int modify_until_known(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	if (!n_refused++) {
		dirworld_fini(&world);
		dirworld_init(&world, WORLD);
	}
	errno = ETIMEDOUT;
	return ETIMEDOUT;
}

static int vain_with = ETIMEDOUT;

static int modify_in_vain(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	n_refused++;
	errno = vain_with;
	return vain_with;
}

/*
 * While the lower provider tries, the directory learns whose the address is, and the connection cannot move there. The
 * lower provider has needed a second to refuse it, so the lower provider is not asked again.
 */
static void stranger_is_refused_once(void)
{
	struct ibv_context *context = open_in("host a; rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.8.0.1/24 v2;");
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_qp_attr attr = rtr_to_b();

	refusing = mesh_conn_new(mc, &qp);
	no_rail = "mlx5_1 cannot be opened: No such file or directory";
	lower_modify = mc->lower.qp.modify_qp;
	mc->lower.qp.modify_qp = modify_until_known;
	errno = 0;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), ETIMEDOUT);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(n_refused, 1);
	assert_int_equal(refusing->state, MESH_CONN_INIT);
	peer_asks(); /* and is told, as if it had been known from the beginning */
	assert_answered();
	/* The program tries again, and so does the lower provider. */
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), ETIMEDOUT);
	assert_int_equal(n_refused, 2);
	mc->lower.qp.modify_qp = lower_modify;
	mesh_conn_unlink(refusing);
	mesh_conn_put(refusing);
	close_in(context);
}

#define ANNOUNCED(doubt)                                                                                    \
	"host a; rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.8.0.1/24 v2;"                         \
	"host m; rail mlx5_0 down; gid 10.1.0.9/24 v2" doubt "; rail mlx5_1; gid 10.8.0.9/24 v2; link 1 3;"
#define DOUBTED ANNOUNCED(" unmet")
#define MET     ANNOUNCED("")

/*
 * It may be the address of a host without an agent: if the lower provider reaches that host, the connection stays
 * there.
 */
static void doubted_is_reached(void)
{
	struct ibv_context *context = open_in(DOUBTED);

	assert_false(rtr_holds_to(context, "10.1.0.9"));
	assert_true(mv_gid_is_zero(&absent));
	close_in(context);
}

/* The log has one line for each address in doubt, if connections of the device could move at all. */
static void doubted_is_logged(void)
{
	struct ibv_context *context = open_in(DOUBTED);

	log_to_file();
	assert_false(rtr_holds_to(context, "10.1.0.9"));
	assert_int_equal(lines_with("10.1.0.9"), 0); /* survive = off */
	mesh_root.config.survive = MV_SURVIVE_ON;
	assert_false(rtr_holds_to(context, "10.9.0.1")); /* no host announces this one */
	assert_int_equal(lines_with("hosts file"), 0);
	assert_false(rtr_holds_to(context, "10.1.0.9"));
	assert_false(rtr_holds_to(context, "10.1.0.9"));
	assert_int_equal(lines_with("mlx5_0 port 1 to 10.1.0.9: the host that announces the address was never heard on "), 1);
	assert_int_equal(lines_with("; name the address in the hosts file, or have a fleet key"), 1);
	unlink_log();
	close_in(context);
}

/* While the lower provider tries, the announcing host shows up on the link. */
static int modify_until_met(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	dirworld_fini(&world);
	dirworld_init(&world, MET);
	errno = EINVAL;
	return EINVAL;
}

/* The connection is checked anew. The lower provider's error does not say that nobody is at the address. */
static void doubted_is_met(void)
{
	struct ibv_context *context = open_in(DOUBTED);
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_qp_attr attr = rtr_to_b();
	unsigned int before = n_vqps;

	attr.ah_attr.grh.dgid = gid("10.1.0.9");
	refusing = mesh_conn_new(mc, &qp);
	lower_modify = mc->lower.qp.modify_qp;
	mc->lower.qp.modify_qp = modify_until_met;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), EINVAL);
	assert_int_equal(n_vqps, before + 1);
	assert_true(mv_gid_is_zero(&absent));
	mc->lower.qp.modify_qp = lower_modify;
	mesh_conn_unlink(refusing);
	mesh_conn_put(refusing);
	close_in(context);
}

static struct ibv_ah *(*lower_create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
static int ah_errno; /* 0: the lower provider says nothing, as mlx5 of a port that does not exist */

static struct ibv_ah *no_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	(void)pd;
	(void)attr;
	if (ah_errno)
		errno = ah_errno;
	return NULL;
}

/* Return: errno afterwards, with ETIMEDOUT before. */
static int ah_in_vain(struct ibv_context *context, int lower_errno)
{
	struct ibv_pd pd = {.context = context};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .dgid = gid("10.1.0.9")}};

	ah_errno = lower_errno;
	errno = ETIMEDOUT;
	assert_null(fake.create_ah(&pd, &attr));
	return errno;
}

/* An error that the program had before says nothing of the address. The program gets the lower provider's error. */
static void doubted_has_no_handle(void)
{
	struct ibv_context *context = open_in(DOUBTED);
	struct mesh_context *mc = mesh_context_get(context);

	lower_create_ah = mc->lower.create_ah;
	mc->lower.create_ah = no_ah;
	assert_int_equal(ah_in_vain(context, 0), ETIMEDOUT);
	assert_true(mv_gid_is_zero(&absent));
	assert_int_equal(ah_in_vain(context, EINVAL), EINVAL);
	assert_true(mv_gid_is_zero(&absent));
	assert_int_equal(ah_in_vain(context, EHOSTUNREACH), EHOSTUNREACH);
	assert_false(mv_gid_is_zero(&absent));
	absent = (union ibv_gid){0};
	mc->lower.create_ah = lower_create_ah;
	close_in(context);
}

/*
 * Where nobody is at 10.1.0.9, the connection goes to the host that announces the address. For a while the lower
 * provider is not asked first.
 */
static void check_nobody_is_there(const char *text)
{
	struct ibv_context *context = open_in(text);
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_qp_attr attr = rtr_to_b();
	unsigned int before = n_vqps;

	attr.ah_attr.grh.dgid = gid("10.1.0.9");
	refusing = mesh_conn_new(mc, &qp);
	lower_modify = mc->lower.qp.modify_qp;
	mc->lower.qp.modify_qp = modify_in_vain;
	/* This error does not say that nobody is there. */
	vain_with = EINVAL;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), EINVAL);
	assert_int_equal(n_vqps, before);
	assert_true(mv_gid_is_zero(&absent));
	n_refused = 0;
	vain_with = ETIMEDOUT;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), ETIMEDOUT);
	assert_int_equal(n_refused, 1);
	assert_int_equal(n_vqps, before + 1);
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), ETIMEDOUT);
	assert_int_equal(n_vqps, before + 2); /* before the lower provider refuses it again */
	assert_int_equal(n_refused, 2);
	mc->lower.qp.modify_qp = lower_modify;
	mesh_conn_unlink(refusing);
	mesh_conn_put(refusing);
	close_in(context);
}

static void doubted_is_not_there(void)
{
	check_nobody_is_there(DOUBTED);
}

/*
 * One subnet on two links. A host without an agent may have the address on the program's link, so the lower provider is
 * asked first.
 */
static void one_subnet_on_several_links(void)
{
	check_nobody_is_there("host a; rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.1.0.2/24 v2;"
			      "host m; rail mlx5_0; gid 10.1.0.8/24 v2; rail mlx5_1; gid 10.1.0.9/24 v2; link 0 2; link 1 3;");
}

TEST(stranger)
TEST(stranger_without_netlink)
TEST(stranger_is_refused_once)
TEST(doubted_is_reached)
TEST(doubted_is_logged)
TEST(doubted_is_met)
TEST(doubted_has_no_handle)
TEST(doubted_is_not_there)
TEST(one_subnet_on_several_links)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stranger),
		cmocka_unit_test(test_stranger_without_netlink),
		cmocka_unit_test(test_stranger_is_refused_once),
		cmocka_unit_test(test_doubted_is_reached),
		cmocka_unit_test(test_doubted_is_logged),
		cmocka_unit_test(test_doubted_is_met),
		cmocka_unit_test(test_doubted_has_no_handle),
		cmocka_unit_test(test_doubted_is_not_there),
		cmocka_unit_test(test_one_subnet_on_several_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
