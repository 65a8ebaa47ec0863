// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the agent's directory says of a path, and how often it is searched for others to say so. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dirworld.h"
#include "vqp_int.h"
#include "directory_client.h"
#include "failover_policy.h"
#include "path_select.h"
#include "tmpdir.h"

#define SECOND 1000000000ull

#define A      "host a; rail d0; gid fe80::a v2; gid 10.1.0.1/24 v2; gid 10.1.0.1/24 v1; rail d1; gid 10.2.0.1/24 v2;"
#define A_DOWN "host a; rail d0 down; gid fe80::a v2; gid 10.1.0.1/24 v2; gid 10.1.0.1/24 v1; rail d1; gid 10.2.0.1/24 v2;"
#define B      "host b; rail d0; gid fe80::b v2; gid 10.1.0.2/24 v2; gid 10.1.0.2/24 v1; rail d1; gid 10.2.0.2/24 v2;"
#define B_DOWN "host b; rail d0 down; gid fe80::b v2; gid 10.1.0.2/24 v2; gid 10.1.0.2/24 v1; rail d1; gid 10.2.0.2/24 v2;"

uint64_t __wrap_mesh_now_ns(void);
size_t __real_mv_path_find(const struct mv_directory *dir, const struct mv_path_request *request, uint32_t remote_host,
			   uint32_t remote_rail, struct mv_path *ret, size_t max);
size_t __wrap_mv_path_find(const struct mv_directory *dir, const struct mv_path_request *request, uint32_t remote_host,
			   uint32_t remote_rail, struct mv_path *ret, size_t max);

static uint64_t clock_ns;
static unsigned int n_searches;

uint64_t __wrap_mesh_now_ns(void)
{
	return clock_ns;
}

size_t __wrap_mv_path_find(const struct mv_directory *dir, const struct mv_path_request *request, uint32_t remote_host,
			   uint32_t remote_rail, struct mv_path *ret, size_t max)
{
	n_searches++;
	return __real_mv_path_find(dir, request, remote_host, remote_rail, ret, max);
}

static struct mesh_process process;
static struct mesh_vqp vqp;
static struct tmpdir tmp;
static struct dirworld world; /* what was published last */
static uint64_t generation;

static int setup(void **state)
{
	(void)state;
	memset(&process, 0, sizeof(process));
	tmpdir_make(&tmp);
	assert_true(strlen(tmp.path) < sizeof(mesh_root.run_dir));
	strcpy(mesh_root.run_dir, tmp.path);
	mesh_root.process = &process;
	mesh_root.config.survive = MV_SURVIVE_ON;
	clock_ns = 1000 * SECOND;
	n_searches = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (process.directory.state)
		mv_directory_close((struct mv_directory *)process.directory.state); /* its first member */
	free(process.directory.state);
	dirworld_fini(&world);
	memset(&world, 0, sizeof(world));
	tmpdir_remove(&tmp);
	return 0;
}

static void write_at(const char *path, int flags, const void *from, size_t size, off_t at)
{
	int fd = open(path, flags, 0644);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, from, size, at), size);
	close(fd);
}

static uint32_t flags_of_b;

/* As an agent does it. @drained: a rail, or -1 */
static void publish_drained(const char *text, int drained)
{
	const char *path = tmpdir_at(&tmp, MV_DIRECTORY_FILE), *aside = tmpdir_at(&tmp, "aside"), *old = tmpdir_at(&tmp, "old");
	const uint32_t superseded = 1;

	dirworld_fini(&world);
	dirworld_init(&world, text);
	world.image->heartbeat_ns = clock_ns;
	world.image->generation = ++generation;
	if (world.content.n_hosts > 1)
		((struct mv_dir_host *)&world.dir.hosts[1])->flags = flags_of_b;
	if (drained >= 0)
		((struct mv_dir_rail *)&world.dir.rails[drained])->flags |= MV_RAIL_DRAINED;
	write_at(aside, O_WRONLY | O_CREAT | O_TRUNC, world.image, world.image->size_bytes, 0);
	rename(path, old);
	assert_int_equal(rename(aside, path), 0);
	if (!access(old, F_OK))
		write_at(old, O_WRONLY, &superseded, sizeof(superseded), offsetof(struct mv_dir_header, superseded));
	unlink(old);
}

static void publish(const char *text)
{
	publish_drained(text, -1);
}

static void delete(void)
{
	assert_int_equal(unlink(tmpdir_at(&tmp, MV_DIRECTORY_FILE)), 0);
}

