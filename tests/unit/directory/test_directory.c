/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dirworld.h"
#include "fault.h"
#include "tmpdir.h"
#include "topo.h"

/* Three hosts in a triangle, as the agent of the first sees it. */
#define TRIANGLE                                                                                   \
	"host a; rail mlx5_0 dev eth1; gid fe80::a1 v1; gid fe80::a1 v2; gid 10.0.1.1/30 v2;"      \
	"        rail mlx5_1 dev eth2; gid 10.0.2.1/30 v2;"                                        \
	"host b; rail mlx5_0 numa 1; gid fe80::b1 v2; gid 10.0.1.2/30 v1; gid 10.0.1.2/30 v2;"     \
	"        rail mlx5_1 down;"                                                                \
	"host c; rail mlx5_3 port 2; gid 10.0.2.2/30 v2 vlan 7;"                                   \
	"link 1 4; link 0 2; link 0 2;"

static void test_build(void **state)
{
	const struct mv_directory *dir;
	struct dirworld world;

	(void)state;
	dirworld_init(&world, TRIANGLE);
	dir = &world.dir;
	assert_int_equal(dir->header->n_hosts, 3);
	assert_int_equal(dir->header->n_rails, 5);
	assert_int_equal(dir->header->n_gids, 8);
	assert_int_equal(dir->header->n_links, 2); /* one was there twice */
	assert_int_equal(dir->header->generation, 1);
	assert_int_equal(dir->header->agent_pid, 42);
	assert_int_equal(dir->header->size_bytes % 8, 0);
	assert_string_equal(dir->hosts[1].name, "b");
	assert_int_equal(dir->hosts[1].first_rail, 2);
	assert_string_equal(dir->rails[4].device, "mlx5_3");
	assert_int_equal(dir->rails[4].first_gid, 7);
	assert_int_equal(dir->gids[7].vlan_id, 7);
	for (uint32_t i = 1; i < dir->header->n_gids; i++)
		assert_true(memcmp(&dir->gids[dir->order[i - 1]], &dir->gids[dir->order[i]],
				   sizeof(union ibv_gid)) <= 0);
	dirworld_fini(&world);
}

static void test_find_gid(void **state)
{
	struct dirworld world;
	union ibv_gid gid;
	ssize_t at;

	(void)state;
	dirworld_init(&world, TRIANGLE);
	gid = unit_gid("10.0.1.2");
	at = mv_directory_find_gid(&world.dir, &gid, 0);
	assert_true(at >= 0);
	assert_int_equal(world.dir.gids[world.dir.order[at]].type, MV_GID_TYPE_ROCE_V1);
	at = mv_directory_find_gid(&world.dir, &gid, (size_t)at + 1);
	assert_true(at >= 0);
	assert_int_equal(world.dir.gids[world.dir.order[at]].type, MV_GID_TYPE_ROCE_V2);
	assert_int_equal(mv_directory_find_gid(&world.dir, &gid, (size_t)at + 1), -1);
	assert_int_equal(mv_directory_find_gid(&world.dir, &gid, SIZE_MAX), -1);
	gid = unit_gid("10.0.1.3");
	assert_int_equal(mv_directory_find_gid(&world.dir, &gid, 0), -1);
	gid = unit_gid("ffff::1");
	assert_int_equal(mv_directory_find_gid(&world.dir, &gid, 0), -1);
	gid = unit_gid("::");
	assert_int_equal(mv_directory_find_gid(&world.dir, &gid, 0), -1);
	/* Every entry is found by its value. */
	for (uint32_t i = 0; i < world.dir.header->n_gids; i++) {
		bool found = false;

		for (at = -1; (at = mv_directory_find_gid(&world.dir, &world.dir.gids[i].gid,
							  (size_t)(at + 1))) >= 0;)
			found = found || world.dir.order[at] == i;
		assert_true(found);
	}
	dirworld_fini(&world);
	dirworld_init(&world, "host a;");
	assert_int_equal(mv_directory_find_gid(&world.dir, &gid, 0), -1);
	dirworld_fini(&world);
}

