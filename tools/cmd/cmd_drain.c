// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs drain and undrain: take a device out of use, moving the work on it, and put it back. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <json-c/json.h>

#include "agentask.h"
#include "cli.h"
#include "dirview.h"
#include "shell_word.h"

#define TIMEOUT_S_DEFAULT 60
#define TIMEOUT_S_MAX     86400

#define LOOK_NS 100000000ull
/* Processes report changes within milliseconds; so many equal reports in a row are believed. */
#define LOOKS_TO_BELIEVE 10
/*
 * The device must be unused for so long. A move to it that was agreed upon before the drain takes at most as long
 * (default move_timeout_ms, for the agreement and again for the synchronisation), and is reported a little later.
 */
#define EMPTY_NS 5000000000ull
/* Time in which processes register with a restarted agent. */
#define SETTLED_MS 2000

enum use {
	USE_NONE, /* on another device, or not connected */
	USE_MOVING, /* can be moved, as far as is known */
	USE_BOUND, /* only the program's end takes it away */
};

struct drain {
	struct cli *cli;
	const char *device;
	uint64_t until_ns;
	struct json_object *answer; /* the last answer to "qps" */
	size_t n_moving, n_bound;
	uint64_t empty_since_ns; /* 0: not empty, or not certain */
	bool safe, timed_out;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static bool is(const char *text, const char *word)
{
	return text && !strcmp(text, word);
}

static bool is_datagrams(struct json_object *qp)
{
	return agent_number(qp, "type", -1) == IBV_QPT_UD;
}

/* Has the process said that the queue pair stays? */
static bool is_bound(struct json_object *qp, struct json_object *status)
{
	struct json_object *movable = agent_member(status, "movable", json_type_boolean);

	return is_datagrams(qp) || (movable && !json_object_get_boolean(movable));
}

static enum use use_of(struct json_object *qp, const char *device)
{
	struct json_object *status = agent_member(qp, "status", json_type_object);
	const char *state = agent_text(status, "state");
	bool moved = is(state, "moved");
	const char *at = moved ? agent_text(status, "rail") : agent_text(qp, "device");

	if (is(state, "init") || (is(state, "failed") && !is_datagrams(qp)))
		return USE_NONE;
	/* Datagrams of a queue pair are received on its own device, even if some leave by another. */
	if (!is(at, device) && !(is_datagrams(qp) && is(agent_text(qp, "device"), device)))
		return USE_NONE;
	return is_bound(qp, status) ? USE_BOUND : USE_MOVING;
}

static size_t n_qps(const struct drain *drain)
{
	return json_object_array_length(agent_member(drain->answer, "qps", json_type_array));
}

static struct json_object *qp_at(const struct drain *drain, size_t i)
{
	return json_object_array_get_idx(agent_member(drain->answer, "qps", json_type_array), i);
}

static int look(struct drain *drain)
{
	struct json_object *answer;
	enum use use;
	size_t i;
	int rc;

	rc = agent_ask(drain->cli, "qps", "qps", json_type_array, &answer);
	if (rc)
		return rc;
	json_object_put(drain->answer);
	drain->answer = answer;
	drain->n_moving = drain->n_bound = 0;
	for (i = 0; i < n_qps(drain); i++) {
		use = use_of(qp_at(drain, i), drain->device);
		drain->n_moving += use == USE_MOVING;
		drain->n_bound += use == USE_BOUND;
	}
	return 0;
}

/* Does the directory tell processes that the device is drained? Until then connections come to it. */
static bool is_announced(const struct drain *drain)
{
	const struct mv_dir_rail *rail;
	struct dirview view;
	bool announced = true;

	if (dirview_read(drain->cli, &view))
		return false;
	for (uint32_t r = 0; r < view.dir.hosts[0].n_rails; r++) {
		rail = &view.dir.rails[view.dir.hosts[0].first_rail + r];
		if (!strcmp(rail->device, drain->device) && !(rail->flags & MV_RAIL_DRAINED))
			announced = false;
	}
	mv_directory_close(&view.dir);
	return announced;
}

/* Does the agent name all queue pairs? */
static bool is_complete(const struct drain *drain)
{
	int64_t up_ms = agent_number(drain->answer, "up_ms", SETTLED_MS);

	return up_ms >= SETTLED_MS && agent_number(drain->answer, "qps_left_out", 0) == 0;
}

static bool is_safe(struct drain *drain)
{
	if (drain->n_moving || drain->n_bound || !is_complete(drain) || !is_announced(drain))
		drain->empty_since_ns = 0;
	else if (!drain->empty_since_ns)
		drain->empty_since_ns = now_ns();
	return drain->empty_since_ns && now_ns() - drain->empty_since_ns >= EMPTY_NS;
}

/* Waits until nothing uses the device, or only what cannot move, or time is up. */
static int wait_empty(struct drain *drain)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	unsigned int n_stuck = 0;
	int rc;