static struct mv_path_request request_to(const char *from, uint8_t type, const char *to)
{
	return (struct mv_path_request){.device = "d0", .port_num = 1, .sgid = unit_gid(from), .sgid_type = type, .dgid = unit_gid(to)};
}

/* All three say the same of a path, but for the other ones. */
static void check_verdict(const char *from, uint8_t type, const char *to, enum mv_path_verdict verdict, bool drained)
{
	struct mv_path_request request = request_to(from, type, to);
	struct mesh_path_decision only, checked, all;
	unsigned int n = n_searches;

	mesh_directory_verdict(&request, &only);
	assert_int_equal(n_searches, n);
	assert_int_equal(only.n_paths, 0);
	mesh_directory_decide(&request, &checked);
	mesh_directory_paths(&request, &all);
	assert_int_equal(only.verdict, verdict);
	assert_int_equal(checked.verdict, verdict);
	assert_int_equal(all.verdict, verdict);
	assert_string_equal(only.host, all.host);
	assert_string_equal(checked.host, all.host);
	assert_int_equal(only.drained, drained);
	assert_int_equal(checked.drained, drained);
	assert_int_equal(all.drained, drained);
	assert_int_equal(only.agent_version, all.agent_version);
	assert_int_equal(only.generation, all.generation);
	assert_int_equal(checked.n_paths, verdict == MV_PATH_WORKS ? 0 : all.n_paths);
}

static void test_verdicts(void **state)
{
	(void)state;
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_UNKNOWN, false); /* no agent */
	clock_ns += 2 * SECOND;
	publish(A B);
	for (int i = 0; i < 2; i++) {
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V1, "10.1.0.2", MV_PATH_ASK, false);
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.2.0.2", MV_PATH_APART, false);
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.2.0.1", MV_PATH_SELF, false);
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.9.0.1", MV_PATH_UNKNOWN, false);
		check_verdict("::", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_NO_ENTRY, false);
	}
	publish(A B_DOWN);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_REMOTE_DOWN, false);
	publish_drained(A_DOWN B, 0);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_LOCAL_DOWN, true);
	publish_drained(A B_DOWN, 2);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_REMOTE_DOWN, true);
}

/* What the agent is asked to watch: it has to know both ends. */
static void test_has_path(void **state)
{
	const union ibv_gid own = unit_gid("10.1.0.1"), remote = unit_gid("10.1.0.2"), nobody = unit_gid("10.9.0.1");

	(void)state;
	assert_true(mesh_directory_has_path(&nobody, &nobody)); /* without a directory it is the agent that can tell */
	clock_ns += 2 * SECOND;
	publish(A B);
	assert_true(mesh_directory_has_path(&own, &remote));
	assert_false(mesh_directory_has_path(&own, &nobody));
	assert_false(mesh_directory_has_path(&nobody, &remote));
	assert_false(mesh_directory_has_path(&own, &own));
	assert_false(mesh_directory_has_path(&remote, &remote));
}

/* A path that failed has other addresses, too. */
static void test_same_rail(void **state)
{
	const union ibv_gid first = unit_gid("10.1.0.1"), second = unit_gid("10.1.0.2"), third = unit_gid("10.1.0.3"), nobody = unit_gid("10.9.0.1");

	(void)state;
	assert_true(mesh_directory_same_rail(&first, &first)); /* without a directory as well */
	assert_false(mesh_directory_same_rail(&first, &second));
	clock_ns += 2 * SECOND;
	publish("host a; rail d0; gid 10.1.0.1/24 v1; gid 10.1.0.2/24 v2; rail d1; gid 10.1.0.3/24 v2; host b; rail d0; gid 10.1.0.1/24 v2;");
	assert_true(mesh_directory_same_rail(&first, &second));
	assert_true(mesh_directory_same_rail(&second, &first));
	assert_false(mesh_directory_same_rail(&first, &third));
	assert_false(mesh_directory_same_rail(&third, &second));
	assert_false(mesh_directory_same_rail(&first, &nobody));
}

static unsigned int n_holders(const char *gid)
{
	const union ibv_gid at = unit_gid(gid);

	return mesh_directory_n_holders(&at);
}

static void check_holder(uint8_t host, const char *gid, enum mesh_holder expected, uint32_t expected_flags)
{
	const struct mv_host_id id = {.bytes = {host}};
	const union ibv_gid at = unit_gid(gid);
	uint32_t flags = 0;

	assert_int_equal(mesh_directory_holder(&id, &at, &flags), expected);
	assert_int_equal(flags, expected_flags);
}