/* As an agent of an older version writes it when a neighbour says that his id is zero: b is not there, c, with the same GID, is. */
static void test_zero_id(void **state)
{
	struct dirworld world;
	union ibv_gid shared = unit_gid("fe80::77"), alone = unit_gid("10.0.1.2");
	ssize_t at;

	(void)state;
	dirworld_init(&world, "host a; rail mlx5_0; gid 10.0.1.1/30 v2;"
			      "host b; rail mlx5_0; gid fe80::77 v2; gid 10.0.1.2/30 v2;"
			      "host c; rail mlx5_0; gid fe80::77 v2;");
	memset(&((struct mv_dir_host *)(uintptr_t)world.dir.hosts)[1].id, 0, sizeof(struct mv_host_id));
	assert_int_equal(mv_directory_find_gid(&world.dir, &alone, 0), -1);
	at = mv_directory_find_gid(&world.dir, &shared, 0);
	assert_true(at >= 0);
	assert_int_equal(world.dir.rails[world.dir.gids[world.dir.order[at]].rail].host, 2);
	assert_int_equal(mv_directory_find_gid(&world.dir, &shared, (size_t)at + 1), -1);
	dirworld_fini(&world);
}

static void test_linked(void **state)
{
	struct dirworld world;

	(void)state;
	dirworld_init(&world, TRIANGLE);
	for (uint32_t local = 0; local < 6; local++)
		for (uint32_t remote = 0; remote < 6; remote++)
			assert_int_equal(mv_directory_linked(&world.dir, local, remote),
					 (local == 0 && remote == 2) ||
						 (local == 1 && remote == 4));
	dirworld_fini(&world);
	dirworld_init(&world, "host a;");
	assert_false(mv_directory_linked(&world.dir, 0, 0));
	dirworld_fini(&world);
}

static void test_alive(void **state)
{
	struct dirworld world;

	(void)state;
	dirworld_init(&world, TRIANGLE); /* heartbeat at 1000 */
	assert_true(mv_directory_alive(&world.dir, 0));
	assert_true(mv_directory_alive(&world.dir, 1000));
	assert_true(mv_directory_alive(&world.dir, 1000 + MV_DIRECTORY_STALE_NS));
	assert_false(mv_directory_alive(&world.dir, 1001 + MV_DIRECTORY_STALE_NS));
	assert_false(mv_directory_alive(&world.dir, UINT64_MAX));
	assert_false(mv_directory_superseded(&world.dir));
	atomic_store(&world.image->superseded, 1);
	assert_true(mv_directory_superseded(&world.dir));
	dirworld_fini(&world);
}

/* ---- content that is not consistent ------------------------------------------------------------
 */

static int build(struct dirworld *world)
{
	struct mv_dir_header *image = NULL;
	int err = mv_directory_build(&world->content, 1, 1, 1, &image);

	assert_true(!err == (image != NULL));
	free(image);
	return err;
}

#define ASSERT_BUILD(change, expected)                                                             \
	do {                                                                                       \
		struct dirworld world;                                                             \
		dirworld_init(&world, TRIANGLE);                                                   \
		assert_int_equal(build(&world), 0);                                                \
		change;                                                                            \
		assert_int_equal(build(&world), expected);                                         \
		dirworld_fini(&world);                                                             \
	} while (0)

