/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "config.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config_types.h"

/* ---- the table ------------------------------------------------------------------------------- */

#define N_SETTINGS 20

static const struct mv_config_key keys[N_SETTINGS] = {
	{"meshverbs", "mode", "on",
	 "on: choose source GIDs. observe: decide and log, but change nothing. off: leave "
	 "every device alone. MESHVERBS=off in a process's environment does the same for that "
	 "process."},
	{"meshverbs", "base", "mlx5",
	 "Providers to stack over, by libibverbs driver name, with blanks between them. "
	 "Devices of any other provider are left alone."},
	{"meshverbs", "exclude", "",
	 "RDMA devices to leave alone: names or glob patterns such as mlx5_bond_*, with blanks "
	 "between them."},
	{"meshverbs", "moves", "on",
	 "on: a connection whose NIC or GID cannot reach the other end leaves through one that "
	 "can, when the host at the other end has an agent, too. off: the NIC is the program's "
	 "choice alone."},
	{"meshverbs", "survive", "auto",
	 "on: a connection that is at work moves to another NIC when a port on its path goes "
	 "down or nothing gets through any more, each work request being executed exactly once. "
	 "Polling costs more then, and for some queue pairs posting, too. Needs "
	 "moves = on. auto: the same, on and to devices alone that have qualified on this host (`meshverbs qualify`); "
	 "all others are as without it, at no cost. off: no connection at work moves."},
	{"meshverbs", "hold_down_ms", "5000",
	 "How long a path has to work again before connections that left it return, in "
	 "milliseconds from 100 to 60000. Doubled each time it fails again soon after."},
	{"meshverbs", "move_timeout_ms", "2000",
	 "How long a connection that moves while it is at work waits for the other end, in "
	 "milliseconds from 100 to 60000: to agree, and then to say what it has executed. After "
	 "that it stays where it is, or the program gets the errors that it would have had."},
	{"meshverbs", "arm", "on",
	 "on: with survive = on, memory regions and queue pairs are made on the NIC that a "
	 "connection would move to, in the background, before it has to. That memory counts "
	 "against the limit of locked memory once more for each NIC, so only where there is none "
	 "(ulimit -l). off: when it moves, which takes longer."},
	{"meshverbs", "stand_in", "off",
	 "on: a port that is down is reported as active, with the speed of another port of this host that would serve its "
	 "connections, to programs that open its device by ibv_open_device(). For programs that choose devices, all "
	 "hosts that they run on need meshverbs. Needs moves = on. off: ports are reported as they are."},
	{"survive", "qualify", "auto",
	 "With survive = auto. auto: the agent has each device qualified once for each firmware, kernel and libmlx5, while nothing "
	 "else uses it. manual: `meshverbs qualify` does, or a verdict is imported. never: no device counts as qualified."},
	{"survive", "unauthenticated", "off",
	 "on: with survive = on, connections whose programs both use 0 as initial PSN (NCCL, UCX) move also between "
	 "hosts that have not authenticated each other, by a fleet key or by pinned keys of hosts; and all connections with "
	 "hosts beyond routers that are not authenticated. Whoever can send as "
	 "a host then can take over such connections of that host."},
	{"log", "target", "syslog",
	 "syslog, or the absolute path of a file. The file is created readable and writable "
	 "for the user of the first program that logs; create it beforehand, with the mode you "
	 "want, to collect the lines of several users. Symbolic links and files with more than "
	 "one hard link are refused."},
	{"log", "level", "info", "The least important lines to write: err, warn, info or debug."},
	{"agent", "port", "28791",
	 "UDP port of the agents, the same on all hosts of a mesh."},
	{"agent", "hosts", "/etc/libibverbs.d/mesh/hosts",
	 "File that names hosts which no beacon reaches, because a router is in between: a name "
	 "and one or more addresses on each line. It need not exist."},
	{"agent", "key", "/etc/libibverbs.d/mesh/key",
	 "File with the key that all hosts of a mesh share. Without that file, agents trust "
	 "their network as far as RoCE itself does; but one that is named here has to be there, "
	 "or the agent does not start."},
	{"agent", "beacon_interval_ms", "1000",
	 "How often a host announces itself on each link, in milliseconds from 100 to 60000. "
	 "The agent takes longer where more than 250 announcements a second would come "
	 "together on one link."},
	{"agent", "probe_interval_ms", "10",
	 "How often the agent probes each path that connections with survive = on use, in "
	 "milliseconds from 5 to 1000; 0: never. Probes notice a path that is dead although both "
	 "ports have carrier. With more than 40 paths it takes longer."},
	{"agent", "probe_multiplier", "3",
	 "How many intervals a path has to be silent, while another path to the same host answers, "
	 "until connections leave it: 3 to 50."},
	{"agent", "exclude_default_route", "on",
	 "on: no connection moves to the port whose netdev holds the default route, when it is "
	 "the only such port and another one is left. off: every port may be used."},
};