/* What works for a connection that is there is not known to work for one that is being made; the other way round it is. */
static void test_unmet(void **state)
{
	struct mv_path_request request = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2");
	struct mesh_path_decision decision;

	(void)state;
	clock_ns += 2 * SECOND;
	publish("host a; rail d0; gid 10.1.0.1/24 v2; host b; rail d0; gid 10.1.0.2/24 v2 unmet;");
	request.made = 1;
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_WORKS);
	request.made = 0;
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_UNKNOWN);
	publish("host a; rail d0; gid 10.1.0.1/24 v2; host b; rail d0; gid 10.1.0.2/24 v2;");
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_WORKS);
	request.made = 1;
	mesh_directory_paths(&request, &decision); /* host and rail are those of before */
	assert_int_equal(decision.verdict, MV_PATH_WORKS);
	assert_string_equal(decision.host, "b");
	assert_int_equal(decision.paths[0].remote_rail, 1);
	/* Once it is known whose it is, nobody else's counts. */
	request.host = &(struct mv_host_id){.bytes = {2}};
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_WORKS);
	request.host = &(struct mv_host_id){.bytes = {3}};
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_UNKNOWN);
}

/* Addresses that may belong to a host without an agent, and where the kernel has found no host. */
static void test_doubted(void **state)
{
	const union ibv_gid a = unit_gid("10.1.0.1"), unmet = unit_gid("10.1.0.2"), unanswered = unit_gid("10.9.0.2"), b = unit_gid("10.1.0.3");

	(void)state;
	assert_false(mesh_directory_is_doubted(&unmet, true)); /* no agent */
	clock_ns += 2 * SECOND;
	publish("host a; rail d0; gid 10.1.0.1/24 v2; host b; rail d0; gid 10.1.0.2/24 v2 unmet; gid 10.9.0.2/24 v2 unanswered; gid 10.1.0.3/24 v2;");
	assert_true(mesh_directory_is_doubted(&unmet, true));
	assert_true(mesh_directory_is_doubted(&unmet, false));
	/* Without a route no packet gets to an address of no network of this host. */
	assert_true(mesh_directory_is_doubted(&unanswered, true));
	assert_false(mesh_directory_is_doubted(&unanswered, false));
	assert_false(mesh_directory_is_doubted(&b, true));
	assert_false(mesh_directory_is_doubted(&a, true));
	assert_true(mesh_directory_is_stranger(&unanswered, true));
	assert_false(mesh_directory_is_stranger(&unanswered, false));
	assert_true(mesh_directory_is_stranger(&unmet, true));
	assert_true(mesh_directory_is_stranger(&unmet, false));
	assert_false(mesh_directory_is_stranger(&b, true));

	assert_false(mesh_directory_is_absent(&a, &unmet));
	mesh_directory_note_absent(&a, &unmet);
	assert_false(mesh_directory_is_absent(&b, &unmet));
	assert_false(mesh_directory_is_absent(&a, &b));
	clock_ns += 9 * SECOND;
	assert_true(mesh_directory_is_absent(&a, &unmet));
	clock_ns += SECOND;
	assert_false(mesh_directory_is_absent(&a, &unmet));
}

/* Hosts are numbered from 1. */
static void test_holder(void **state)
{
	struct mv_path_request request = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2");
	struct mesh_path_decision decision;

	(void)state;
	check_holder(2, "10.1.0.2", MESH_HOLDER_UNKNOWN, 0);
	assert_int_equal(n_holders("10.1.0.2"), 0);
	clock_ns += 2 * SECOND;
	publish(A B);
	check_holder(2, "10.1.0.2", MESH_HOLDER_SAME, 0);
	check_holder(1, "10.1.0.2", MESH_HOLDER_OTHER, 0);
	check_holder(2, "10.9.0.1", MESH_HOLDER_UNKNOWN, 0);
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.host_id.bytes[0], 2);
	flags_of_b = MV_PEER_AUTHENTICATED | MV_PEER_ROUTED;
	publish(A B);
	flags_of_b = 0;
	check_holder(2, "10.1.0.2", MESH_HOLDER_SAME, MV_PEER_AUTHENTICATED | MV_PEER_ROUTED);
	/* A link-local address may be of both. */
	publish("host a; rail d0; gid 10.1.0.1/24 v2; gid fe80::1 v2; host b; rail d0; gid fe80::1 v2; gid 10.1.0.2/24 v2; "
		"rail d1; gid fe80::1 v2;");
	check_holder(1, "fe80::1", MESH_HOLDER_SAME, 0);
	check_holder(2, "fe80::1", MESH_HOLDER_SAME, 0);
	check_holder(3, "fe80::1", MESH_HOLDER_OTHER, 0);
	assert_int_equal(n_holders("10.1.0.2"), 1);
	assert_int_equal(n_holders("fe80::1"), 2);
}

