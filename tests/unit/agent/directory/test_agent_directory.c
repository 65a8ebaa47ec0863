/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The directory file: its content, the flags of GIDs, and how it is published. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dir_publish.h"
#include "fault.h"
#include "heardhosts.h"
#include "peers.h"
#include "tmpdir.h"

static void test_directory(void **state)
{
	struct md_dir_build_from what = from();
	struct md_published published = {0};
	union ibv_gid gid = unit_gid("10.66.0.1");
	struct md_dir_build content;
	struct mv_directory dir;
	struct tmpdir tmp;
	ssize_t at;

	(void)state;
	tmpdir_make(&tmp);
	assert_int_equal(chmod(tmp.path, 0755), 0);
	published.dir_fd = open(tmp.path, O_DIRECTORY | O_RDONLY);
	assert_int_equal(md_targets_add(&targets, &gid, "silent"), 0);
	hear(1, 1,
	     "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.2/24 "
	     "v2;",
	     1, 0, MD_S);
	hear(1, 1,
	     "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.2/24 "
	     "v2;",
	     2, 1, MD_S);
	/* A netdev that is not ours (any more), and a rail that the description does not have. */
	hear(1, 1,
	     "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.2/24 "
	     "v2;",
	     9, 1, MD_S);
	hear(1, 1,
	     "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.2/24 "
	     "v2;",
	     1, 5, MD_S);
	assert_false(md_dir_publish_exists(published.dir_fd));
	assert_int_equal(md_dir_build_make(&what, 5 * MD_S, &content), 0);
	assert_int_equal(md_dir_publish(&published, &content.dir, 5 * MD_S), 0);
	md_dir_build_free(&content);
	assert_true(md_dir_publish_exists(published.dir_fd));

	assert_int_equal(mv_directory_open(tmp.path, &dir), 0);
	assert_int_equal(dir.header->n_hosts, 3);
	assert_string_equal(dir.hosts[0].name, "me");
	assert_int_equal(dir.hosts[0].n_rails, 2);
	assert_string_equal(dir.hosts[1].name, "host1");
	assert_string_equal(dir.hosts[2].name, "silent");
	assert_int_equal(dir.hosts[2].agent_version, 0);
	assert_int_equal(dir.hosts[2].n_rails, 0);
	/* Our own address is ours alone. */
	gid = unit_gid("10.1.0.1");
	at = mv_directory_find_gid(&dir, &gid, 0);
	assert_true(at >= 0);
	assert_int_equal(dir.rails[dir.gids[dir.order[at]].rail].host, 0);
	gid = unit_gid("10.2.0.2");
	at = mv_directory_find_gid(&dir, &gid, 0);
	assert_true(at >= 0);
	assert_int_equal(dir.gids[dir.order[at]].rail, 3);
	assert_string_equal(dir.rails[3].device, "mlx5_1");
	assert_int_equal(dir.header->n_links, 2);
	assert_true(mv_directory_linked(&dir, 0, 2));
	assert_true(mv_directory_linked(&dir, 1, 3));
	assert_false(mv_directory_linked(&dir, 0, 3));
	assert_true(mv_directory_alive(&dir, 6 * MD_S));
	md_dir_publish_heartbeat(&published, 60 * MD_S);
	assert_true(mv_directory_alive(&dir, 61 * MD_S));

	/* The next file: who has the old one learns of it. */
	assert_false(mv_directory_superseded(&dir));
	assert_int_equal(md_dir_build_make(&what, 6 * MD_S, &content), 0);
	assert_int_equal(md_dir_publish(&published, &content.dir, 6 * MD_S), 0);
	assert_true(mv_directory_superseded(&dir));
	mv_directory_close(&dir);
	/* The agent itself lets go of it when nothing is urgent, or there is one more. */
	assert_int_equal(tmpdir_mapped(&tmp), 2);
	assert_int_equal(md_dir_publish(&published, &content.dir, 6 * MD_S), 0);
	assert_int_equal(tmpdir_mapped(&tmp), 2);
	md_dir_publish_heartbeat(&published, 6 * MD_S);
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	assert_int_equal(md_dir_publish(&published, &content.dir, 6 * MD_S), 0);

	/* An agent that starts supersedes what its former life has left. */
	assert_int_equal(mv_directory_open(tmp.path, &dir), 0);
	assert_int_equal(dir.header->generation, 4);
	md_dir_publish_fini(&published);
	assert_int_equal(tmpdir_mapped(&tmp), 1); /* our own */
	published = (struct md_published){.dir_fd = published.dir_fd};
	assert_int_equal(md_dir_publish(&published, &content.dir, 7 * MD_S), 0);
	assert_true(mv_directory_superseded(&dir));
	mv_directory_close(&dir);
	md_dir_build_free(&content);
	md_dir_publish_fini(&published);
	close(published.dir_fd);
	tmpdir_remove(&tmp);
}

