// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Two hosts whose first rails are in different subnets, with a second pair of rails in one. Where it is known that no route leads
 * from one subnet to the other, that pair is to be taken. Where that could not be looked up, there may be one: everything stays as
 * the program asks.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "connectint.h"
#include "dirworld.h"
#include "lookup.h"
#include "directory_client.h"
#include "paths.h"
#include "program.h"
#include "ud.h"
#include "sealed.h"

#define PEER  "host b; rail mlx5_0; gid 10.2.0.1/24 v2; rail mlx5_1; gid 10.8.0.2/24 v2;"
#define WORLD "host a; rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.8.0.1/24 v2;" PEER
#define DOWN  "host a; rail mlx5_0 down; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.8.0.1/24 v2;" PEER

int __wrap_mesh_vqp_new(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops, void *arg,
			struct mesh_vqp **ret);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
int __wrap_mesh_thread_wake(bool urgent);
void __wrap_mesh_directory_decide(const struct mv_path_request *request, struct mesh_path_decision *ret);
void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret);

static struct dirworld world;
static unsigned int n_vqps;

/* That it was to be held is all there is to know; it goes to the lower provider then, too. */
int __wrap_mesh_vqp_new(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops, void *arg,
			struct mesh_vqp **ret)
{
	(void)mc;
	(void)qp;
	(void)ops;
	(void)arg;
	(void)ret;
	n_vqps++;
	return -ENOMEM;
}

static const char *no_rail; /* why the NIC that it would go to cannot be had; NULL: it can */

const char *__wrap_mesh_decide_why_no_rail(struct mesh_context *mc, struct ibv_qp *qp,
					   const struct mesh_path_decision *decision, char *why, size_t why_size);
bool __wrap_mesh_ud_has_outlet(const struct mesh_context *mc, const struct mesh_path_decision *decision, char *why,
			       size_t why_size);
bool __wrap_mesh_ud_posts_pass(struct mesh_context *mc, struct ibv_pd *pd);
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);

const char *__wrap_mesh_decide_why_no_rail(struct mesh_context *mc, struct ibv_qp *qp,
					   const struct mesh_path_decision *decision, char *why, size_t why_size)
{
	(void)mc;
	(void)qp;
	(void)decision;
	(void)why;
	(void)why_size;
	return no_rail;
}

bool __wrap_mesh_ud_has_outlet(const struct mesh_context *mc, const struct mesh_path_decision *decision, char *why,
			       size_t why_size)
{
	(void)mc;
	(void)decision;
	snprintf(why, why_size, "%s", no_rail ? no_rail : "");
	return !no_rail;
}

bool __wrap_mesh_ud_posts_pass(struct mesh_context *mc, struct ibv_pd *pd)
{
	(void)mc;
	(void)pd;
	return true;
}

static struct mv_ctl_msg sent; /* the last message */

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	sent = *msg;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

void __wrap_mesh_directory_decide(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	uint32_t host = 0, rail = 0;

	memset(ret, 0, sizeof(*ret));
	ret->verdict = mv_path_decide(&world.dir, request, &host, &rail);
	if (ret->verdict == MV_PATH_UNKNOWN || ret->verdict == MV_PATH_SELF)
		return;
	strcpy(ret->host, world.dir.hosts[host].name);
	ret->agent_version = world.dir.hosts[host].agent_version;
	ret->n_paths = mv_path_find(&world.dir, request, host, rail, ret->paths, MV_MOVE_MAX_PATHS);
}

void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	__wrap_mesh_directory_decide(request, ret);
}

int __wrap_mesh_directory_lid(const char *of, uint8_t port_num, uint16_t dlid, struct mv_lid_ends *ret);

int __wrap_mesh_directory_lid(const char *of, uint8_t port_num, uint16_t dlid, struct mv_lid_ends *ret)
{
	return mv_lid_find(&world.dir, of, port_num, dlid, ret);
}

bool __wrap_mesh_lookup(const union ibv_gid *dgid, enum mesh_lookup_for what);
bool __wrap_mesh_directory_is_stranger(const union ibv_gid *gid, bool routed);

static unsigned int n_lookups, n_lookups_of_broken; /* waits for the agent to find out whose an address is, in vain */

bool __wrap_mesh_lookup(const union ibv_gid *dgid, enum mesh_lookup_for what)
{
	(void)dgid;
	n_lookups++;
	n_lookups_of_broken += what == MESH_LOOKUP_BROKEN;
	return false;
}