/* Who asks nothing any more does not keep the files of former directories, but for the last one until there is time. */
static void test_forgotten(void **state)
{
	const union ibv_gid own = unit_gid("10.1.0.1"), remote = unit_gid("10.1.0.2");
	const struct mv_directory *dir;

	(void)state;
	atomic_store(&process.thread, (struct mesh_helper *)&process); /* nobody looks into it */
	mesh_directory_forget(); /* nothing yet */
	mesh_directory_rest();
	publish(A B);
	assert_true(mesh_directory_has_path(&own, &remote));
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	mesh_directory_rest(); /* not what is in use */
	assert_true(mesh_directory_has_path(&own, &remote));
	dir = (const struct mv_directory *)process.directory.state; /* its first member */
	publish(A);
	mesh_directory_forget();
	assert_null(dir->header);
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	assert_false(mesh_directory_has_path(&own, &remote));
	assert_int_equal(tmpdir_mapped(&tmp), 2);
	publish(A B);
	mesh_directory_forget();
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
	assert_int_equal(tmpdir_mapped(&tmp), 2);
	mesh_directory_rest();
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
	mesh_directory_forget();
	mesh_directory_rest();
	assert_int_equal(tmpdir_mapped(&tmp), 0);
	/* Without that thread nobody comes by later. */
	atomic_store(&process.thread, NULL);
	assert_true(mesh_directory_has_path(&own, &remote));
	publish(A);
	assert_false(mesh_directory_has_path(&own, &remote));
	assert_int_equal(tmpdir_mapped(&tmp), 1);
}

/* The agent was stopped and started: its former directory was deleted, so nothing is said in that, and it has been alive lately. */
static void test_renewed(void **state)
{
	const union ibv_gid own = unit_gid("10.1.0.1"), remote = unit_gid("10.1.0.2");

	(void)state;
	mesh_directory_renew(); /* nothing yet */
	publish(A B);
	assert_true(mesh_directory_has_path(&own, &remote));
	delete();
	mesh_directory_renew();
	assert_true(mesh_directory_has_path(&own, &remote)); /* there is no other */
	publish(A);
	assert_true(mesh_directory_has_path(&own, &remote));
	mesh_directory_renew();
	assert_false(mesh_directory_has_path(&own, &remote));
	/* What there was not a moment ago is looked for at once. */
	delete();
	clock_ns += 6 * SECOND;
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_UNKNOWN, false);
	publish(A B);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_UNKNOWN, false);
	mesh_directory_renew();
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
	delete();
	clock_ns += 6 * SECOND;
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_UNKNOWN, false);
	publish(A B);
	mesh_directory_forget();
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
}

/* Of thousands that are away, each asks for the way back to the primary path with each news. */
static void test_way_to_primary(void **state)
{
	struct mesh_conn conn = {.qp = &(struct ibv_qp){0},
				 .state = MESH_CONN_MOVED,
				 .primary = {.device = "d0",
					     .port = 1,
					     .gid = unit_gid("10.1.0.1"),
					     .gid_type = MV_GID_TYPE_ROCE_V2,
					     .peer_gid = unit_gid("10.1.0.2")}};
	struct mv_path path;

	(void)state;
	publish(A_DOWN B);
	assert_int_equal(mesh_conn_paths_for(&conn, MV_CTL_REASON_PRIMARY, &path), 0);
	publish(A B_DOWN);
	assert_int_equal(mesh_conn_paths_for(&conn, MV_CTL_REASON_PRIMARY, &path), 0);
	assert_int_equal(n_searches, 0);
	publish(A B);
	assert_int_equal(mesh_conn_paths_for(&conn, MV_CTL_REASON_PRIMARY, &path), 1);
	assert_gid(path.local_gid, "10.1.0.1");
	assert_gid(path.remote_gid, "10.1.0.2");
	assert_int_equal(path.type, MV_GID_TYPE_ROCE_V2);
	assert_int_equal(n_searches, 1);
}

