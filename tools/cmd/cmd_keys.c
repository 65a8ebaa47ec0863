// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs keys: keys of this host and of others, and orders about them. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "agentask.h"
#include "cli.h"
#include "shell_word.h"

#define NAME_CHARS 63 /* name of a host, see ident/statement.h */
#define KEY_CHARS  44 /* 32 bytes in base64 */
#define SAVED_NS   10000000000ull /* time limit for an order to be saved */

static bool is(const char *text, const char *word)
{
	return text && !strcmp(text, word);
}

/* E.g. "2026-11-28 06:00", local time; NULL: not known. */
static const char *time_text(long long since_s, char *buf, size_t size)
{
	time_t time = (time_t)since_s;
	struct tm tm;

	if (since_s <= 0 || !localtime_r(&time, &tm) || !strftime(buf, size, "%Y-%m-%d %H:%M", &tm))
		return NULL;
	return buf;
}

static void out_since(struct out *out, const char *key, const char *label, long long since_s)
{
	char buf[32];

	if (since_s > 0)
		out_uint(out, key, NULL, (uint64_t)since_s);
	else
		out_text(out, key, NULL, OUT_PLAIN, NULL);
	out_text(out, NULL, label, OUT_PLAIN, time_text(since_s, buf, sizeof(buf)));
}

/* ---- show ------------------------------------------------------------------------------------ */

/* What needs attention. */
struct tally {
	bool fleet_key, missing, distrusted;
};

static void show_own(struct out *out, struct json_object *keys, struct json_object *status, struct tally *tally)
{
	struct json_object *own = agent_member(keys, "identity", json_type_object);
	const char *why = agent_text(status, "identity_error");
	char buf[32];
	const char *since = time_text(agent_number(own, "since", 0), buf, sizeof(buf));

	out_bool(out, "fleet_key", NULL, tally->fleet_key);
	if (tally->fleet_key)
		out_textf(out, NULL, "Fleet key", OUT_GOOD, "yes: hosts know each other by it, and identities do nothing");
	if (!own) {
		tally->missing = !tally->fleet_key;
		out_text(out, "identity", NULL, OUT_PLAIN, NULL);
		out_text(out, "identity_error", NULL, OUT_PLAIN, why);
		if (!tally->fleet_key)
			out_textf(out, NULL, "This host", OUT_BAD, "has no identity: %s",
				  why ? why : "the agent's log says why");
		return;
	}
	out_section(out, "identity", NULL);
	out_text(out, "name", "This host", OUT_PLAIN, agent_text(own, "name"));
	out_text(out, "key", "Key", OUT_PLAIN, agent_text(own, "key"));
	if (agent_text(own, "former_key"))
		out_text(out, "former_key", "Former key", OUT_PLAIN, agent_text(own, "former_key"));
	out_bool(out, "lasting", NULL, agent_flag(own, "lasting"));
	out_since(out, "since", NULL, agent_number(own, "since", 0));
	if (!agent_flag(own, "lasting"))
		out_textf(out, NULL, "Made", OUT_WARN,
			  "at the start of the agent, and gone with it: its file cannot be written");
	else if (since)
		out_textf(out, NULL, "Made", OUT_PLAIN, "%s", since);
	out_section_end(out);
}

/*
 * How the host's key is known: "first-contact", "unconfirmed", "operator", "rotated", "hosts-file", "fleet-key",
 * "revoked"; NULL: not known.
 */
static const char *how_of(struct json_object *host, const struct tally *tally)
{
	if (is(agent_text(host, "trust"), "revoked"))
		return "revoked";
	return tally->fleet_key ? "fleet-key" : agent_text(host, "how");
}

static enum out_tone state_of(struct json_object *host, struct tally *tally, char *buf, size_t size)
{
	const char *trust = agent_text(host, "trust"), *name = agent_text(host, "name");
	enum out_tone tone = OUT_WARN;