bool __wrap_mesh_directory_is_doubted(const union ibv_gid *gid, bool routed);
bool __wrap_mesh_directory_is_absent(const union ibv_gid *local, const union ibv_gid *remote);
void __wrap_mesh_directory_note_absent(const union ibv_gid *local, const union ibv_gid *remote);

bool __wrap_mesh_directory_is_doubted(const union ibv_gid *gid, bool routed)
{
	ssize_t at = mv_directory_find_gid(&world.dir, gid, 0);

	return at >= 0 && mv_dir_gid_is_in_doubt(&world.dir.gids[world.dir.order[at]], routed);
}

bool __wrap_mesh_directory_is_stranger(const union ibv_gid *gid, bool routed)
{
	errno = EBADF; /* whatever it calls may leave that behind */
	return mv_directory_find_gid(&world.dir, gid, 0) < 0 || __wrap_mesh_directory_is_doubted(gid, routed);
}

static union ibv_gid absent;

bool __wrap_mesh_directory_is_absent(const union ibv_gid *local, const union ibv_gid *remote)
{
	(void)local;
	return mv_gid_equal(&absent, remote);
}

void __wrap_mesh_directory_note_absent(const union ibv_gid *local, const union ibv_gid *remote)
{
	assert_int_equal(local->raw[15], 1);
	absent = *remote;
}

static bool asks_port; /* the made-up provider is asked for the port's state, too */

static struct ibv_context *open_in(const char *text)
{
	struct ibv_context *context;

	dirworld_init(&world, text);
	start(FAKEVERBS_34, &usual);
	mesh_root.config.stand_in = asks_port;
	context = fake.open_device("mlx5", &device);
	assert_non_null(context);
	assert_true(mesh_context_get(context)->can_move);
	mesh_root.config.survive = false; /* and so nothing is noted down */
	return context;
}

static void end(struct ibv_context *context)
{
	fake.close_device(context);
	dirworld_fini(&world);
}

#define RTR_MASK                                                                                             \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                      \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

/* Return: was it to be held? */
static bool rtr_holds_to(struct ibv_context *context, const char *to)
{
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .dest_qp_num = 8,
				   .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .dgid = gid(to)}}};
	struct mesh_conn *conn = mesh_conn_new(mesh_context_get(context), &qp);
	unsigned int before = n_vqps, n = fake.state->n_modify;

	assert_non_null(conn);
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), 0);
	assert_int_equal(fake.state->n_modify, n + 1);
	assert_int_equal(fake.state->modify_index, 1);
	mesh_conn_unlink(conn);
	mesh_conn_put(conn);
	return n_vqps != before;
}

static bool rtr_holds(struct ibv_context *context)
{
	return rtr_holds_to(context, "10.2.0.1");
}

/* Return: does it lead where the program said? */
static bool ah_is_the_programs_to(struct ibv_context *context, const char *text)
{
	const union ibv_gid to = gid(text);
	struct ibv_pd pd = {.context = context};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .dgid = to}};

	struct ibv_ah *ah = fake.create_ah(&pd, &attr);
	bool is_the_programs;

	assert_non_null(ah);
	assert_int_equal(fake.state->ah_index, 1);
	is_the_programs = mv_gid_equal(&fake.state->ah_dgid, &to);
	ah->context = context; /* libibverbs' part */
	assert_int_equal(mesh_destroy_ah(ah), 0);
	return is_the_programs;
}

static bool ah_is_the_programs(struct ibv_context *context)
{
	return ah_is_the_programs_to(context, "10.2.0.1");
}

static void no_route_is_known(void)
{
	struct ibv_context *context = open_in(WORLD);

	assert_true(rtr_holds(context));
	assert_false(ah_is_the_programs(context));
	end(context);
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
	end(context);
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
	end(context);
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
	end(context);
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
	end(context);
}

/* A port that is down does not rest on a route. */
static void port_down(void)
{
	struct ibv_context *context = open_in(DOWN);

	open_error = -EAFNOSUPPORT;
	assert_true(rtr_holds(context));
	assert_true(ah_is_the_programs(context)); /* a relay takes loopback, which needs it up */
	end(context);
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
	end(context);
}

/* An agent to come, which nobody here can talk to. */
static void another_version(void)
{
	struct ibv_context *context = open_in(WORLD);

	assert_true(rtr_holds(context));
	((struct mv_dir_host *)&world.dir.hosts[1])->agent_version = MV_CTL_VERSION + 1;
	assert_false(rtr_holds(context));
	assert_true(ah_is_the_programs(context));
	end(context);
}