/* Nor does who only wants to know whether its path works look for another. */
static void test_path_works(void **state)
{
	struct mesh_conn conn = {.qp = &(struct ibv_qp){0},
				 .state = MESH_CONN_MOVED,
				 .vqp = &vqp,
				 .path = {.device = "d0",
					  .port = 1,
					  .gid = unit_gid("10.1.0.1"),
					  .gid_type = MV_GID_TYPE_ROCE_V2,
					  .peer_gid = unit_gid("10.1.0.2")}};

	(void)state;
	publish(A B);
	assert_true(mesh_conn_path_works(&conn));
	publish(A B_DOWN);
	assert_false(mesh_conn_path_works(&conn));
	publish_drained(A B_DOWN, 2);
	assert_true(mesh_conn_path_works(&conn));
	assert_int_equal(n_searches, 0);
}

/* Ranks of queue pairs go to the same few peers. */
static void test_searched_once(void **state)
{
	struct mv_path_request primary = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2"), now = primary;
	struct mesh_path_decision decision;

	(void)state;
	now.device = "d1";
	now.sgid = unit_gid("10.2.0.1");
	now.dgid = unit_gid("10.2.0.2");
	publish(A B_DOWN);
	for (unsigned int i = 0; i < 1000; i++) {
		mesh_directory_decide(&primary, &decision);
		assert_int_equal(decision.verdict, MV_PATH_REMOTE_DOWN);
		assert_int_equal(decision.n_paths, 1);
		mesh_directory_paths(&primary, &decision);
		assert_int_equal(decision.n_paths, 1);
		mesh_directory_paths(&now, &decision);
		assert_int_equal(decision.n_paths, 1);
	}
	assert_int_equal(n_searches, 2);
	/* Each change is seen at once. */
	publish(A B);
	mesh_directory_paths(&primary, &decision);
	assert_int_equal(n_searches, 3);
	assert_int_equal(decision.n_paths, 3);
	assert_int_equal(decision.paths[0].stays, 3);
	publish(A B);
	mesh_directory_paths(&primary, &decision);
	assert_int_equal(n_searches, 4);
}

/* What works by prefixes may not work by links. */
static void test_by_links(void **state)
{
	struct mv_path_request request = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.4");
	struct mesh_path_decision decision;

	(void)state;
	publish("host a; rail d0; gid 10.1.0.1/24 v2; rail d1; gid 10.1.0.2/24 v2;"
		"host b; rail d0; gid 10.1.0.3/24 v2; rail d1; gid 10.1.0.4/24 v2; link 0 2; link 1 3;");
	for (unsigned int i = 0; i < 4; i++) {
		request.by_links = i % 2;
		mesh_directory_verdict(&request, &decision);
		assert_int_equal(decision.verdict, request.by_links ? MV_PATH_APART : MV_PATH_WORKS);
	}
}

/* Groups of connections have paths of equal rank in orders of their own. */
static void test_spread(void **state)
{
	struct mv_path_request request = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2");
	struct mesh_path_decision decision;

	(void)state;
	publish(A B);
	for (request.spread = 0; request.spread < 4; request.spread++) {
		mesh_directory_paths(&request, &decision);
		mesh_directory_paths(&request, &decision);
		assert_int_equal(n_searches, request.spread + 1);
	}
}

/* As one would be told who searched anew. */
static void check_paths(const struct mv_path_request *request)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	uint32_t host = 0, rail = 0;
	struct mesh_path_decision decision;
	size_t n = 0, i;

	mesh_directory_paths(request, &decision);
	assert_int_equal(decision.verdict, mv_path_decide(&world.dir, request, &host, &rail));
	if (decision.verdict != MV_PATH_UNKNOWN && decision.verdict != MV_PATH_SELF)
		n = __real_mv_path_find(&world.dir, request, host, rail, paths, MV_MOVE_MAX_PATHS);
	assert_int_equal(decision.n_paths, n);
	for (i = 0; i < n; i++) {
		assert_int_equal(decision.paths[i].local_rail, paths[i].local_rail);
		assert_int_equal(decision.paths[i].remote_rail, paths[i].remote_rail);
		assert_true(mv_gid_equal(&decision.paths[i].local_gid, &paths[i].local_gid));
		assert_true(mv_gid_equal(&decision.paths[i].remote_gid, &paths[i].remote_gid));
		assert_int_equal(decision.paths[i].type, paths[i].type);
		assert_int_equal(decision.paths[i].stays, paths[i].stays);
		assert_int_equal(decision.paths[i].linked, paths[i].linked);
	}
}