static int publish_once(struct md_published *published)
{
	struct md_dir_build_from what = from();
	struct md_dir_build content;
	int err = md_dir_build_make(&what, MD_S, &content);

	if (err)
		return err;
	err = md_dir_publish(published, &content.dir, MD_S);
	md_dir_build_free(&content);
	return err;
}

/* What @n's host is in the directory: enum mv_dir_host_flags. */
static uint32_t flags_of(unsigned int n)
{
	struct md_dir_build_from what = from();
	struct mv_host_id id = peers_id(n);
	struct md_dir_build content;
	uint32_t flags = 0;
	bool found = false;

	assert_int_equal(md_dir_build_make(&what, MD_S, &content), 0);
	for (uint32_t h = 0; h < content.dir.n_hosts; h++)
		if (!memcmp(&content.dir.hosts[h].id, &id, sizeof(id))) {
			flags = content.dir.hosts[h].flags;
			found = true;
		}
	md_dir_build_free(&content);
	assert_true(found);
	return flags;
}

/* A host that has only answered is beyond a router, as far as this one knows; one whose beacons have come is not, also when they come no more. */
static void test_routed(void **state)
{
	struct peer peer = {1, 100, 1, 1000, "rail mlx5_0; gid 10.1.0.2/24 v2;"};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_tell(&hosts, &peer, "10.9.0.2", MD_S, &changed), 0);
	assert_int_equal(flags_of(1), MV_PEER_ROUTED);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_int_equal(flags_of(1), 0);
	md_hosts_forget_net(&hosts, 1);
	assert_int_equal(flags_of(1), 0);
}

/* Return: how many GIDs of @n's host the directory has. */
static uint32_t gids_of(unsigned int n)
{
	struct md_dir_build_from what = from();
	struct mv_host_id id = peers_id(n);
	struct md_dir_build content;
	uint32_t n_gids = 0;

	assert_int_equal(md_dir_build_make(&what, MD_S, &content), 0);
	for (uint32_t g = 0; g < content.dir.n_gids; g++)
		n_gids += !memcmp(&content.dir.hosts[content.dir.rails[content.dir.gids[g].rail].host].id, &id, sizeof(id));
	md_dir_build_free(&content);
	return n_gids;
}

/* Whoever may open an RDMA device can speak for any host on IPoIB: without a fleet key programs are told nothing of what others have there. */
static void test_infiniband_of_others(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1 ib; gid fe80::1:2 ib; gid fec0::1:2 ib;", 1, 0, MD_S);
	assert_int_equal(gids_of(1), 1);
	assert_int_equal(holder("fe80::1:2"), -1); /* nor do messages come in the name of one */
	/* ... nor where these GIDs were on Ethernet before. */
	hear(2, 1, "rail mlx5_0; gid fec0::2:2 v2;", 1, 0, MD_S);
	assert_int_equal(holder("fec0::2:2"), 2);
	hear(2, 2, "rail mlx5_0 ib; gid fec0::2:2 v2;", 1, 0, MD_S);
	assert_int_equal(holder("fec0::2:2"), -1);
	claim_again(true);
	assert_int_equal(gids_of(1), 3);
}

/* Whatever has failed: there is a good file under the name, and no other. */
static void check_files(const struct tmpdir *tmp)
{
	struct mv_directory dir;

	assert_int_equal(mv_directory_open(tmp->path, &dir), 0);
	assert_false(mv_directory_superseded(&dir));
	mv_directory_close(&dir);
	assert_int_equal(access(tmpdir_at(tmp, "directory.new"), F_OK), -1);
}

static void test_publish_faults(void **state)
{
	static const struct {
		enum fault_call call;
		int err;
	} faults[] = {{FAULT_ALLOC, ENOMEM},
		      {FAULT_OPEN, EMFILE},
		      {FAULT_WRITE, ENOSPC},
		      {FAULT_MMAP, ENOMEM}};
	struct md_published published = {0};
	struct tmpdir tmp;

	(void)state;
	tmpdir_make(&tmp);
	assert_int_equal(chmod(tmp.path, 0755), 0);
	published.dir_fd = open(tmp.path, O_DIRECTORY | O_RDONLY);
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(publish_once(&published), 0);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		bool fired = true;

		for (unsigned int nth = 1; fired; nth++) {
			unsigned int fds = fault_open_fds();
			int err;

			fault_arm(faults[i].call, nth, faults[i].err);
			err = publish_once(&published);
			fired = fault_fired();
			fault_disarm();
			assert_int_equal(err, fired ? -faults[i].err : 0);
			assert_int_equal(fault_open_fds(), fds);
			check_files(&tmp);
		}
	}
	md_dir_publish_fini(&published);
	close(published.dir_fd);
	tmpdir_remove(&tmp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_routed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_infiniband_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_publish_faults, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