/* In the order of keys[]. */
static const struct {
	size_t offset;
	const struct mv_config_type *type;
	bool decides; /* excludes or selects: the default may be the opposite of what was intended */
} fields[N_SETTINGS] = {
	{offsetof(struct mv_config, mode), &mv_config_mode, true},
	{offsetof(struct mv_config, base), &mv_config_names, true},
	{offsetof(struct mv_config, exclude), &mv_config_names, true},
	{offsetof(struct mv_config, moves), &mv_config_switch, true},
	{offsetof(struct mv_config, survive), &mv_config_survive, false},
	{offsetof(struct mv_config, hold_down_ms), &mv_config_interval, false},
	{offsetof(struct mv_config, move_timeout_ms), &mv_config_interval, false},
	{offsetof(struct mv_config, arm), &mv_config_switch, false},
	{offsetof(struct mv_config, stand_in), &mv_config_switch, false},
	{offsetof(struct mv_config, qualify), &mv_config_qualify, false},
	{offsetof(struct mv_config, survive_unauthenticated), &mv_config_switch, false},
	{offsetof(struct mv_config, log_target), &mv_config_target, false},
	{offsetof(struct mv_config, log_level), &mv_config_level, false},
	{offsetof(struct mv_config, agent_port), &mv_config_port, false},
	{offsetof(struct mv_config, agent_hosts), &mv_config_path, false},
	{offsetof(struct mv_config, agent_key), &mv_config_path, false},
	{offsetof(struct mv_config, beacon_interval_ms), &mv_config_interval, false},
	{offsetof(struct mv_config, probe_interval_ms), &mv_config_probe_interval, false},
	{offsetof(struct mv_config, probe_multiplier), &mv_config_multiplier, false},
	{offsetof(struct mv_config, exclude_default_route), &mv_config_switch, false},
};

/* Former names of settings, which are read in this release, too. */
static const struct {
	const char *section, *former, *key;
} former_names[] = {
	{"meshverbs", "prearm", "arm"},
};

const struct mv_config_key *mv_config_keys(size_t *ret_n)
{
	*ret_n = N_SETTINGS;
	return keys;
}

void mv_config_defaults(struct mv_config *config)
{
	memset(config, 0, sizeof(*config));
	for (size_t i = 0; i < N_SETTINGS; i++)
		fields[i].type->parse((char *)config + fields[i].offset, keys[i].default_text);
}

const char *mv_config_format(const struct mv_config *config, size_t i, char *buf, size_t size)
{
	fields[i].type->format((const char *)config + fields[i].offset, buf, size);
	return buf;
}

bool mv_config_list_match(const struct mv_config_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (!fnmatch(list->names[i], name, 0))
			return true;
	return false;
}

void mv_config_may_name_key(struct mv_config *config)
{
	if (config->agent_key_from == MV_KEY_DEFAULT)
		config->agent_key_from = MV_KEY_MAYBE;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Longest line: 16 list names of 63 characters, with room for the key. */
#define LINE_MAX_BYTES 1279

/* Longest part of a line that a message quotes. */
#define QUOTE_SIZE 64

struct parser {
	struct mv_config *config;
	const char *file;
	mv_config_report report;
	void *arg;
	unsigned int line;
	unsigned int n_reports;
	const char *section; /* of the table; NULL: none yet */
	bool skip_section; /* unknown; reported at its header */
	bool unknown; /* no known setting is on this line */
	bool in_doubt; /* the intention of this line is not known */
};

__attribute__((format(printf, 2, 3))) static void complain(struct parser *parser, const char *fmt,
							   ...)
{
	char text[512];
	va_list args;

	parser->n_reports++;
	parser->config->doubtful |= parser->in_doubt;
	if (parser->unknown)
		mv_config_may_name_key(parser->config);
	if (!parser->report)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	parser->report(parser->arg, parser->file, parser->line, text);
}

/* A part of the file for a message: cut to size, control characters replaced. */
static const char *quote(const char *text, char buf[static QUOTE_SIZE])
{
	size_t i;

	for (i = 0; text[i] && i < QUOTE_SIZE - 1; i++)
		buf[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
	buf[i] = '\0';
	if (text[i])
		memcpy(buf + QUOTE_SIZE - 4, "...", 3);
	return buf;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Removes blanks at both ends, in place. */
static char *trim(char *text)
{
	size_t len;

	while (is_blank(*text))
		text++;
	len = strlen(text);
	while (len && (is_blank(text[len - 1]) || text[len - 1] == '\r'))
		len--;
	text[len] = '\0';
	return text;
}

static void parse_section(struct parser *parser, char *text)
{
	char *end = strchr(text, ']');
	char shown[QUOTE_SIZE];
	const char *name;

	/* Settings in an unknown section are skipped without further reports. */
	parser->section = NULL;
	parser->skip_section = true;
	if (!end || end[1]) {
		complain(parser, "'%s' is no section: write [name] alone on its line",
			 quote(text, shown));
		return;
	}
	*end = '\0';
	name = trim(text + 1);
	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (!strcmp(keys[i].section, name)) {
			parser->section = keys[i].section;
			parser->skip_section = false;
			return;
		}
	}
	complain(parser,
		 "unknown section [%s], its settings are ignored: known are [meshverbs], [survive], [log] and "
		 "[agent]",
		 quote(name, shown));
}

static void unknown_key(struct parser *parser, const char *key)
{
	char shown[QUOTE_SIZE], known[128] = "";
	size_t used = 0;

	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (!strcmp(keys[i].key, key)) {
			complain(parser, "%s is a setting of section [%s], not of [%s]", key,
				 keys[i].section, parser->section);
			return;
		}
		if (!strcmp(keys[i].section, parser->section) && used < sizeof(known))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
						 used ? ", " : "", keys[i].key);
	}
	complain(parser, "unknown setting '%s' in [%s]: known are %s", quote(key, shown),
		 parser->section, known);
}