	name = name ? name : "?";
	if (!trust) {
		snprintf(buf, size, "not heard");
		return OUT_PLAIN;
	}
	if (agent_flag(host, "authenticated")) {
		snprintf(buf, size, "authenticated");
		return OUT_GOOD;
	}
	if (is(trust, "changed") || is(trust, "revoked")) {
		tally->distrusted = true;
		tone = OUT_BAD;
	}
	if (is(trust, "changed") && !agent_text(host, "pinned_key"))
		snprintf(buf, size, "not authenticated: it has the host id of a host that is known with another key");
	else if (is(trust, "changed"))
		snprintf(buf, size,
			 "not authenticated: it shows another key, %s; if it was installed anew: meshverbs keys forget %s",
			 agent_text(host, "key"), MV_SHELL(name));
	else if (is(trust, "revoked"))
		snprintf(buf, size, "not authenticated: its key is revoked");
	else if (is(trust, "unpinned"))
		snprintf(
			buf, size,
			"not authenticated: beyond a router a first contact proves nothing: meshverbs keys pin %s %s",
			MV_SHELL(name), MV_SHELL(agent_text(host, "key")));
	else if (is(trust, "pinned"))
		snprintf(buf, size, "not authenticated yet: it has sealed nothing for this host");
	else
		snprintf(buf, size, "not authenticated: its agent has no identity");
	return tone;
}

static void out_seen(struct out *out, struct json_object *host)
{
	long long heard_ms = agent_number(host, "heard_ms_ago", -1), seen_s = agent_number(host, "seen", 0);
	char buf[32];

	if (heard_ms >= 0)
		out_uint(out, "heard_ms", NULL, (uint64_t)heard_ms);
	else
		out_text(out, "heard_ms", NULL, OUT_PLAIN, NULL);
	out_since(out, "seen", NULL, seen_s);
	if (heard_ms >= 0)
		out_textf(out, NULL, "LAST SEEN", OUT_PLAIN, "%.1f s ago", (double)heard_ms / 1000);
	else
		out_text(out, NULL, "LAST SEEN", OUT_PLAIN, time_text(seen_s, buf, sizeof(buf)));
}

static void show_host(struct out *out, struct json_object *host, struct tally *tally)
{
	const char *pinned = agent_text(host, "pinned_key"), *key = agent_text(host, "key"), *trust = agent_text(host, "trust");
	char text[1280]; /* a command with two words that are quoted */
	enum out_tone tone = state_of(host, tally, text, sizeof(text));

	out_row(out);
	out_text(out, "host", "HOST", OUT_PLAIN, agent_text(host, "name"));
	out_text(out, "id", NULL, OUT_PLAIN, agent_text(host, "id"));
	out_text(out, "key", NULL, OUT_PLAIN, key);
	out_text(out, "pinned_key", NULL, OUT_PLAIN, pinned);
	out_text(out, NULL, "KEY", OUT_PLAIN, pinned && !is(trust, "revoked") ? pinned : key);
	out_text(out, "how", "TRUSTED BY", OUT_PLAIN, how_of(host, tally));
	out_since(out, "since", "SINCE", agent_number(host, "since", 0));
	out_seen(out, host);
	out_bool(out, "authenticated", NULL, agent_flag(host, "authenticated"));
	out_text(out, "trust", NULL, OUT_PLAIN, trust ? trust : "not-heard");
	out_text(out, "state_text", "STATE", tone, text);
}

/* First hosts that are heard, then pinned keys of others. */
static void show_hosts(struct out *out, struct json_object *keys, struct tally *tally)
{
	struct json_object *hosts = agent_member(keys, "hosts", json_type_array),
			   *pins = agent_member(keys, "pins", json_type_array);
	struct json_object *heard = json_object_new_object(), *host;
	size_t i;

	out_list(out, "hosts", "Other hosts");
	for (i = 0; hosts && i < json_object_array_length(hosts); i++) {
		host = json_object_array_get_idx(hosts, i);
		show_host(out, host, tally);
		if (heard && agent_text(host, "name"))
			json_object_object_add(heard, agent_text(host, "name"), NULL);
	}
	for (i = 0; pins && i < json_object_array_length(pins); i++) {
		host = json_object_array_get_idx(pins, i);
		if (agent_text(host, "name") && !json_object_object_get_ex(heard, agent_text(host, "name"), NULL))
			show_host(out, host, tally);
	}
	out_list_end(out);
	json_object_put(heard);
}

