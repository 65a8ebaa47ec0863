/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "two_subnets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connectint.h"
#include "lookup.h"
#include "sealed.h"
#include "ud.h"

struct dirworld world;
unsigned int n_vqps, n_lookups, n_lookups_of_broken;
const char *no_rail;
struct mv_ctl_msg sent;
union ibv_gid absent;
bool asks_port, other_partition;
int random_error;
struct mesh_conn *refusing;
int (*lower_modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

static char log_path[32];

ssize_t __real_getrandom(void *to, size_t len, unsigned int flags);
ssize_t __wrap_getrandom(void *to, size_t len, unsigned int flags);
ssize_t __wrap_getrandom(void *to, size_t len, unsigned int flags)
{
	errno = random_error;
	return random_error ? -1 : __real_getrandom(to, len, flags);
}

int __wrap_mesh_vqp_new(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops,
			void *arg, struct mesh_vqp **ret);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
int __wrap_mesh_thread_wake(bool urgent);
void __wrap_mesh_directory_decide(const struct mv_path_request *request,
				  struct mesh_path_decision *ret);
void __wrap_mesh_directory_paths(const struct mv_path_request *request,
				 struct mesh_path_decision *ret);
const char *__wrap_mesh_decide_why_no_rail(struct mesh_context *mc, struct ibv_qp *qp,
					   const struct mesh_path_decision *decision, char *why,
					   size_t why_size);
bool __wrap_mesh_ud_has_outlet(const struct mesh_context *mc,
			       const struct mesh_path_decision *decision, char *why,
			       size_t why_size);
bool __wrap_mesh_ud_is_heard_alike(const struct ibv_pd *pd, const struct ibv_ah_attr *attr,
				   const struct mesh_path_decision *decision);
bool __wrap_mesh_ud_posts_pass(struct mesh_context *mc, struct ibv_pd *pd);
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
int __wrap_mesh_directory_lid(const char *of, uint8_t port_num, uint16_t dlid,
			      struct mv_lid_ends *ret);
bool __wrap_mesh_lookup(const union ibv_gid *dgid, enum mesh_lookup_for what);
bool __wrap_mesh_directory_is_stranger(const union ibv_gid *gid, bool routed);
bool __wrap_mesh_directory_is_doubted(const union ibv_gid *gid, bool routed);
bool __wrap_mesh_directory_is_among_absent(const union ibv_gid *local, const union ibv_gid *remote);
void __wrap_mesh_directory_note_absent(const union ibv_gid *local, const union ibv_gid *remote);

/* That it was to be held is all there is to know; it goes to the lower provider then, too. */
int __wrap_mesh_vqp_new(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops,
			void *arg, struct mesh_vqp **ret)
{
	(void)mc;
	(void)qp;
	(void)ops;
	(void)arg;
	(void)ret;
	n_vqps++;
	return -ENOMEM;
}

const char *__wrap_mesh_decide_why_no_rail(struct mesh_context *mc, struct ibv_qp *qp,
					   const struct mesh_path_decision *decision, char *why,
					   size_t why_size)
{
	(void)mc;
	(void)qp;
	(void)decision;
	(void)why;
	(void)why_size;
	return no_rail;
}

bool __wrap_mesh_ud_has_outlet(const struct mesh_context *mc,
			       const struct mesh_path_decision *decision, char *why,
			       size_t why_size)
{
	(void)mc;
	(void)decision;
	snprintf(why, why_size, "%s", no_rail ? no_rail : "");
	return !no_rail;
}

bool __wrap_mesh_ud_is_heard_alike(const struct ibv_pd *pd, const struct ibv_ah_attr *attr,
				   const struct mesh_path_decision *decision)
{
	(void)pd;
	(void)attr;
	(void)decision;
	return !other_partition;
}

bool __wrap_mesh_ud_posts_pass(struct mesh_context *mc, struct ibv_pd *pd)
{
	(void)mc;
	(void)pd;
	return true;
}

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

void __wrap_mesh_directory_decide(const struct mv_path_request *request,
				  struct mesh_path_decision *ret)
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

void __wrap_mesh_directory_paths(const struct mv_path_request *request,
				 struct mesh_path_decision *ret)
{
	__wrap_mesh_directory_decide(request, ret);
}

int __wrap_mesh_directory_lid(const char *of, uint8_t port_num, uint16_t dlid,
			      struct mv_lid_ends *ret)
{
	return mv_lid_find(&world.dir, of, port_num, dlid, ret);
}

bool __wrap_mesh_lookup(const union ibv_gid *dgid, enum mesh_lookup_for what)
{
	(void)dgid;
	n_lookups++;
	n_lookups_of_broken += what == MESH_LOOKUP_BROKEN;
	return false;
}

bool __wrap_mesh_directory_is_doubted(const union ibv_gid *gid, bool routed)
{
	ssize_t at = mv_directory_find_gid(&world.dir, gid, 0);

	return at >= 0 && mv_dir_gid_is_in_doubt(&world.dir.gids[world.dir.order[at]], routed);
}

bool __wrap_mesh_directory_is_stranger(const union ibv_gid *gid, bool routed)
{
	errno = EBADF; /* whatever it calls may leave that behind */
	return mv_directory_find_gid(&world.dir, gid, 0) < 0 ||
	       __wrap_mesh_directory_is_doubted(gid, routed);
}

bool __wrap_mesh_directory_is_among_absent(const union ibv_gid *local, const union ibv_gid *remote)
{
	(void)local;
	return mv_gid_equal(&absent, remote);
}

void __wrap_mesh_directory_note_absent(const union ibv_gid *local, const union ibv_gid *remote)
{
	assert_int_equal(local->raw[15], 1);
	absent = *remote;
	atomic_store(&mesh_root.process->directory.has_absent, true);
}

struct ibv_context *open_in(const char *text)
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

void close_in(struct ibv_context *context)
{
	fake.close_device(context);
	dirworld_fini(&world);
}

bool rtr_holds_to(struct ibv_context *context, const char *to)
{
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .dest_qp_num = 8,
				   .ah_attr = {.is_global = 1,
					       .port_num = 1,
					       .grh = {.sgid_index = 1, .dgid = gid(to)}}};
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

bool rtr_holds(struct ibv_context *context)
{
	return rtr_holds_to(context, "10.2.0.1");
}

bool ah_is_the_programs_to(struct ibv_context *context, const char *text)
{
	const union ibv_gid to = gid(text);
	struct ibv_pd pd = {.context = context};
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .dgid = to}};

	struct ibv_ah *ah = fake.create_ah(&pd, &attr);
	bool is_the_programs;

	assert_non_null(ah);
	assert_int_equal(fake.state->ah_index, 1);
	is_the_programs = mv_gid_equal(&fake.state->ah_dgid, &to);
	ah->context = context; /* libibverbs' part */
	assert_int_equal(mesh_destroy_ah(ah), 0);
	return is_the_programs;
}