	for (;;) {
		rc = look(drain);
		/* The agent may be busy for a moment, and says so. */
		if (rc && rc != -EBADMSG)
			return rc;
		if (!rc) {
			drain->safe = is_safe(drain);
			n_stuck = drain->n_moving || !drain->n_bound ? 0 : n_stuck + 1;
		}
		if (drain->safe || n_stuck >= LOOKS_TO_BELIEVE)
			return 0;
		if (now_ns() >= drain->until_ns) {
			drain->timed_out = true;
			return drain->answer ? 0 : rc;
		}
		nanosleep(&pause, NULL);
	}
}

static const char *why_of(struct json_object *qp)
{
	struct json_object *status = agent_member(qp, "status", json_type_object);
	const char *why = agent_text(status, "why");

	if (is_datagrams(qp))
		return "datagrams (UD) are received where the program made the queue pair";
	if (why)
		return why;
	return status ? "has not moved in time" : "its process has not said what it does";
}

static void show_left(struct out *out, const struct drain *drain)
{
	struct json_object *qp;
	enum use use;
	size_t i;

	out_list(out, "qps", "Queue pairs that use it");
	for (i = 0; i < n_qps(drain); i++) {
		qp = qp_at(drain, i);
		use = use_of(qp, drain->device);
		if (use == USE_NONE)
			continue;
		out_row(out);
		out_uint(out, "pid", "PID", (uint64_t)agent_number(qp, "pid", 0));
		out_text(out, "comm", "PROGRAM", OUT_PLAIN, agent_text(qp, "comm"));
		out_text(out, "device", "DEV", OUT_PLAIN, agent_text(qp, "device"));
		out_uint(out, "qpn", "QPN", (uint64_t)agent_number(qp, "qpn", 0));
		out_bool(out, "movable", "MOVABLE", use == USE_MOVING);
		out_text(out, "why", "WHY", OUT_WARN, why_of(qp));
	}
	out_list_end(out);
}

static int show(const struct drain *drain)
{
	struct out *out = cli_out(drain->cli);
	bool safe = drain->safe;

	if (!out)
		return CLI_ERROR;
	out_text(out, "device", NULL, OUT_PLAIN, drain->device);
	out_bool(out, "drained", NULL, true);
	out_bool(out, "safe", NULL, safe);
	out_bool(out, "timed_out", NULL, drain->timed_out);
	if (safe)
		out_textf(out, NULL, drain->device, OUT_GOOD,
			  "drained, safe to pull: no connection that the agent knows of uses it");
	else if (!drain->n_moving && !drain->n_bound)
		out_text(out, NULL, drain->device, OUT_BAD,
			 "drained, not safe to pull: the time is up before it is certain that "
			 "nothing uses it");
	else
		out_textf(out, NULL, drain->device, OUT_BAD,
			  "drained, not safe to pull: %zu queue pairs still use it%s",
			  drain->n_moving + drain->n_bound,
			  drain->timed_out ? ", and the time is up" : "");
	show_left(out, drain);
	if (!safe)
		out_textf(
			out, NULL, "What to do", OUT_PLAIN,
			"%s, or take it back: meshverbs undrain %s",
			drain->n_moving + drain->n_bound ? "end these programs and drain again"
							 : "drain again",
			MV_SHELL(drain->device));
	return cli_finish(out, safe ? CLI_OK : CLI_ATTENTION);
}