static void test_build_refuses(void **state)
{
	(void)state;
	ASSERT_BUILD(world.content.n_hosts = 0, -EINVAL);
	ASSERT_BUILD(world.content.n_hosts = 2, -EINVAL);
	ASSERT_BUILD(world.content.n_rails = 4, -EINVAL);
	ASSERT_BUILD(world.content.n_gids = 7, -EINVAL);
	ASSERT_BUILD(world.hosts[1].first_rail = 1, -EINVAL);
	ASSERT_BUILD(world.hosts[1].n_rails = 3, -EINVAL);
	ASSERT_BUILD(world.hosts[1].n_rails = UINT32_MAX, -EINVAL);
	ASSERT_BUILD(world.rails[2].host = 0, -EINVAL);
	ASSERT_BUILD(world.rails[2].n_gids++, -EINVAL);
	ASSERT_BUILD(world.rails[3].first_gid = 0, -EINVAL);
	ASSERT_BUILD(world.gids[3].rail = 0, -EINVAL);
	ASSERT_BUILD(world.gids[3].prefix_len = 129, -EINVAL);
	ASSERT_BUILD(world.gids[3].type = MV_GID_TYPE_ROCE_V2 + 1, -EINVAL);
	ASSERT_BUILD(world.gids[3].gid = unit_gid("::"), -EINVAL);
	ASSERT_BUILD(world.links[0].local_rail = 2, -EINVAL);
	ASSERT_BUILD(world.links[0].remote_rail = 5, -EINVAL);
	ASSERT_BUILD(world.hosts[2].name[0] = '\n', -EINVAL);
	ASSERT_BUILD(memset(world.hosts[2].name, 'x', sizeof(world.hosts[2].name)), -EINVAL);
	ASSERT_BUILD(world.rails[0].device[0] = '\0', -EINVAL);
	ASSERT_BUILD(world.rails[0].netdev[0] = 0x7f, -EINVAL);
	ASSERT_BUILD(memset(world.rails[0].netdev, 'x', sizeof(world.rails[0].netdev)), -EINVAL);
	ASSERT_BUILD(world.content.n_gids = (size_t)UINT32_MAX + 1, -E2BIG);
	ASSERT_BUILD(world.content.n_links = UINT32_MAX, -E2BIG);
	/* And what is fine. */
	ASSERT_BUILD(world.content.n_links = 0, 0);
	ASSERT_BUILD(world.hosts[2].name[0] = '\0', 0);
	ASSERT_BUILD(world.gids[3].prefix_len = 128, 0);
}

static void test_build_faults(void **state)
{
	struct dirworld world;

	(void)state;
	dirworld_init(&world, TRIANGLE);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		int err = build(&world);

		assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
	});
	dirworld_fini(&world);
}

/* Any single byte changed, any length: refused, or an image that every look-up can walk. */
static void test_check_survives(void **state)
{
	struct mv_directory dir;
	struct dirworld world;
	unsigned char *bytes;
	size_t size;

	(void)state;
	dirworld_init(&world, TRIANGLE);
	size = world.image->size_bytes;
	for (size_t len = 0; len < size; len++)
		assert_int_equal(mv_directory_check(world.image, len, &dir), -EBADMSG);
	bytes = (unsigned char *)world.image;
	for (size_t at = 0; at < size; at++)
		for (unsigned int bit = 0; bit < 8; bit++) {
			union ibv_gid gid = unit_gid("10.0.1.2");

			bytes[at] ^= (unsigned char)(1u << bit);
			if (!mv_directory_check(world.image, size, &dir)) {
				for (ssize_t i = 0; i >= 0;)
					i = mv_directory_find_gid(&dir, &gid, (size_t)i + 1);
				assert_true(dir.order[0] < dir.header->n_gids);
				assert_true(strlen(dir.hosts[0].name) < sizeof(dir.hosts[0].name));
			}
			bytes[at] ^= (unsigned char)(1u << bit);
		}
	assert_int_equal(mv_directory_check(world.image, size, &dir), 0);
	dirworld_fini(&world);
}

#define ASSERT_IMAGE_REFUSED(change)                                                               \
	do {                                                                                       \
		struct mv_directory dir;                                                           \
		struct dirworld world;                                                             \
		dirworld_init(&world, TRIANGLE);                                                   \
		change;                                                                            \
		assert_int_equal(mv_directory_check(world.image, world.dir.size_bytes, &dir),      \
				 -EBADMSG);                                                        \
		dirworld_fini(&world);                                                             \
	} while (0)

static uint32_t *order_of(struct dirworld *world)
{
	return (uint32_t *)(void *)((char *)world->image + world->image->order_at);
}

static struct mv_dir_link *links_of(struct dirworld *world)
{
	return (struct mv_dir_link *)(void *)((char *)world->image + world->image->links_at);
}

