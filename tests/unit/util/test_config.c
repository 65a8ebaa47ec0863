/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "fault.h"
#include "tmpdir.h"

/* All complaints of one file, as "LINE: TEXT\n". */
struct complaints {
	char text[4096];
	unsigned int n;
};

static void collect(void *arg, const char *file, unsigned int line, const char *text)
{
	struct complaints *complaints = arg;
	size_t used = strlen(complaints->text);

	assert_non_null(file);
	snprintf(complaints->text + used, sizeof(complaints->text) - used, "%u: %s\n", line, text);
	complaints->n++;
}

static unsigned int parse(struct mv_config *config, const char *text, struct complaints *complaints)
{
	memset(complaints, 0, sizeof(*complaints));
	mv_config_defaults(config);
	return mv_config_parse(config, "mesh.conf", text, strlen(text), collect, complaints);
}

static bool is_default(const struct mv_config *config)
{
	struct mv_config defaults;

	mv_config_defaults(&defaults);
	defaults.doubtful = config->doubtful;
	defaults.agent_key_from = config->agent_key_from;
	return !memcmp(config, &defaults, sizeof(defaults));
}

static void test_defaults(void **state)
{
	struct mv_config config;

	(void)state;
	memset(&config, 0xa5, sizeof(config));
	mv_config_defaults(&config);
	assert_int_equal(config.mode, MV_MODE_ON);
	assert_int_equal(config.base.n, 1);
	assert_string_equal(config.base.names[0], "mlx5");
	assert_int_equal(config.exclude.n, 0);
	assert_string_equal(config.log_target, "syslog");
	assert_int_equal(config.log_level, MV_LOG_INFO);
	assert_int_equal(config.agent_port, 28791);
	assert_string_equal(config.agent_hosts, "/etc/libibverbs.d/mesh/hosts");
	assert_string_equal(config.agent_key, "/etc/libibverbs.d/mesh/key");
	assert_int_equal(config.beacon_interval_ms, 1000);
	assert_int_equal(config.move_timeout_ms, 2000);
	assert_false(config.stand_in);
	assert_int_equal(config.probe_interval_ms, 10);
	assert_int_equal(config.probe_multiplier, 3);
	assert_true(config.exclude_default_route);
	assert_true(is_default(&config));
}

static void test_good_file(void **state)
{
	struct complaints complaints;
	struct mv_config config;

	(void)state;
	assert_int_equal(
		parse(&config,
		      "# comment\n; comment\n\n  [meshverbs]\t\r\n"
		      "mode=observe\r\n\tbase =  mlx5\trxe  siw \nexclude= mlx5_bond_* rxe?\n"
		      "[ log ]\nlevel = debug\ntarget = /var/log/mesh verbs.log\n"
		      "[meshverbs]\nmode = off",
		      &complaints),
		0);
	assert_string_equal(complaints.text, "");
	assert_int_equal(config.mode, MV_MODE_OFF); /* the last word counts */
	assert_int_equal(config.base.n, 3);
	assert_string_equal(config.base.names[2], "siw");
	assert_int_equal(config.exclude.n, 2);
	assert_int_equal(config.log_level, MV_LOG_DEBUG);
	assert_string_equal(config.log_target, "/var/log/mesh verbs.log");
	assert_int_equal(parse(&config, "[meshverbs]\nbase =\n", &complaints), 0);
	assert_int_equal(config.base.n, 0);
	assert_int_equal(parse(&config, "", &complaints), 0);
	assert_true(is_default(&config));
}

/* The former name of a setting counts, and is told of with the new one. */
static void test_former_name(void **state)
{
	struct complaints complaints;
	struct mv_config config;

	(void)state;
	assert_int_equal(parse(&config, "[meshverbs]\nprearm = off\n", &complaints), 1);
	assert_string_equal(complaints.text,
			    "2: prearm is now called arm, and will not be read in the next release: write arm = off\n");
	assert_false(config.arm);
	assert_false(config.doubtful);
	assert_int_equal(parse(&config, "[meshverbs]\nprearm = maybe\n", &complaints), 1);
	assert_string_equal(complaints.text, "2: bad value 'maybe' for prearm: write on or off\n");
	assert_true(config.arm);
	assert_int_equal(parse(&config, "[log]\nprearm = off\n", &complaints), 1);
	assert_true(config.arm);
}

