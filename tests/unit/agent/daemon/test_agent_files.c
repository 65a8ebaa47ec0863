/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The key file: which one it is, and when the agent runs without. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "agent_log.h"
#include "tmpdir.h"

#define KEY    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define NOBODY 65534

static struct tmpdir dir;
static struct md_options options;
static struct md_keys keys;
static char said[2048];

static int setup(void **state)
{
	(void)state;
	tmpdir_make(&dir);
	assert_int_equal(chmod(dir.path, 0755), 0);
	options = (struct md_options){.config_file = "/x/mesh.conf", .conf_dir = dir.path};
	mv_config_defaults(&options.config);
	unsetenv("CREDENTIALS_DIRECTORY");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tmpdir_remove(&dir);
	return 0;
}

static void key_is(const char *path, enum mv_key_from from)
{
	snprintf(options.config.agent_key, sizeof(options.config.agent_key), "%s", tmpdir_at(&dir, path));
	options.config.agent_key_from = from;
}

static void write_key(const char *path)
{
	tmpdir_write(&dir, path, KEY);
	assert_int_equal(chmod(tmpdir_at(&dir, path), 0600), 0);
}

/* What @call logs is in @said. */
static int heard(int (*call)(void *arg), void *arg)
{
	int saved = dup(STDERR_FILENO), fds[2], rc;
	ssize_t n;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_return_code(dup2(fds[1], STDERR_FILENO), errno);
	close(fds[1]);
	rc = call(arg);
	assert_return_code(dup2(saved, STDERR_FILENO), errno);
	close(saved);
	n = read(fds[0], said, sizeof(said) - 1);
	close(fds[0]);
	said[n > 0 ? n : 0] = '\0';
	return rc;
}

static int call_keys(void *arg)
{
	(void)arg;
	memset(&keys, 0, sizeof(keys));
	return md_files_keys(&options, &keys);
}

static int load(void)
{
	return heard(call_keys, NULL);
}

static void assert_said(const char *what)
{
	if (!strstr(said, what))
		print_error("not '%s', but: %s\n", what, said);
	assert_non_null(strstr(said, what));
}

/* Only if nobody can have wanted one there is none. */
static void test_none(void **state)
{
	(void)state;
	key_is("key", MV_KEY_DEFAULT);
	assert_int_equal(load(), 0);
	assert_int_equal(keys.n, 0);
	assert_string_equal(said, "");

	key_is("key", MV_KEY_MAYBE);
	assert_int_equal(load(), -ENOENT);
	assert_said("/x/mesh.conf, which was not understood");
	assert_said(options.config.agent_key);

	key_is("key", MV_KEY_NAMED);
	assert_int_equal(load(), -ENOENT);
	assert_said("/key: No such file or directory: key in [agent] of /x/mesh.conf names this file: put the mesh's key there");

	write_key("key");
	assert_int_equal(load(), 0);
	assert_int_equal(keys.n, 1);
	key_is("key", MV_KEY_MAYBE);
	assert_int_equal(load(), 0);
	assert_int_equal(keys.n, 1);

	/* The default's key is not the one that was meant. */
	key_is("key", MV_KEY_UNUSABLE);
	assert_int_equal(load(), -EINVAL);
	assert_said("/x/mesh.conf: what stands for key in [agent] cannot be used: write the absolute path");
}

static void test_bad(void **state)
{
	(void)state;
	tmpdir_write(&dir, "key", "no key!\n");
	assert_int_equal(chmod(tmpdir_at(&dir, "key"), 0600), 0);
	key_is("key", MV_KEY_DEFAULT);
	assert_int_equal(load(), -EINVAL);
	assert_said("/key: a line is neither base64 nor hex: put the mesh's key there, or remove the file");
	key_is("key/below", MV_KEY_NAMED);
	assert_int_equal(load(), -ENOTDIR);
}

static int load_as_nobody(void)
{
	int err;

	assert_int_equal(seteuid(NOBODY), 0);
	err = load();
	assert_int_equal(seteuid(0), 0);
	return err;
}

/* systemd hands on what is in the directory of mesh.conf. That is no key for an agent whose own is elsewhere. */
static void test_credential(void **state)
{
	(void)state;
	if (geteuid()) {
		print_message("only root has files that others cannot read\n");
		skip();
	}
	write_key("key");
	write_key("other");
	write_key("elsewhere/key");
	tmpdir_write(&dir, "cred/mesh_key", KEY);
	assert_int_equal(chmod(tmpdir_at(&dir, "cred/mesh_key"), 0400) || chown(tmpdir_at(&dir, "cred/mesh_key"), NOBODY, NOBODY), 0);
	key_is("key", MV_KEY_DEFAULT);
	assert_int_equal(load_as_nobody(), -EACCES);
	assert_said("/key: Permission denied: let the agent's user read it");
	setenv("CREDENTIALS_DIRECTORY", tmpdir_at(&dir, "cred"), 1);
	assert_int_equal(load_as_nobody(), 0);
	assert_int_equal(keys.n, 1);
	key_is("elsewhere/key", MV_KEY_NAMED);
	assert_int_equal(load_as_nobody(), -EACCES);
	assert_said("elsewhere/key: Permission denied");
	key_is("other", MV_KEY_NAMED);
	assert_int_equal(load_as_nobody(), -EACCES);
	assert_said("other: Permission denied");
}

static int call_reload(void *arg)
{
	md_files_reload_keys(arg);
	return 0;
}

/* Whatever becomes of the file, the agent that has a key keeps it, and says so. */
static void test_reload(void **state)
{
	static struct md_agent agent;
	const struct md_secure_config config = {.start = 1};

	(void)state;
	write_key("key");
	key_is("key", MV_KEY_NAMED);
	agent.options = &options;
	assert_int_equal(load(), 0);
	assert_int_equal(md_secure_new(&config, &keys, 0, &agent.secure), 0);
	assert_int_equal(unlink(options.config.agent_key), 0);
	heard(call_reload, &agent);
	assert_said("/key: No such file or directory");
	assert_said("the former key stays in use");
	assert_true(md_secure_has_key(agent.secure));
	options.config.agent_key_from = MV_KEY_DEFAULT;
	heard(call_reload, &agent);
	assert_said("/key is gone: the key stays in use until the agent is restarted");
	assert_true(md_secure_has_key(agent.secure));
	md_secure_free(agent.secure);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_none, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad, setup, teardown),
		cmocka_unit_test_setup_teardown(test_credential, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reload, setup, teardown),
	};

	md_log_init(MD_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