static char log_path[32];

static void log_to_file(void)
{
	int fd;

	strcpy(log_path, "/tmp/test_routes.XXXXXX");
	fd = mkstemp(log_path);
	assert_true(fd >= 0);
	close(fd);
	mv_log_init(&mesh_root.log, log_path, MV_LOG_INFO);
}

/* Lines of the log that have the text. */
static unsigned int lines_with(const char *text)
{
	unsigned int n = 0;
	char line[1024];
	FILE *file = fopen(log_path, "r");

	while (file && fgets(line, sizeof(line), file))
		n += !!strstr(line, text);
	if (file)
		fclose(file);
	return n;
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
	unlink(log_path);
	end(context);
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
	end(context);
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
	end(context);
}

static struct mesh_conn *refusing; /* with a reference */
static int (*lower_modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
static int refused_with;

/* The peer is held, and asks. */
static void peer_asks(void)
{
	const struct mv_ctl_msg hello = {.type = MV_CTL_HELLO,
					 .attempt = 9,
					 .from = {.gid = gid("10.2.0.1"), .qpn = 8},
					 .to = {.gid = gid("10.1.0.1"), .qpn = 7},
					 .from_psn = 0x11,
					 .to_psn = MV_CTL_PSN_NONE};
	const struct mv_ctl_keys no_keys = {0};

	memset(&sent, 0, sizeof(sent));
	message_comes(refusing, &hello, &no_keys, 1, 1);
}

static void assert_answered(void)
{
	assert_int_equal(sent.type, MV_CTL_HELLO);
	assert_int_equal(sent.flags, MV_CTL_PASSTHROUGH);
	assert_int_equal(sent.to_attempt, 9);
	assert_int_equal(sent.to_psn, 0x11); /* which proves it to a peer in RTS */
}

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

static struct ibv_qp_attr rtr_to_b(void)
{
	return (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .dest_qp_num = 8,
				    .rq_psn = 0x11,
				    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .dgid = gid("10.2.0.1")}}};
}

/*
 * The NIC that it would go to cannot be opened: as bare, at once. The peer, which may have no reason to stay, is told so: its program may only
 * receive, and nothing else would end that.
 */
static void no_rail_to_be_had(void)
{
	struct ibv_context *context = open_in(WORLD);
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
	/* The neighbour is there, after all. */
	refused_with = 0;
	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), 0);
	assert_int_equal(refusing->state, MESH_CONN_PASSTHROUGH);
	peer_asks();
	assert_answered();
	mc->lower.qp.modify_qp = lower_modify;
	mesh_conn_unlink(refusing);
	mesh_conn_put(refusing);
	end(context);
}

/* Nobody here knows of routers between subnets of InfiniBand. */
static void infiniband_router(void)
{
	struct ibv_context *context = open_in("host a; rail mlx5_0 ib; gid fec0:0:0:1::1 ib; rail mlx5_1 ib; gid fec0:0:0:8::1 ib;"
					      "host b; rail mlx5_0 ib; gid fec0:0:0:2::2 ib; rail mlx5_1 ib; gid fec0:0:0:8::2 ib;"
					      "host c; rail mlx5_0 ib; gid fe80::3 ib; rail mlx5_1 ib; gid fec0:0:0:8::3 ib;");
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE};

	set_gid(0, 1, "fec0:0:0:1::1", 0);
	fake.state->gids[0].type = IBV_GID_TYPE_IB;
	fake.state->n_gids = 1;
	fake.async_event(context, &event);
	assert_int_equal(mc->tables.devices[0].ports[0].link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_false(rtr_holds_to(context, "fec0:0:0:2::2"));
	assert_true(ah_is_the_programs_to(context, "fec0:0:0:2::2"));
	/* But that they do not forward this. */
	assert_true(rtr_holds_to(context, "fe80::3"));
	/* Datagrams of InfiniBand stay. */
	assert_true(ah_is_the_programs_to(context, "fe80::3"));
	end(context);
}

/* Return: was it to be held? */
static bool rtr_holds_to_lid(struct ibv_context *context, uint16_t dlid, enum ibv_qp_type type)
{
	struct ibv_qp qp = {.context = context, .qp_type = type, .qp_num = 7};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .dest_qp_num = 8, .ah_attr = {.dlid = dlid, .port_num = 1}};
	struct mesh_conn *conn = type == IBV_QPT_RC ? mesh_conn_new(mesh_context_get(context), &qp) : NULL;
	unsigned int before = n_vqps, n = fake.state->n_modify, waits = n_lookups;

	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), 0);
	assert_int_equal(fake.state->n_modify, n + 1);
	assert_int_equal(attr.ah_attr.dlid, dlid);
	assert_int_equal(attr.ah_attr.is_global, 0);
	assert_int_equal(n_lookups, waits);
	if (conn) {
		mesh_conn_unlink(conn);
		mesh_conn_put(conn);
	}
	return n_vqps != before;
}