bool ah_is_the_programs(struct ibv_context *context)
{
	return ah_is_the_programs_to(context, "10.2.0.1");
}

void log_to_file(void)
{
	int fd;

	strcpy(log_path, "/tmp/two_subnets.XXXXXX");
	fd = mkstemp(log_path);
	assert_true(fd >= 0);
	close(fd);
	mv_log_init(&mesh_root.log, log_path, MV_LOG_INFO);
}

unsigned int lines_with(const char *text)
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

void peer_asks(void)
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

void assert_answered(void)
{
	assert_int_equal(sent.type, MV_CTL_HELLO);
	assert_int_equal(sent.flags, MV_CTL_PASSTHROUGH);
	assert_int_equal(sent.attempt, refusing->attempt.number);
	assert_true(sent.nonce && sent.nonce == refusing->attempt.nonce);
	assert_int_equal(sent.to_attempt, 9);
	assert_int_equal(sent.to_psn, 0x11); /* which proves it to a peer in RTS */
}

struct ibv_qp_attr rtr_to_b(void)
{
	return (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .dest_qp_num = 8,
				    .rq_psn = 0x11,
				    .ah_attr = {.is_global = 1,
						.port_num = 1,
						.grh = {.sgid_index = 1, .dgid = gid("10.2.0.1")}}};
}

void unlink_log(void)
{
	unlink(log_path);
}