/* Each bad line is named with what would be right, and changes nothing. */
static void test_bad_lines(void **state)
{
	static const struct {
		const char *text, *complaint;
	} cases[] = {
		{"[meshverbs]\nmode = maybe\n",
		 "2: bad value 'maybe' for mode: write one of on, observe, off\n"},
		{"[meshverbs]\nmode =\n",
		 "2: bad value '' for mode: write one of on, observe, off\n"},
		{"[meshverbs]\nmode = on # really\n",
		 "2: bad value 'on # really' for mode: write one of on, observe, off\n"},
		{"[meshverbs]\nmodus = on\n",
		 "2: unknown setting 'modus' in [meshverbs]: known are mode, base, exclude, moves, survive, hold_down_ms, move_timeout_ms, arm, stand_in\n"},
		{"[log]\nMode = on\n",
		 "2: unknown setting 'Mode' in [log]: known are target, level\n"},
		{"[meshverbs]\nlevel = info\n",
		 "2: level is a setting of section [log], not of [meshverbs]\n"},
		{"[log]\nlevel = verbose\n",
		 "2: bad value 'verbose' for level: write one of err, warn, info, debug\n"},
		{"[log]\ntarget = mesh.log\n", "2: bad value 'mesh.log' for target: write syslog, "
					       "or the absolute path of a file in at most "
					       "255 characters\n"},
		{"[log]\ntarget =\n", "2: bad value '' for target: write syslog, or the absolute "
				      "path of a file in at most 255 "
				      "characters\n"},
		{"mode = off\n",
		 "1: 'mode' stands before the first section: put [meshverbs], [survive], [log] or [agent] above "
		 "it\n"},
		{"\n\nmode\n", "3: 'mode' has no '=': write key = value\n"},
		{"[log]\n= x\n", "2: unknown setting '' in [log]: known are target, level\n"},
		{"[mesh]\nmode = off\nlevel = x\n[log]\n",
		 "1: unknown section [mesh], its settings are ignored: known are [meshverbs], "
		 "[survive], [log] and [agent]\n"},
		{"[log\nlevel = debug\n",
		 "1: '[log' is no section: write [name] alone on its line\n"},
		{"[log] level = debug\n",
		 "1: '[log] level = debug' is no section: write [name] alone on its line\n"},
		{"[agent]\nport = 0\n",
		 "2: bad value '0' for port: write a number from 1 to 65535\n"},
		{"[agent]\nport = 65536\n",
		 "2: bad value '65536' for port: write a number from 1 to 65535\n"},
		{"[agent]\nport = 4294967297\n",
		 "2: bad value '4294967297' for port: write a number from 1 to 65535\n"},
		{"[agent]\nport = 0x10\n",
		 "2: bad value '0x10' for port: write a number from 1 to 65535\n"},
		{"[agent]\nport =\n",
		 "2: bad value '' for port: write a number from 1 to 65535\n"},
		{"[agent]\nbeacon_interval_ms = 99\n",
		 "2: bad value '99' for beacon_interval_ms: write a number of milliseconds from "
		 "100 to 60000\n"},
		{"[meshverbs]\nmove_timeout_ms = 99\n",
		 "2: bad value '99' for move_timeout_ms: write a number of milliseconds from 100 to 60000\n"},
		{"[meshverbs]\nmove_timeout_ms = 60001\n",
		 "2: bad value '60001' for move_timeout_ms: write a number of milliseconds from 100 to 60000\n"},
		{"[meshverbs]\nmove_timeout_ms = 2s\n",
		 "2: bad value '2s' for move_timeout_ms: write a number of milliseconds from 100 to 60000\n"},
		{"[agent]\nprobe_interval_ms = 4\n",
		 "2: bad value '4' for probe_interval_ms: write 0, or a number of milliseconds from 5 to 1000\n"},
		{"[agent]\nprobe_interval_ms = 1001\n",
		 "2: bad value '1001' for probe_interval_ms: write 0, or a number of milliseconds from 5 to 1000\n"},
		{"[agent]\nprobe_interval_ms = off\n",
		 "2: bad value 'off' for probe_interval_ms: write 0, or a number of milliseconds from 5 to 1000\n"},
		{"[agent]\nprobe_multiplier = 2\n",
		 "2: bad value '2' for probe_multiplier: write a number from 3 to 50\n"},
		{"[agent]\nhosts = hosts\n",
		 "2: bad value 'hosts' for hosts: write the absolute path of a file in at most "
		 "255 characters\n"},
		{"[agent]\nexclude_default_route = yes\n",
		 "2: bad value 'yes' for exclude_default_route: write on or off\n"},
		{"[log]\nlevel = \033[31m\n",
		 "2: bad value '?[31m' for level: write one of err, warn, info, debug\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct complaints complaints;
		struct mv_config config;

		assert_int_equal(parse(&config, cases[i].text, &complaints), 1);
		assert_int_equal(complaints.n, 1);
		assert_string_equal(complaints.text, cases[i].complaint);
		assert_true(is_default(&config));
	}
}

static void test_goes_on_after_bad_lines(void **state)
{
	struct complaints complaints;
	struct mv_config config;

	(void)state;
	assert_int_equal(
		parse(&config,
		      "mode = off\n[log]\nlevel = loud\nlevel = info\n[x]\ny\n[meshverbs]\n"
		      "nothing\nmode = observe\n",
		      &complaints),
		5);
	assert_int_equal(config.log_level, MV_LOG_INFO);
	assert_int_equal(config.mode, MV_MODE_OBSERVE);
	/* Without anybody to tell it only counts. */
	assert_int_equal(mv_config_parse(&config, "mesh.conf", "x", 1, NULL, NULL), 1);
}

static void test_odd_bytes(void **state)
{
	static const char nul[] = "[log]\nlevel = err\0\nlevel = debug";
	struct complaints complaints = {0};
	struct mv_config config;
	char line[4000];

	(void)state;
	mv_config_defaults(&config);
	assert_int_equal(mv_config_parse(&config, "f", nul, sizeof(nul) - 1, collect, &complaints),
			 1);
	assert_string_equal(complaints.text,
			    "2: line holds a NUL byte: the file must be plain text\n");
	assert_int_equal(config.log_level, MV_LOG_DEBUG);

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	assert_int_equal(parse(&config, line, &complaints), 1);
	assert_string_equal(complaints.text,
			    "1: line of 3999 bytes is too long: the limit is 1279\n");
	/* A long quotation is cut. */
	line[500] = '\0';
	assert_int_equal(parse(&config, line, &complaints), 1);
	assert_true(strlen(complaints.text) < 100);
	assert_non_null(strstr(complaints.text, "xxx...' has no '='"));
}

static void test_lists(void **state)
{
	struct complaints complaints;
	struct mv_config config;
	char text[2048];

	(void)state;
	/* 16 names of 63 characters fit. */
	strcpy(text, "[meshverbs]\nexclude =");
	for (int i = 0; i < MV_CONFIG_LIST_MAX; i++)
		sprintf(text + strlen(text), " %0*d", MV_CONFIG_NAME_MAX - 1, i);
	assert_int_equal(parse(&config, text, &complaints), 0);
	assert_int_equal(config.exclude.n, MV_CONFIG_LIST_MAX);
	assert_int_equal(strlen(config.exclude.names[15]), MV_CONFIG_NAME_MAX - 1);
	strcat(text, " one_more");
	assert_int_equal(parse(&config, text, &complaints), 1);
	assert_int_equal(config.exclude.n, 0);
	sprintf(text, "[meshverbs]\nbase = rxe %0*d", MV_CONFIG_NAME_MAX, 0);
	assert_int_equal(parse(&config, text, &complaints), 1);
	assert_non_null(strstr(complaints.text, "at most 16 names of at most 63 characters"));
	assert_string_equal(config.base.names[0], "mlx5");

	assert_int_equal(
		parse(&config, "[meshverbs]\nexclude = mlx5_bond_* rxe? irdma0", &complaints), 0);
	assert_true(mv_config_list_match(&config.exclude, "mlx5_bond_0"));
	assert_true(mv_config_list_match(&config.exclude, "rxe1"));
	assert_true(mv_config_list_match(&config.exclude, "irdma0"));
	assert_false(mv_config_list_match(&config.exclude, "rxe10"));
	assert_false(mv_config_list_match(&config.exclude, "mlx5_0"));
	assert_false(mv_config_list_match(&config.exclude, ""));
}

/* What is listed can be written into a file and gives the same settings. */
/* Of every setting a wrong value is named and its default stays; where that may be the opposite, it says so. */
static void test_wrong_values(void **state)
{
	static const char *const deciding[] = {"mode", "base", "exclude", "moves"};
	struct complaints complaints;
	const struct mv_config_key *keys;
	struct mv_config config;
	char text[512], wrong[301];
	bool decides;
	size_t n;

	(void)state;
	memset(wrong, 'x', sizeof(wrong) - 1);
	wrong[sizeof(wrong) - 1] = '\0';
	keys = mv_config_keys(&n);
	for (size_t i = 0; i < n; i++) {
		decides = false;
		for (size_t d = 0; d < sizeof(deciding) / sizeof(deciding[0]); d++)
			decides |= !strcmp(keys[i].key, deciding[d]) && !strcmp(keys[i].section, "meshverbs");
		snprintf(text, sizeof(text), "[%s]\n%s = %s\n", keys[i].section, keys[i].key, wrong);
		assert_int_equal(parse(&config, text, &complaints), 1);
		assert_true(is_default(&config));
		assert_int_equal(config.doubtful, decides);
		assert_non_null(strstr(complaints.text, keys[i].key));
	}
	/* What is not known may have been meant for any of them. */
	assert_int_equal(parse(&config, "[meshverbs]\nexlude = mlx5_1\n", &complaints), 1);
	assert_true(config.doubtful);
	assert_int_equal(parse(&config, "[meshverb]\nmode = off\n", &complaints), 1);
	assert_true(config.doubtful);
	assert_int_equal(parse(&config, "[meshverbs]\nmode off\n", &complaints), 1);
	assert_true(config.doubtful);
	/* A harmless one does not hide it. */
	assert_int_equal(parse(&config, "[meshverbs]\nmode = of\nhold_down_ms = 50\n", &complaints), 2);
	assert_true(config.doubtful);
	assert_int_equal(parse(&config, "[meshverbs]\nhold_down_ms = 50\nsurvive = on\n", &complaints), 1);
	assert_false(config.doubtful);
	assert_true(config.survive);
	assert_int_equal(config.hold_down_ms, 5000);
}

/* Who has named a key, or may have, does not want to be without one: the agent looks at that. */
static void test_key_from(void **state)
{
	static const struct {
		const char *text;
		enum mv_key_from from;
	} cases[] = {
		{"", MV_KEY_DEFAULT},
		{"[agent]\n#key = /k\nport = 1\n", MV_KEY_DEFAULT},
		{"[agent]\nkey = /k\n", MV_KEY_NAMED},
		{"[agent]\nkey = /etc/libibverbs.d/mesh/key\n", MV_KEY_NAMED},
		{"[agent]\nkey = k\n", MV_KEY_UNUSABLE},
		{"[agent]\nkey =\n", MV_KEY_UNUSABLE},
		{"[agent]\nkey = /k\nkey = k\n", MV_KEY_UNUSABLE},
		{"[agent]\nkey = k\nkey = /k\n", MV_KEY_NAMED},
		/* Not understood. */
		{"[agent]\nkeys = /k\n", MV_KEY_MAYBE},
		{"[agent]\nkey /k\n", MV_KEY_MAYBE},
		{"[agnet]\nkey = /k\n", MV_KEY_MAYBE},
		{"key = /k\n", MV_KEY_MAYBE},
		{"[agent]\nkeys = /k\nkey = /k\n", MV_KEY_NAMED},
		{"[agent]\nkey = /k\nkeys = /k\n", MV_KEY_NAMED},
		/* Understood, and about something else. */
		{"[agent]\nport = 0\n", MV_KEY_DEFAULT},
		{"[meshverbs]\nmode = of\n", MV_KEY_DEFAULT},
	};
	struct complaints complaints;
	struct mv_config config;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		parse(&config, cases[i].text, &complaints);
		assert_int_equal(config.agent_key_from, cases[i].from);
	}
}