static const char *name_by_now(const char *section, const char *key)
{
	for (size_t i = 0; i < sizeof(former_names) / sizeof(former_names[0]); i++)
		if (!strcmp(former_names[i].section, section) && !strcmp(former_names[i].former, key))
			return former_names[i].key;
	return key;
}

static void parse_setting(struct parser *parser, char *text)
{
	char *equals = strchr(text, '=');
	char shown[QUOTE_SIZE];
	const char *key, *value, *written, *expected;

	if (!equals) {
		complain(parser, "'%s' has no '=': write key = value", quote(text, shown));
		return;
	}
	*equals = '\0';
	key = trim(text);
	value = trim(equals + 1);
	if (parser->skip_section)
		return;
	if (!parser->section) {
		complain(parser,
			 "'%s' stands before the first section: put [meshverbs], [survive], [log] or [agent] above "
			 "it",
			 quote(key, shown));
		return;
	}
	written = key;
	key = name_by_now(parser->section, written);
	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (strcmp(keys[i].section, parser->section) || strcmp(keys[i].key, key))
			continue;
		expected = fields[i].type->parse((char *)parser->config + fields[i].offset, value);
		parser->unknown = false;
		parser->in_doubt = fields[i].decides;
		if (fields[i].offset == offsetof(struct mv_config, agent_key))
			parser->config->agent_key_from = expected ? MV_KEY_UNUSABLE : MV_KEY_NAMED;
		if (expected)
			complain(parser, "bad value '%s' for %s: write %s", quote(value, shown),
				 written, expected);
		else if (key != written)
			complain(parser, "%s is now called %s, and will not be read in the next release: write %s = %s", written,
				 key, key, quote(value, shown));
		return;
	}
	unknown_key(parser, key);
}

static void parse_line(struct parser *parser, const char *start, size_t len)
{
	char line[LINE_MAX_BYTES + 1];
	char *text;

	if (len > LINE_MAX_BYTES) {
		complain(parser, "line of %zu bytes is too long: the limit is %d", len,
			 LINE_MAX_BYTES);
		return;
	}
	if (memchr(start, '\0', len)) {
		complain(parser, "line holds a NUL byte: the file must be plain text");
		return;
	}
	memcpy(line, start, len);
	line[len] = '\0';
	text = trim(line);
	if (!*text || *text == '#' || *text == ';')
		return;
	if (*text == '[')
		parse_section(parser, text);
	else
		parse_setting(parser, text);
}

unsigned int mv_config_parse(struct mv_config *config, const char *file, const char *text,
			     size_t len, mv_config_report report, void *arg)
{
	struct parser parser = {.config = config, .file = file, .report = report, .arg = arg};
	size_t pos = 0;

	while (pos < len) {
		const char *end = memchr(text + pos, '\n', len - pos);
		size_t line_len = end ? (size_t)(end - text) - pos : len - pos;

		parser.line++;
		parser.unknown = parser.in_doubt = true;
		parse_line(&parser, text + pos, line_len);
		pos += line_len + 1;
	}
	return parser.n_reports;
}