static void show_revoked(struct out *out, struct json_object *keys)
{
	struct json_object *revoked = agent_member(keys, "revoked", json_type_array), *key;

	out_list(out, "revoked", "Revoked keys, never believed");
	for (size_t i = 0; revoked && i < json_object_array_length(revoked); i++) {
		key = json_object_array_get_idx(revoked, i);
		out_row(out);
		out_text(out, "host", "HOST", OUT_PLAIN, agent_text(key, "name"));
		out_text(out, "key", "KEY", OUT_PLAIN, agent_text(key, "key"));
		out_since(out, "since", "SINCE", agent_number(key, "since", 0));
	}
	out_list_end(out);
}

static int show(struct cli *cli)
{
	struct json_object *keys, *status = NULL;
	struct tally tally = {0};
	struct out *out;
	int rc = agent_ask(cli, "keys", "hosts", json_type_array, &keys);

	if (rc) {
		agent_ask_error(cli, rc, "keys");
		return CLI_ERROR;
	}
	agent_ask(cli, "status", "agent", json_type_string, &status);
	out = cli_out(cli);
	if (out) {
		tally.fleet_key = agent_flag(keys, "fleet_key");
		show_own(out, keys, status, &tally);
		show_hosts(out, keys, &tally);
		show_revoked(out, keys);
	}
	rc = out ? cli_finish(out, tally.missing || tally.distrusted ? CLI_ATTENTION : CLI_OK) : CLI_ERROR;
	json_object_put(status);
	json_object_put(keys);
	return rc;
}

/* ---- orders ---------------------------------------------------------------------------------- */

struct verb {
	const char *name, *order;
	int n_min, n_max; /* number of arguments: HOST, KEY */
	const char *done; /* printed after the host's name */
};

static const struct verb verbs[] = {
	{"pin", "key-pin", 2, 2, "has to show this key from now on"},
	{"forget", "key-forget", 1, 1, "no key is known any more: the next one that it shows as a neighbour will be"},
	{"revoke", "key-revoke", 1, 2, "this key is never believed again, by this host"},
	{"restore", "key-restore", 1, 2, "this key may be believed again"},
	{"rotate", "key-rotate", 0, 0, "has another key, which the former one has signed: hosts that know that one take it"},
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/*
 * Waits until the agent has saved the change. Return: 0; 1: the agent cannot save it; -1: no answer, or not in time.
 * Prints errors.
 */
static int wait_saved(struct cli *cli)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	uint64_t until_ns = now_ns() + SAVED_NS;
	struct json_object *status;
	const char *error;
	int rc;

	for (;;) {
		rc = agent_ask(cli, "status", "agent", json_type_string, &status);
		if (rc) {
			agent_ask_error(cli, rc, "status");
			return -1;
		}
		error = agent_text(status, "rotate_error");
		if (error)
			cli_error("this host keeps its key, for the new one cannot be written: %s", error);
		else if ((error = agent_text(status, "keys_error")))
			cli_error("it is in force, but cannot be written, and is forgotten when the agent ends: %s", error);
		if (error || !agent_flag(status, "keys_unsaved")) {
			rc = !!error;
			json_object_put(status);
			return rc;
		}
		json_object_put(status);
		if (now_ns() >= until_ns) {
			cli_error("the agent has not written it within %d s: journalctl -u meshverbsd",
				  (int)(SAVED_NS / 1000000000));
			return -1;
		}
		nanosleep(&pause, NULL);
	}
}

static int show_done(struct cli *cli, const struct verb *verb, struct json_object *answer, bool saved)
{
	const char *host = agent_text(answer, "host"), *former = agent_text(answer, "former_key");
	struct out *out = cli_out(cli);

	if (!out)
		return CLI_ERROR;
	out_text(out, "done", NULL, OUT_PLAIN, verb->name);
	out_text(out, "host", NULL, OUT_PLAIN, host);
	out_text(out, NULL, host ? host : "This host", OUT_GOOD, verb->done);
	out_text(out, "key", "Key", OUT_PLAIN, agent_text(answer, "key"));
	out_text(out, "former_key", former ? "Former key" : NULL, OUT_PLAIN, former);
	out_bool(out, "saved", NULL, saved);
	return cli_finish(out, saved ? CLI_OK : CLI_ATTENTION);
}