static void test_format(void **state)
{
	struct mv_config config, again;
	struct complaints complaints;
	const struct mv_config_key *keys;
	size_t n;

	(void)state;
	assert_int_equal(parse(&config,
			       "[meshverbs]\nmode=observe\nbase=mlx5 rxe\nexclude=a b c\nmove_timeout_ms=60000\nstand_in=on\n[log]\n"
			       "target=/x\nlevel=err\n[agent]\nport=65535\nhosts=/h\nkey=/k\n"
			       "beacon_interval_ms=60000\nprobe_interval_ms=0\nprobe_multiplier=50\n"
			       "exclude_default_route=off\n",
			       &complaints),
			 0);
	keys = mv_config_keys(&n);
	mv_config_defaults(&again);
	for (size_t i = 0; i < n; i++) {
		char value[256], text[512], small[4];

		snprintf(text, sizeof(text), "[%s]\n%s = %s\n", keys[i].section, keys[i].key,
			 mv_config_format(&config, i, value, sizeof(value)));
		assert_int_equal(mv_config_parse(&again, "f", text, strlen(text), NULL, NULL), 0);
		mv_config_format(&config, i, small, sizeof(small));
		assert_true(strlen(small) < sizeof(small));
		mv_config_format(&config, i, small, 1);
		assert_string_equal(small, "");
	}
	assert_memory_equal(&config, &again, sizeof(config));
}

