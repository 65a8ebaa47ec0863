/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_CONFIG_H
#define MV_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * mesh.conf. A table in config.c has each setting with section, key, parser, default and help text. The sample file,
 * the man page and `meshverbs status` are made from the table, or checked against it.
 *
 * Format: `[section]`, `key = value`; `#` or `;` begins a comment line; empty lines are ignored. The plugin reads the
 * file in other people's processes, so the parser is small and allocates nothing but the result. A bad line is
 * reported, and its setting keeps the default. If the bad line may have excluded something (@doubtful), the plugin
 * steps aside.
 */

enum mv_mode {
	MV_MODE_ON,
	MV_MODE_OBSERVE, /* decide and log, change nothing */
	MV_MODE_OFF,
};

enum mv_survive {
	MV_SURVIVE_OFF,
	MV_SURVIVE_ON,
	MV_SURVIVE_AUTO, /* on, to devices that have qualified */
};

/* How devices qualify. */
enum mv_qualify {
	MV_QUALIFY_AUTO, /* the agent runs the qualification */
	MV_QUALIFY_MANUAL, /* the administrator runs it */
	MV_QUALIFY_NEVER, /* no device qualifies */
};

enum mv_log_level { MV_LOG_ERR, MV_LOG_WARN, MV_LOG_INFO, MV_LOG_DEBUG };

#define MV_CONFIG_LIST_MAX 16
#define MV_CONFIG_NAME_MAX 64
#define MV_CONFIG_PATH_MAX 256 /* with NUL */
#define MV_CONFIG_BEACON_MIN_MS 100
#define MV_CONFIG_BEACON_MAX_MS 60000
#define MV_CONFIG_PROBE_MIN_MS 5
#define MV_CONFIG_PROBE_MAX_MS 1000

struct mv_config_list {
	size_t n;
	char names[MV_CONFIG_LIST_MAX][MV_CONFIG_NAME_MAX];
};

/* Origin of mv_config.agent_key: if the administrator named a key, going on without it is no option. */
enum mv_key_from {
	MV_KEY_DEFAULT, /* not named */
	MV_KEY_MAYBE, /* not named, but a line of mesh.conf, or all of it, was not understood, and may have named a key */
	MV_KEY_NAMED, /* named in mesh.conf */
	MV_KEY_UNUSABLE, /* named in mesh.conf, but unusably; agent_key is not the intended one */
};

struct mv_config {
	enum mv_mode mode;
	struct mv_config_list base; /* lower providers, by libibverbs driver name */
	struct mv_config_list exclude; /* RDMA devices to be left alone, glob patterns */
	bool moves; /* connections may use another NIC, chosen while connecting */
	enum mv_survive survive; /* connections may move while at work */
	enum mv_qualify qualify;
	bool survive_unauthenticated; /* also if the ends cannot authenticate each other */
	uint32_t hold_down_ms; /* a path has to work for so long before connections return to it */
	uint32_t move_timeout_ms; /* time limit of the other end in each of the two phases of a move */
	bool arm; /* standby resources are made before they are needed */
	bool stand_in; /* a port that is down is shown as active if another one serves it */
	char log_target[MV_CONFIG_PATH_MAX]; /* "syslog" or an absolute path */
	enum mv_log_level log_level;
	/* For the agent only. */
	uint32_t agent_port; /* UDP port */
	char agent_hosts[MV_CONFIG_PATH_MAX]; /* absolute path */
	char agent_key[MV_CONFIG_PATH_MAX]; /* absolute path */
	enum mv_key_from agent_key_from;
	uint32_t beacon_interval_ms;
	uint32_t probe_interval_ms; /* of paths at work; 0: no probes */
	uint32_t probe_multiplier; /* intervals without answer until a path counts as dead */
	bool exclude_default_route;
	/* A line was not understood that may have excluded something, so no default is certain to be right. */
	bool doubtful;
};

/* One setting, for listing. */
struct mv_config_key {
	const char *section;
	const char *key;
	const char *default_text;
	const char *help; /* one paragraph without newline */
};

/**
 * mv_config_report - called for each line that cannot be used, or has the former name of a setting
 * @line: from 1; 0: the file as a whole
 * @text: the error, and what would be right; without file name and line; valid during the call
 */
typedef void (*mv_config_report)(void *arg, const char *file, unsigned int line, const char *text);

/** mv_config_defaults - set all settings to their defaults */
void mv_config_defaults(struct mv_config *config);

/**
 * mv_config_parse - parse the text of a configuration file
 * @text: @len bytes, no NUL needed at the end
 * @file: name for messages
 * @config: with valid settings, e.g. from mv_config_defaults(); bad lines do not change it
 * @report: may be NULL
 *
 * Return: number of lines reported.
 */
unsigned int mv_config_parse(struct mv_config *config, const char *file, const char *text,
			     size_t len, mv_config_report report, void *arg);

/**
 * mv_config_load - read and parse a configuration file
 *
 * A file that does not exist leaves the defaults. A file that cannot be read, or is longer than 64 KiB, is reported
 * with line 0 and changes nothing.
 *
 * Return: as mv_config_parse().
 */
unsigned int mv_config_load(struct mv_config *config, const char *file, mv_config_report report,
			    void *arg);

/**
 * mv_config_keys - the table of settings. Constant
 * @ret_n: number of entries
 */
const struct mv_config_key *mv_config_keys(size_t *ret_n);

/**
 * mv_config_format - value of the i-th setting, as in the file
 *
 * Return: @buf.
 */
const char *mv_config_format(const struct mv_config *config, size_t i, char *buf, size_t size);

/** mv_config_list_match - does the name match a glob pattern of the list? */
bool mv_config_list_match(const struct mv_config_list *list, const char *name);

#endif