/* With everything that may make a difference. */
static void check_requests(const char *from, const char *to)
{
	struct mv_path_request request = {.sgid = unit_gid(from), .dgid = unit_gid(to)};
	unsigned int n, i;

	for (n = 0; n < 64; n++) {
		i = n ^ n >> 1; /* from one to the next, one thing changes */
		request.device = i & 1 ? "d1" : "d0";
		request.port_num = i & 2 ? 2 : 1;
		request.sgid_type = i & 4 ? MV_GID_TYPE_ROCE_V1 : MV_GID_TYPE_ROCE_V2;
		request.routed = !!(i & 8);
		request.own_host = !!(i & 16);
		request.down_too = !!(i & 32);
		check_paths(&request);
	}
}

static void test_each_its_own(void **state)
{
	/* More pairs of them than are remembered. */
	static const char a[] = "host a; rail d0; gid fe80::a v2; gid 10.1.0.1/24 v2; gid 10.1.0.2/24 v2; gid 10.1.0.3/24 v1; gid 10.1.0.4/24 v1;"
				"gid 10.1.0.5/24 v2; gid 10.1.0.6/24 v2; rail d1 down; gid 10.1.0.7/24 v2; gid 10.2.0.8/24 v2;"
				"rail d1 port 2; gid 10.2.0.9/24 v2; rail d2 down; gid 10.1.0.7/24 v2;";
	static const char b[] = "host b; rail d0; gid fe80::b v2; gid 10.1.0.21/24 v2; gid 10.1.0.22/24 v2; gid 10.1.0.23/24 v1;"
				"gid 10.1.0.24/24 v1; gid 10.1.0.25/24 v2; gid 10.1.0.26/24 v2; rail d1 down; gid 10.1.0.27/24 v2;"
				"gid 10.2.0.28/24 v2; rail d2; gid 10.2.0.29/24 v2;";
	char text[2048], from[16], to[16];

	(void)state;
	for (unsigned int round = 0; round < 2; round++) {
		snprintf(text, sizeof(text), "%s%s%s", a, b, round ? "link 0 4; link 0 6;" : "");
		publish(text);
		for (unsigned int i = 1; i <= 9; i++)
			for (unsigned int k = 21; k <= 29; k++) {
				snprintf(from, sizeof(from), "10.%u.0.%u", 1 + i / 8, i);
				snprintf(to, sizeof(to), "10.%u.0.%u", 1 + k / 28, k);
				check_requests(from, to);
				check_requests(from, from);
			}
		check_requests("fe80::a", "fe80::b");
	}
	assert_true(n_searches > 2 * 81);
}

#define IB_A "host a; rail d0 ib lid 3 dev ib0; gid fe80::a0 ib;"

/* As the directory of the moment has it. */
static void test_lid(void **state)
{
	struct mv_lid_ends ends;

	(void)state;
	assert_int_equal(mesh_directory_lid("d0", 1, 6, &ends), -ENOENT); /* no agent */
	mesh_directory_forget();
	publish(IB_A "host b; rail d0 ib lid 6 dev ib0; gid fe80::b0 ib; rail d1 ib lid 70 dev ib1; gid fe80::b1 ib; link 0 1; link 0 2;");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mesh_directory_lid("d0", 1, 6, &ends), 0);
		assert_gid(ends.local, "fe80::a0");
		assert_gid(ends.remote, "fe80::b0");
		assert_int_equal(mesh_directory_lid("d0", 1, 70, &ends), 0); /* as 6, modulo 64 */
		assert_gid(ends.remote, "fe80::b1");
		assert_int_equal(mesh_directory_lid("d0", 2, 6, &ends), -ENODEV);
		assert_int_equal(mesh_directory_lid("d1", 1, 6, &ends), -ENODEV);
		assert_int_equal(mesh_directory_lid("d0", 1, 7, &ends), -ENOENT);
	}
	/* The subnet manager has given out others. */
	publish(IB_A "host b; rail d0 ib lid 7 dev ib0; gid fe80::b0 ib; link 0 1;");
	assert_int_equal(mesh_directory_lid("d0", 1, 6, &ends), -ENOENT);
	assert_int_equal(mesh_directory_lid("d0", 1, 7, &ends), 0);
	assert_gid(ends.remote, "fe80::b0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_verdicts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_has_path, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same_rail, setup, teardown),
		cmocka_unit_test_setup_teardown(test_holder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(test_renewed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_way_to_primary, setup, teardown),
		cmocka_unit_test_setup_teardown(test_path_works, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet, setup, teardown),
		cmocka_unit_test_setup_teardown(test_doubted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_by_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_spread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_searched_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_each_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lid, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