static char *read_sample(size_t *ret_len)
{
	FILE *file = fopen(SOURCE_DIR "/etc/mesh.conf", "re");
	char *text = calloc(1, 65536);

	assert_non_null(file);
	assert_non_null(text);
	*ret_len = fread(text, 1, 65535, file);
	fclose(file);
	return text;
}

/* The help text of a setting as the sample file shows it: wrapped comment lines joined again. */
static void join_comments(const char *from, const char *to, char *buf, size_t size)
{
	size_t used = 0;

	for (const char *line = from; line < to; line = strchr(line, '\n') + 1) {
		size_t len = strcspn(line, "\n");

		if (strncmp(line, "# ", 2)) {
			used = 0; /* a paragraph ends */
			continue;
		}
		assert_true(used + len < size);
		if (used)
			buf[used++] = ' ';
		memcpy(buf + used, line + 2, len - 2);
		used += len - 2;
	}
	buf[used] = '\0';
}

/*
 * The sample file names every setting, in its section, with its default and its help, and nothing
 * else.
 */
static void test_sample_file(void **state)
{
	size_t n, len, settings = 0;
	const struct mv_config_key *keys = mv_config_keys(&n);
	struct complaints complaints;
	struct mv_config config;
	char *text = read_sample(&len);

	(void)state;
	assert_int_equal(parse(&config, text, &complaints), 0);
	assert_true(is_default(&config));
	for (size_t i = 0; i < n; i++) {
		char wanted[128], section[64], help[1024];
		char *at, *head, *next;

		snprintf(section, sizeof(section), "\n[%s]\n", keys[i].section);
		snprintf(wanted, sizeof(wanted), "\n#%s =%s%s\n", keys[i].key,
			 *keys[i].default_text ? " " : "", keys[i].default_text);
		at = strstr(text, wanted);
		head = strstr(text, section);
		if (!at || !head)
			fail_msg("etc/mesh.conf lacks '%s' or [%s]", wanted + 1, keys[i].section);
		next = strstr(head + 1, "\n[");
		if (at < head || (next && at > next))
			fail_msg("etc/mesh.conf has %s outside [%s]", keys[i].key, keys[i].section);
		join_comments(head + 1, at + 1, help, sizeof(help));
		assert_string_equal(help, keys[i].help);
	}
	/* With every default in force, and no setting that does not exist. */
	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (line[0] == '#' && line[1] != ' ' && line[1] != '\n') {
			line[0] = ' ';
			settings++;
		}
	}
	assert_int_equal(settings, n);
	assert_int_equal(parse(&config, text, &complaints), 0);
	assert_true(is_default(&config));
	free(text);
}