static int give_order(struct cli *cli, const struct verb *verb, int argc, char **argv)
{
	struct json_object *order = json_object_new_object(), *answer;
	int rc;

	if (order)
		json_object_object_add(order, "do", json_object_new_string(verb->order));
	if (order && argc > 0)
		json_object_object_add(order, "host", json_object_new_string(argv[0]));
	if (order && argc > 1)
		json_object_object_add(order, "key", json_object_new_string(argv[1]));
	rc = agent_order(cli, order, "key", json_type_string, &answer);
	if (rc) {
		agent_ask_error(cli, rc, "a word on keys");
		return CLI_ERROR;
	}
	if (agent_text(answer, "error")) {
		cli_error("%s", agent_text(answer, "error"));
		rc = CLI_ERROR;
	} else {
		rc = wait_saved(cli);
		rc = rc < 0 || (rc && !argc) ? CLI_ERROR : show_done(cli, verb, answer, !rc);
	}
	json_object_put(answer);
	return rc;
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const struct verb *verb = NULL;
	int rc, n;

	/* Options may also follow the arguments. */
	if (cli_option(cli, &cmd_keys, argc, argv, ":jh", options, &rc) == -2)
		return rc;
	if (optind == argc)
		return show(cli);
	for (size_t v = 0; v < N_VERBS; v++)
		if (!strcmp(argv[optind], verbs[v].name))
			verb = &verbs[v];
	if (!verb)
		return cli_usage(&cmd_keys, "'%s' is not expected; there are pin, forget, revoke, restore and rotate",
				 argv[optind]);
	argv += optind + 1;
	n = argc - optind - 1;
	if (n > verb->n_max)
		return cli_usage(&cmd_keys, "'%s' is not expected", argv[verb->n_max]);
	if (n < verb->n_min)
		return cli_usage(&cmd_keys, "%s: %s is missing", verb->name, n ? "the key" : "the name of a host");
	if (n && (!*argv[0] || strlen(argv[0]) > NAME_CHARS))
		return cli_usage(&cmd_keys, "'%s' is no name of a host", argv[0]);
	if (n > 1 && strlen(argv[1]) != KEY_CHARS)
		return cli_usage(&cmd_keys, "'%s' is no key of a host: copy all %d characters that meshverbs keys shows there",
				 argv[1], KEY_CHARS);
	return give_order(cli, verb, n, argv);
}

const struct cli_command cmd_keys = {
	.name = "keys",
	.args = "[pin HOST KEY | forget HOST | revoke HOST [KEY] | restore HOST [KEY] | rotate] [-j]",
	.summary = "which key each host has, and whether it is believed",
	.help = "Without a fleet key hosts know each other by keys of their own. Prints the key of this host, and those of "
		"others: how\n"
		"each is known, since when, when its host was heard last, and whether it is authenticated. A key is its own "
		"fingerprint:\n"
		"compare all of it.\n\n"
		"  pin HOST KEY         HOST has to show KEY, whatever it has shown before\n"
		"  forget HOST          the next key that HOST shows as a neighbour is taken: for a host that was installed "
		"anew\n"
		"  revoke HOST [KEY]    the key of HOST, or this one, is never believed again\n"
		"  restore HOST [KEY]   undo that\n"
		"  rotate               this host gets another key, signed by the former one; nothing is interrupted\n"
		"  -j, --json           print JSON\n\n"
		"Only root and the agent's user may change something; that holds for this host alone.\n\n"
		"Exit status: 0; 1 a host shows another key than the known one or a revoked one, or this host has no\n"
		"identity and no fleet key, or a change cannot be written; 2 refused, wrong usage, or no agent.",
	.run = run,
};
