/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_CONFIG_H
#define MV_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * mesh.conf. One table in config.c names every setting with its section, key, parser, default and
 * help text; the sample file, the man page and `meshverbs status` are made from or checked against
 * it.
 *
 * The format: `[section]`, `key = value`, `#` or `;` starts a comment line, blank lines. The plugin
 * reads it inside other people's processes, so the parser is small, allocates nothing but the
 * result and gives up on no bad line: that line is reported and its default stays. If it may have been meant to leave
 * something alone (@doubtful), the plugin steps aside.
 */

enum mv_mode {
	MV_MODE_ON,
	MV_MODE_OBSERVE, /* decide and log, change nothing */
	MV_MODE_OFF,
};

enum mv_survive {
	MV_SURVIVE_OFF,
	MV_SURVIVE_ON,
	MV_SURVIVE_AUTO, /* on and to devices that have qualified */
};

/* How devices come to be qualified. */
enum mv_qualify {
	MV_QUALIFY_AUTO, /* the agent has it done */
	MV_QUALIFY_MANUAL, /* the administrator does */
	MV_QUALIFY_NEVER, /* none is */
};

enum mv_log_level { MV_LOG_ERR, MV_LOG_WARN, MV_LOG_INFO, MV_LOG_DEBUG };

#define MV_CONFIG_LIST_MAX 16
#define MV_CONFIG_NAME_MAX 64
#define MV_CONFIG_PATH_MAX 256 /* with its NUL */
#define MV_CONFIG_BEACON_MIN_MS 100
#define MV_CONFIG_BEACON_MAX_MS 60000
#define MV_CONFIG_PROBE_MIN_MS 5
#define MV_CONFIG_PROBE_MAX_MS 1000

struct mv_config_list {
	size_t n;
	char names[MV_CONFIG_LIST_MAX][MV_CONFIG_NAME_MAX];
};

/* Where mv_config.agent_key is from: who named a key does not want to be without one. */
enum mv_key_from {
	MV_KEY_DEFAULT, /* nobody named one */
	MV_KEY_MAYBE, /* likewise, but a line of mesh.conf, or all of it, was not understood, and may have */
	MV_KEY_NAMED, /* mesh.conf */
	MV_KEY_UNUSABLE, /* mesh.conf names one in a way that cannot be used; agent_key is not what was meant */
};

struct mv_config {
	enum mv_mode mode;
	struct mv_config_list base; /* providers to stack over, by libibverbs driver name */
	struct mv_config_list exclude; /* RDMA devices left alone, glob patterns */
	bool moves; /* connections may leave through another NIC */
	enum mv_survive survive; /* and move while they are at work */
	enum mv_qualify qualify;
	bool survive_unauthenticated; /* also where nothing proves to the ends who the other one is */
	uint32_t hold_down_ms; /* how long the path they came from has to work before they return */
	uint32_t move_timeout_ms; /* how long the other end may take at each of the two steps of that */
	bool prearm; /* what a move needs is made before it is needed */
	char log_target[MV_CONFIG_PATH_MAX]; /* "syslog" or an absolute path */
	enum mv_log_level log_level;
	/* Of the agent only. */
	uint32_t agent_port; /* UDP */
	char agent_hosts[MV_CONFIG_PATH_MAX]; /* absolute path */
	char agent_key[MV_CONFIG_PATH_MAX]; /* likewise */
	enum mv_key_from agent_key_from;
	uint32_t beacon_interval_ms;
	uint32_t probe_interval_ms; /* of paths at work; 0: none */
	uint32_t probe_multiplier; /* intervals without an answer until a path counts as dead */
	bool exclude_default_route;
	/* Some line was not understood that may have said what to leave alone: no default is sure to be what was meant. */
	bool doubtful;
};

/* One setting, for listing. */
struct mv_config_key {
	const char *section;
	const char *key;
	const char *default_text;
	const char *help; /* one paragraph, no newline */
};

/**
 * mv_config_report - called for each line that cannot be used
 * @line: 1.., or 0 when the file as a whole cannot be read
 * @text: what is wrong and what would be right, without file name or line
 */
typedef void (*mv_config_report)(void *arg, const char *file, unsigned int line, const char *text);

/**
 * mv_config_defaults - every setting at its default
 */
void mv_config_defaults(struct mv_config *config);

/**
 * mv_config_parse - apply the text of a configuration file
 * @text: @len bytes, need not end in NUL
 * @file: name for messages
 * @config: must hold valid settings (mv_config_defaults()); bad lines leave it as it is
 * @report: may be NULL
 *
 * Return: number of lines that were reported.
 */
unsigned int mv_config_parse(struct mv_config *config, const char *file, const char *text,
			     size_t len, mv_config_report report, void *arg);

/**
 * mv_config_load - read a configuration file
 *
 * A file that does not exist is no error: defaults serve. One that cannot be read or is longer than
 * 64 KiB is reported with line 0 and changes nothing.
 *
 * Return: as mv_config_parse().
 */
unsigned int mv_config_load(struct mv_config *config, const char *file, mv_config_report report,
			    void *arg);

/**
 * mv_config_keys - the table of settings
 * @ret_n: number of entries
 */
const struct mv_config_key *mv_config_keys(size_t *ret_n);

/**
 * mv_config_format - value of the i-th setting as it would stand in the file
 *
 * Return: @buf.
 */
const char *mv_config_format(const struct mv_config *config, size_t i, char *buf, size_t size);

/**
 * mv_config_list_match - does a name match one of the list's glob patterns?
 */
bool mv_config_list_match(const struct mv_config_list *list, const char *name);

#endif