static void test_image_refused(void **state)
{
	(void)state;
	ASSERT_IMAGE_REFUSED(world.image->magic++);
	ASSERT_IMAGE_REFUSED(world.image->version++);
	ASSERT_IMAGE_REFUSED(world.image->size_bytes += 8);
	ASSERT_IMAGE_REFUSED(world.image->n_links++);
	ASSERT_IMAGE_REFUSED(world.image->gids_at += 8);
	ASSERT_IMAGE_REFUSED(world.image->order_at = 0);
	ASSERT_IMAGE_REFUSED(order_of(&world)[0] = order_of(&world)[1]);
	ASSERT_IMAGE_REFUSED(order_of(&world)[7] = 8);
	ASSERT_IMAGE_REFUSED(links_of(&world)[1] = links_of(&world)[0]);
	ASSERT_IMAGE_REFUSED(links_of(&world)[0].remote_rail = UINT32_MAX);
}

/* ---- the file ----------------------------------------------------------------------------------
 */

static void write_image(const struct tmpdir *tmp, const struct mv_dir_header *image, size_t size)
{
	const char *path = tmpdir_at(tmp, MV_DIRECTORY_FILE);
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(image, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0644), 0);
}

static void make_run_dir(struct tmpdir *tmp, struct dirworld *world)
{
	tmpdir_make(tmp);
	dirworld_init(world, TRIANGLE);
	write_image(tmp, world->image, world->image->size_bytes);
}

static void test_open(void **state)
{
	unsigned int fds = fault_open_fds();
	struct mv_directory dir = {0};
	struct dirworld world;
	struct tmpdir tmp;
	FILE *file;
	uint32_t mark = 1;

	(void)state;
	mv_directory_close(&dir);
	make_run_dir(&tmp, &world);
	assert_int_equal(mv_directory_open(tmp.path, &dir), 0);
	assert_int_equal(fault_open_fds(), fds);
	assert_int_equal(dir.size_bytes, world.image->size_bytes);
	assert_memory_equal(dir.header, world.image, dir.size_bytes);
	assert_false(mv_directory_superseded(&dir));
	/* What the agent marks in the file is seen in the mapping. */
	file = fopen(tmpdir_at(&tmp, MV_DIRECTORY_FILE), "r+e");
	assert_non_null(file);
	assert_int_equal(fseek(file, offsetof(struct mv_dir_header, superseded), SEEK_SET), 0);
	assert_int_equal(fwrite(&mark, sizeof(mark), 1, file), 1);
	assert_int_equal(fclose(file), 0);
	assert_true(mv_directory_superseded(&dir));
	mv_directory_close(&dir);
	assert_null(dir.header);
	mv_directory_close(&dir);
	dirworld_fini(&world);
	tmpdir_remove(&tmp);
}

static void assert_open(const struct tmpdir *tmp, int expected)
{
	struct mv_directory dir = {.size_bytes = 77};
	unsigned int fds = fault_open_fds();

	assert_int_equal(mv_directory_open(tmp->path, &dir), expected);
	assert_int_equal(fault_open_fds(), fds);
	if (expected)
		assert_int_equal(dir.size_bytes, 77);
	else
		mv_directory_close(&dir);
}

static void test_open_refuses(void **state)
{
	struct mv_directory dir;
	struct dirworld world;
	struct tmpdir tmp;
	const char *file;

	(void)state;
	make_run_dir(&tmp, &world);
	file = tmpdir_at(&tmp, MV_DIRECTORY_FILE);
	assert_int_equal(chmod(file, 0664), 0);
	assert_open(&tmp, -EPERM);
	assert_int_equal(chmod(file, 0646), 0);
	assert_open(&tmp, -EPERM);
	assert_int_equal(chmod(file, 0600), 0);
	assert_open(&tmp, 0);
	write_image(&tmp, world.image, world.image->size_bytes - 8);
	assert_open(&tmp, -EBADMSG);
	write_image(&tmp, world.image, 0);
	assert_open(&tmp, -EBADMSG);
	unlink(file);
	assert_open(&tmp, -ENOENT);
	tmpdir_link(&tmp, MV_DIRECTORY_FILE, "elsewhere");
	assert_open(&tmp, -ELOOP);
	unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_open(&tmp, -EPERM);
	unlink(file);
	assert_int_equal(mkdir(file, 0700), 0);
	assert_open(&tmp, -EPERM);
	assert_int_equal(mv_directory_open(tmpdir_at(&tmp, "none"), &dir), -ENOENT);
	dirworld_fini(&world);
	tmpdir_remove(&tmp);
}