static unsigned int load(struct mv_config *config, const char *file, struct complaints *complaints)
{
	memset(complaints, 0, sizeof(*complaints));
	mv_config_defaults(config);
	return mv_config_load(config, file, collect, complaints);
}

static void test_load(void **state)
{
	struct complaints complaints;
	struct mv_config config;
	struct tmpdir dir;
	char *big = malloc(70000);

	(void)state;
	tmpdir_make(&dir);
	assert_int_equal(load(&config, tmpdir_at(&dir, "none"), &complaints), 0);
	tmpdir_write(&dir, "good", "[meshverbs]\nmode = off\n");
	assert_int_equal(load(&config, tmpdir_at(&dir, "good"), &complaints), 0);
	assert_int_equal(config.mode, MV_MODE_OFF);
	assert_int_equal(load(&config, tmpdir_at(&dir, "good/below"), &complaints), 0);

	tmpdir_write(&dir, "bad", "[meshverbs]\nmode = maybe\n");
	assert_int_equal(load(&config, tmpdir_at(&dir, "bad"), &complaints), 1);
	assert_non_null(strstr(complaints.text, "2: bad value"));

	assert_int_equal(load(&config, dir.path, &complaints), 1);
	assert_string_equal(complaints.text, "0: is not a regular file, defaults serve\n");
	assert_int_equal(mkfifo(tmpdir_at(&dir, "fifo"), 0600), 0);
	assert_int_equal(load(&config, tmpdir_at(&dir, "fifo"), &complaints), 1);
	assert_string_equal(complaints.text, "0: is not a regular file, defaults serve\n");

	/* 64 KiB are read, one byte more is not. */
	memset(big, '\n', 70000);
	memcpy(big, "[log]\nlevel = err\n", 18);
	big[65536] = '\0';
	tmpdir_write(&dir, "big", big);
	assert_int_equal(load(&config, tmpdir_at(&dir, "big"), &complaints), 0);
	assert_int_equal(config.log_level, MV_LOG_ERR);
	big[65536] = '\n';
	big[65537] = '\0';
	tmpdir_write(&dir, "big", big);
	assert_int_equal(load(&config, tmpdir_at(&dir, "big"), &complaints), 1);
	assert_string_equal(complaints.text,
			    "0: is longer than 64 KiB, defaults serve: shorten it\n");
	assert_true(is_default(&config));
	assert_int_equal(config.agent_key_from, MV_KEY_MAYBE);
	free(big);
	tmpdir_remove(&dir);
}

