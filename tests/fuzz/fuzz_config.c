/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mv_config_parse() on any file: complaints are printable, and what it accepts it can write and
 * read back.
 */
#include "fuzz.h"

#include <string.h>

#include "config.h"

struct counter {
	unsigned int n;
	unsigned int last_line;
};

static void count_report(void *arg, const char *file, unsigned int line, const char *text)
{
	struct counter *counter = arg;

	FUZZ_CHECK(!strcmp(file, "mesh.conf"));
	FUZZ_CHECK(line > counter->last_line);
	FUZZ_CHECK(*text);
	for (; *text; text++)
		FUZZ_CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
	counter->last_line = line;
	counter->n++;
}

static void check_round_trip(const struct mv_config *config)
{
	const struct mv_config_key *keys;
	struct mv_config again;
	size_t n_keys;

	keys = mv_config_keys(&n_keys);
	mv_config_defaults(&again);
	for (size_t i = 0; i < n_keys; i++) {
		char value[2048], text[4096];
		int len;

		len = snprintf(text, sizeof(text), "[%s]\n%s = %s\n", keys[i].section, keys[i].key,
			       mv_config_format(config, i, value, sizeof(value)));
		FUZZ_CHECK(!mv_config_parse(&again, "mesh.conf", text, (size_t)len, NULL, NULL));
	}
	FUZZ_CHECK(again.mode == config->mode && again.log_level == config->log_level);
	FUZZ_CHECK(!memcmp(&again.base, &config->base, sizeof(again.base)));
	FUZZ_CHECK(!memcmp(&again.exclude, &config->exclude, sizeof(again.exclude)));
	FUZZ_CHECK(!strcmp(again.log_target, config->log_target));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct counter counter = {0};
	struct mv_config config;
	char *text = malloc(size ? size : 1);

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	mv_config_defaults(&config);
	FUZZ_CHECK(mv_config_parse(&config, "mesh.conf", text, size, count_report, &counter) ==
		   counter.n);
	free(text);
	check_round_trip(&config);
	mv_config_list_match(&config.exclude, "mlx5_0");
	return 0;
}
