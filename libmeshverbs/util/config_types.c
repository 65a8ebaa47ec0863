/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Parsers and formatters for each type of setting. */
#include "config_types.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *parse_choice(int *field, const char *const *names, size_t n, const char *value,
				const char *expected)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(names[i], value)) {
			*field = (int)i;
			return NULL;
		}
	}
	return expected;
}

static const char *const mode_names[] = {"on", "observe", "off"};
static const char *const survive_names[] = {"off", "on", "auto"};
static const char *const qualify_names[] = {"auto", "manual", "never"};
static const char *const switch_names[] = {"off", "on"};
static const char *const level_names[] = {"err", "warn", "info", "debug"};

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static const char *parse_mode(void *field, const char *value)
{
	int choice;
	const char *expected = parse_choice(&choice, mode_names, N_ELEMENTS(mode_names), value,
					    "one of on, observe, off");

	if (!expected)
		*(enum mv_mode *)field = (enum mv_mode)choice;
	return expected;
}

static void format_mode(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%s", mode_names[*(const enum mv_mode *)field]);
}

static const char *parse_survive(void *field, const char *value)
{
	int choice;
	const char *expected =
		parse_choice(&choice, survive_names, N_ELEMENTS(survive_names), value, "one of off, on, auto");

	if (!expected)
		*(enum mv_survive *)field = (enum mv_survive)choice;
	return expected;
}

static void format_survive(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%s", survive_names[*(const enum mv_survive *)field]);
}

static const char *parse_qualify(void *field, const char *value)
{
	int choice;
	const char *expected =
		parse_choice(&choice, qualify_names, N_ELEMENTS(qualify_names), value, "one of auto, manual, never");

	if (!expected)
		*(enum mv_qualify *)field = (enum mv_qualify)choice;
	return expected;
}

static void format_qualify(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%s", qualify_names[*(const enum mv_qualify *)field]);
}

static const char *parse_level(void *field, const char *value)
{
	int choice;
	const char *expected = parse_choice(&choice, level_names, N_ELEMENTS(level_names), value,
					    "one of err, warn, info, debug");

	if (!expected)
		*(enum mv_log_level *)field = (enum mv_log_level)choice;
	return expected;
}

static void format_level(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%s", level_names[*(const enum mv_log_level *)field]);
}

/* Takes the next word of *@pos. Return: its length; 0: end. */
static size_t next_word(const char **pos, const char **ret_word)
{
	size_t len;

	*pos += strspn(*pos, " \t");
	len = strcspn(*pos, " \t");
	*ret_word = *pos;
	*pos += len;
	return len;
}

static const char *parse_list(void *field, const char *value)
{
	struct mv_config_list *list = field;
	const char *pos, *word;
	size_t n = 0, len;

	/* Check first, so that a bad list leaves the old one unchanged. */
	for (pos = value; (len = next_word(&pos, &word));)
		if (len >= MV_CONFIG_NAME_MAX || ++n > MV_CONFIG_LIST_MAX)
			return "at most 16 names of at most 63 characters, separated by blanks";
	memset(list, 0, sizeof(*list));
	for (pos = value; (len = next_word(&pos, &word));)
		memcpy(list->names[list->n++], word, len);
	return NULL;
}

static void format_list(const void *field, char *buf, size_t size)
{
	const struct mv_config_list *list = field;
	size_t used = 0;

	if (size)
		*buf = '\0';
	for (size_t i = 0; i < list->n && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "",
					 list->names[i]);
}

static const char *parse_target(void *field, const char *value)
{
	size_t len = strlen(value);

	if ((strcmp(value, "syslog") && *value != '/') || len >= MV_CONFIG_PATH_MAX)
		return "syslog, or the absolute path of a file in at most 255 characters";
	memcpy(field, value, len + 1);
	return NULL;
}

static const char *parse_path(void *field, const char *value)
{
	size_t len = strlen(value);

	if (*value != '/' || len >= MV_CONFIG_PATH_MAX)
		return "the absolute path of a file in at most 255 characters";
	memcpy(field, value, len + 1);
	return NULL;
}

static void format_text(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%s", (const char *)field);
}

/* Parses a decimal number. Return: true: valid, and within the limits. */
static bool parse_number(const char *value, uint32_t min, uint32_t max, uint32_t *ret)
{
	uint64_t number = 0;

	if (!*value)
		return false;
	for (; *value; value++) {
		if (*value < '0' || *value > '9')
			return false;
		number = number * 10 + (uint64_t)(*value - '0');
		if (number > max)
			return false;
	}
	if (number < min)
		return false;
	*ret = (uint32_t)number;
	return true;
}

static const char *parse_port(void *field, const char *value)
{
	return parse_number(value, 1, UINT16_MAX, field) ? NULL : "a number from 1 to 65535";
}

static const char *parse_interval(void *field, const char *value)
{
	return parse_number(value, MV_CONFIG_BEACON_MIN_MS, MV_CONFIG_BEACON_MAX_MS, field)
		       ? NULL
		       : "a number of milliseconds from 100 to 60000";
}

static const char *parse_probe_interval(void *field, const char *value)
{
	if (parse_number(value, 0, 0, field))
		return NULL;
	return parse_number(value, MV_CONFIG_PROBE_MIN_MS, MV_CONFIG_PROBE_MAX_MS, field)
		       ? NULL
		       : "0, or a number of milliseconds from 5 to 1000";
}

static const char *parse_multiplier(void *field, const char *value)
{
	return parse_number(value, 3, 50, field) ? NULL : "a number from 3 to 50";
}

static void format_number(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%u", *(const uint32_t *)field);
}

static const char *parse_switch(void *field, const char *value)
{
	int choice;
	const char *expected = parse_choice(&choice, switch_names, N_ELEMENTS(switch_names), value,
					    "on or off");

	if (!expected)
		*(bool *)field = choice;
	return expected;
}

static void format_switch(const void *field, char *buf, size_t size)
{
	snprintf(buf, size, "%s", switch_names[*(const bool *)field]);
}

const struct mv_config_type mv_config_mode = {parse_mode, format_mode};
const struct mv_config_type mv_config_survive = {parse_survive, format_survive};
const struct mv_config_type mv_config_qualify = {parse_qualify, format_qualify};
const struct mv_config_type mv_config_level = {parse_level, format_level};
const struct mv_config_type mv_config_names = {parse_list, format_list};
const struct mv_config_type mv_config_target = {parse_target, format_text};
const struct mv_config_type mv_config_path = {parse_path, format_text};
const struct mv_config_type mv_config_port = {parse_port, format_number};
const struct mv_config_type mv_config_interval = {parse_interval, format_number};
const struct mv_config_type mv_config_probe_interval = {parse_probe_interval, format_number};
const struct mv_config_type mv_config_multiplier = {parse_multiplier, format_number};
const struct mv_config_type mv_config_switch = {parse_switch, format_switch};