/* Return: 0; CLI_ERROR, after an error message. */
static int order(struct cli *cli, const char *verb, const char *device, bool force)
{
	struct json_object *object = json_object_new_object(), *answer = NULL;
	int rc;

	if (object) {
		json_object_object_add(object, "do", json_object_new_string(verb));
		json_object_object_add(object, "device", json_object_new_string(device));
		json_object_object_add(object, "force", json_object_new_boolean(force));
	}
	rc = agent_order(cli, object, "drained", json_type_boolean, &answer);
	if (rc) {
		agent_ask_error(cli, rc, "a word on draining");
		return CLI_ERROR;
	}
	if (agent_text(answer, "error")) {
		cli_error("%s", agent_text(answer, "error"));
		rc = CLI_ERROR;
	}
	json_object_put(answer);
	return rc;
}

/* The argument after the options. Return: 0; CLI_ERROR, after an error message. */
static int device_of(const struct cli_command *command, int argc, char **argv, const char **ret)
{
	if (optind == argc)
		return cli_usage(command, "an RDMA device is missing");
	if (optind + 1 < argc)
		return cli_usage(command, "'%s' is not expected", argv[optind + 1]);
	*ret = argv[optind];
	return 0;
}

static int run_drain(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{"timeout", required_argument, NULL, 't'},
		{"force", no_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	unsigned long timeout_s = TIMEOUT_S_DEFAULT;
	struct drain drain = {.cli = cli};
	bool force = false;
	int opt, rc;

	/* Options may also follow the device. */
	while ((opt = cli_option(cli, &cmd_drain, argc, argv, ":t:fjh", options, &rc)) != -1) {
		if (opt == -2)
			return rc;
		if (opt == 'f')
			force = true;
		else if (cli_uint(optarg, TIMEOUT_S_MAX, &timeout_s))
			return cli_usage(&cmd_drain, "--timeout '%s' is not a number of seconds",
					 optarg);
	}
	rc = device_of(&cmd_drain, argc, argv, &drain.device);
	if (rc)
		return rc;
	rc = order(cli, "drain", drain.device, force);
	if (rc)
		return rc;
	drain.until_ns = now_ns() + timeout_s * 1000000000ull;
	rc = wait_empty(&drain);
	if (rc) {
		agent_ask_error(cli, rc, "queue pairs");
		rc = CLI_ERROR;
	} else {
		rc = show(&drain);
	}
	json_object_put(drain.answer);
	return rc;
}

static int run_undrain(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *device;
	struct out *out;
	int rc;

	if (cli_option(cli, &cmd_undrain, argc, argv, ":jh", options, &rc) == -2)
		return rc;
	rc = device_of(&cmd_undrain, argc, argv, &device);
	if (rc)
		return rc;
	rc = order(cli, "undrain", device, false);
	if (rc)
		return rc;
	out = cli_out(cli);
	if (!out)
		return CLI_ERROR;
	out_text(out, "device", NULL, OUT_PLAIN, device);
	out_bool(out, "drained", NULL, false);
	out_textf(out, NULL, device, OUT_GOOD,
		  "in use again; what left it returns after hold_down_ms");
	return cli_finish(out, CLI_OK);
}

const struct cli_command cmd_drain = {
	.name = "drain",
	.args = "DEV [-t SECONDS] [-f] [-j]",
	.summary = "move all connections off a device, and say when it may be pulled",
	.help = "Has the agent announce the ports of this RDMA device as down, here and to all "
		"hosts: connections\n"
		"that can be moved (survive = on, at both ends) leave it while they are at work, "
		"and "
		"new ones go\n"
		"elsewhere. Then waits until none has used it for five seconds, or names those "
		"that stay and why. It stays\n"
		"drained, also when the agent is restarted, until it is undrained or the host is "
		"booted. Only root\n"
		"and the agent's user may do that.\n\n"
		"  -t, --timeout SECONDS  how long to wait (60)\n"
		"  -f, --force            also if no other port of this host is up\n"
		"  -j, --json             print JSON\n\n"
		"Exit status: 0 safe to pull; 1 drained, but queue pairs still use it; 2 refused, "
		"wrong usage,\n"
		"or no agent.",
	.run = run_drain,
};

const struct cli_command cmd_undrain = {
	.name = "undrain",
	.args = "DEV [-j]",
	.summary = "take a drained device back into use",
	.help = "The opposite of drain: connections that were made on it return when it has worked "
		"for\n"
		"hold_down_ms (mesh.conf).\n\n"
		"  -j, --json   print JSON\n\n"
		"Exit status: 0; 2 refused, wrong usage, or no agent.",
	.run = run_undrain,
};