/* Files of others: only with the right to give files away. */
static void test_owner(void **state)
{
	struct dirworld world;
	struct tmpdir tmp;
	const char *file;

	(void)state;
	if (geteuid())
		skip();
	make_run_dir(&tmp, &world);
	file = tmpdir_at(&tmp, MV_DIRECTORY_FILE);
	assert_int_equal(chown(file, 4711, 4711), 0);
	assert_open(&tmp, -EPERM);
	assert_int_equal(chown(tmp.path, 4711, 4711), 0);
	assert_open(&tmp, 0); /* the agent's own user */
	assert_int_equal(chown(file, 0, 0), 0);
	assert_open(&tmp, 0);
	dirworld_fini(&world);
	tmpdir_remove(&tmp);
}

static void check_faulty_open(const struct tmpdir *tmp, int err)
{
	unsigned int fds = fault_open_fds();
	struct mv_directory dir = {0};
	int rc = mv_directory_open(tmp->path, &dir);

	assert_int_equal(rc, fault_fired() && err != EINTR ? -err : 0);
	assert_int_equal(fault_open_fds(), fds);
	mv_directory_close(&dir);
}

static void test_open_faults(void **state)
{
	struct dirworld world;
	struct tmpdir tmp;

	(void)state;
	make_run_dir(&tmp, &world);
	FAULT_EACH(FAULT_OPEN, EMFILE, check_faulty_open(&tmp, EMFILE));
	FAULT_EACH(FAULT_OPEN, EINTR, check_faulty_open(&tmp, EINTR));
	FAULT_EACH(FAULT_FSTAT, EIO, check_faulty_open(&tmp, EIO));
	FAULT_EACH(FAULT_MMAP, ENOMEM, check_faulty_open(&tmp, ENOMEM));
	dirworld_fini(&world);
	tmpdir_remove(&tmp);
}

static void test_qualified(void **state)
{
	const char *device = "mlx5_0";
	struct dirworld world;
	uint32_t library = mv_directory_library("ab12"), rail;
	struct mv_dir_rail *rails;

	(void)state;
	assert_int_not_equal(library, mv_directory_library("ab13"));
	dirworld_init(&world, TRIANGLE);
	rail = world.dir.hosts[0].first_rail;
	assert_string_equal(world.dir.rails[rail].device, device);
	assert_int_equal(mv_directory_qualified(&world.dir, "mlx5_9", library), MV_DIR_QUALIFIED_UNKNOWN);
	assert_int_equal(mv_directory_qualified(&world.dir, device, library), MV_DIR_QUALIFIED_NO);
	rails = (struct mv_dir_rail *)(void *)((char *)world.image + world.image->rails_at);
	rails[rail].flags |= MV_RAIL_QUALIFIED;
	assert_int_equal(mv_directory_qualified(&world.dir, device, library), MV_DIR_QUALIFIED_OTHER);
	((struct mv_dir_gid *)(void *)((char *)world.image + world.image->gids_at))[rails[rail].first_gid].library = library;
	assert_int_equal(mv_directory_qualified(&world.dir, device, library), MV_DIR_QUALIFIED_YES);
	assert_int_equal(mv_directory_qualified(&world.dir, device, library + 1), MV_DIR_QUALIFIED_OTHER);
	dirworld_fini(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_build),          cmocka_unit_test(test_find_gid),
		cmocka_unit_test(test_linked),         cmocka_unit_test(test_alive),
		cmocka_unit_test(test_build_refuses),  cmocka_unit_test(test_build_faults),
		cmocka_unit_test(test_check_survives), cmocka_unit_test(test_image_refused),
		cmocka_unit_test(test_open),           cmocka_unit_test(test_open_refuses),
		cmocka_unit_test(test_qualified),      cmocka_unit_test(test_owner),
		cmocka_unit_test(test_open_faults),    cmocka_unit_test(test_zero_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