#define LIDS_A "host a; rail mlx5_0 ib lid 3 dev ib0; gid fe80::a0 ib; rail mlx5_1 ib lid 4 dev ib1 down; gid fe80::a1 ib;"
#define LIDS_B "host b; rail mlx5_0 ib lid 5 dev ib0 down; gid fe80::b0 ib; rail mlx5_1 ib lid 6 dev ib1; gid fe80::b1 ib;"

/* Connections without a GRH. */
static void infiniband_by_lid(void)
{
	struct ibv_context *context = open_in(LIDS_A LIDS_B "link 0 3;");
	struct mesh_context *mc = mesh_context_get(context);

	assert_false(rtr_holds_to_lid(context, 6, IBV_QPT_RC));
	assert_true(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	/* Nobody's; this host's own; no LID of one port; no reliable connection. */
	assert_false(rtr_holds_to_lid(context, 7, IBV_QPT_RC));
	assert_false(rtr_holds_to_lid(context, 4, IBV_QPT_RC));
	assert_false(rtr_holds_to_lid(context, 0xffff, IBV_QPT_RC));
	assert_false(rtr_holds_to_lid(context, 5, IBV_QPT_UC));
	mc->sees_peers = false;
	assert_false(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	mc->sees_peers = true;
	end(context);
}

/*
 * A QP that is connected to itself by its port's LID. Where the directory has the LID of some seconds ago, another host may have that
 * LID now, and a QP of the same number.
 */
static void infiniband_by_own_lid(void)
{
	struct ibv_qp_attr attr = {.dest_qp_num = 7, .ah_attr = {.dlid = 3, .port_num = 1}};
	struct ibv_qp qp = {.qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_context *context;
	struct mesh_choice choice;
	struct mesh_context *mc;
	struct mesh_path_decision decision;

	asks_port = true;
	context = qp.context = open_in(LIDS_A LIDS_B "link 0 3;");
	mc = mesh_context_get(context);
	assert_non_null(mc->lower.query_port);
	fake.state->port.lid = 3;
	mesh_decide_rtr(mc, &qp, &attr, false, &choice, &decision);
	assert_int_equal(decision.verdict, MV_PATH_SELF);
	fake.state->port.lid = 9;
	mesh_decide_rtr(mc, &qp, &attr, false, &choice, &decision);
	assert_int_equal(decision.verdict, MV_PATH_UNKNOWN);
	end(context);
}

/* Where two hosts may be meant, or the agent of the one that is is too old, all stays as the program asks. */
static void infiniband_by_doubtful_lid(void)
{
	struct ibv_context *context = open_in(LIDS_A LIDS_B "host c; rail mlx5_0 ib lid 5 dev ib0 down; gid fe80::c0 ib; link 0 3;");

	assert_false(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	end(context);
}

static void infiniband_without_agent(void)
{
	struct ibv_context *context = open_in(LIDS_A LIDS_B "link 0 3;");

	assert_true(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	((struct mv_dir_host *)&world.dir.hosts[1])->agent_version = 0;
	assert_false(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	end(context);
}

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
	end(context);
}

static void stranger_without_netlink(void)
{
	struct ibv_context *context = open_in(WORLD);

	open_error = -EAFNOSUPPORT;
	assert_int_equal(lookups_at_rtr(context, "10.9.0.1"), 0);
	end(context);
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
	end(context);
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
	end(context);
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
	unlink(log_path);
	end(context);
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
	end(context);
}

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
	end(context);
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
	end(context);
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
TEST(infiniband_router)
TEST(infiniband_by_lid)
TEST(infiniband_by_own_lid)
TEST(infiniband_by_doubtful_lid)
TEST(infiniband_without_agent)
TEST(no_rail_to_be_had)
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
		cmocka_unit_test(test_infiniband_router),
		cmocka_unit_test(test_infiniband_by_lid),
		cmocka_unit_test(test_infiniband_by_own_lid),
		cmocka_unit_test(test_infiniband_by_doubtful_lid),
		cmocka_unit_test(test_infiniband_without_agent),
		cmocka_unit_test(test_no_rail_to_be_had),
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
