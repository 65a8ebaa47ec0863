// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "published.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tmpdir.h"

uint64_t __wrap_mesh_now_ns(void);
size_t __wrap_mv_path_find(const struct mv_directory *dir, const struct mv_path_request *request, uint32_t remote_host,
			   uint32_t remote_rail, struct mv_path *ret, size_t max);

uint64_t clock_ns;
unsigned int n_searches;

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

struct mesh_process process;
struct tmpdir tmp;
struct dirworld world;
static uint64_t generation;

int published_setup(void **state)
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

int published_teardown(void **state)
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

uint32_t flags_of_b;

void publish_drained(const char *text, int drained)
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

void publish(const char *text)
{
	publish_drained(text, -1);
}

void delete(void)
{
	assert_int_equal(unlink(tmpdir_at(&tmp, MV_DIRECTORY_FILE)), 0);
}

struct mv_path_request request_to(const char *from, uint8_t type, const char *to)
{
	return (struct mv_path_request){.device = "d0", .port_num = 1, .sgid = unit_gid(from), .sgid_type = type, .dgid = unit_gid(to)};
}

void check_verdict(const char *from, uint8_t type, const char *to, enum mv_path_verdict verdict, bool drained)
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