static void check_faulty_load(const char *file, int err)
{
	struct complaints complaints;
	struct mv_config config;
	unsigned int fds = fault_open_fds(), n;
	char expected[128];

	n = load(&config, file, &complaints);
	assert_int_equal(fault_open_fds(), fds);
	if (fault_fired() && err != EINTR) {
		assert_int_equal(n, 1);
		snprintf(expected, sizeof(expected), "0: cannot be read, defaults serve: %s\n",
			 strerror(err));
		assert_string_equal(complaints.text, expected);
		assert_true(is_default(&config));
	} else {
		assert_int_equal(n, 0);
		assert_int_equal(config.mode, MV_MODE_OFF);
	}
}

static void test_load_faults(void **state)
{
	struct tmpdir dir;
	const char *file;

	(void)state;
	tmpdir_make(&dir);
	tmpdir_write(&dir, "good", "[meshverbs]\nmode = off\n");
	file = tmpdir_at(&dir, "good");
	FAULT_EACH(FAULT_ALLOC, ENOMEM, check_faulty_load(file, ENOMEM));
	FAULT_EACH(FAULT_OPEN, EACCES, check_faulty_load(file, EACCES));
	FAULT_EACH(FAULT_OPEN, EINTR, check_faulty_load(file, EINTR));
	FAULT_EACH(FAULT_READ, EIO, check_faulty_load(file, EIO));
	FAULT_EACH(FAULT_READ, EINTR, check_faulty_load(file, EINTR));
	FAULT_EACH(FAULT_FSTAT, EOVERFLOW, check_faulty_load(file, EOVERFLOW));
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),  cmocka_unit_test(test_good_file),
		cmocka_unit_test(test_former_name),
		cmocka_unit_test(test_bad_lines), cmocka_unit_test(test_goes_on_after_bad_lines),
		cmocka_unit_test(test_odd_bytes), cmocka_unit_test(test_lists),
		cmocka_unit_test(test_wrong_values), cmocka_unit_test(test_key_from),
		cmocka_unit_test(test_format),    cmocka_unit_test(test_sample_file),
		cmocka_unit_test(test_load),      cmocka_unit_test(test_load_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
