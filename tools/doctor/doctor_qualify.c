// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: have this host's devices qualified, so that connections at work may leave them? */
#include <string.h>

#include <json-c/json.h>

#include "agentask.h"
#include "doctor.h"
#include "shell_word.h"

static char *again(const char *device)
{
	return words("while nothing uses RDMA: meshverbs qualify %s; or survive = on (off) in mesh.conf, which asks no verdict",
		     MV_SHELL(device));
}

static void find_failed(struct doctor *d, const char *device, struct json_object *row)
{
	const char *reason = agent_text(row, "reason");

	doctor_find(d, DOCTOR_NOTE, words("%s", device),
		    words("it has not qualified: \"%s\" does not hold (%s%s%s); connections at work stay on it, and none moves to it",
			  agent_text(row, "assumption"), agent_text(row, "trial"), reason ? ": " : "", reason ? reason : ""),
		    words("nothing has to be done: its programs have what they have without meshverbs; after an update of firmware, kernel or libmlx5 "
			  "it is tried again, and at any time by meshverbs qualify %s",
			  MV_SHELL(device)));
}

static void find_unknown(struct doctor *d, const char *device, const char *state, struct json_object *row)
{
	const char *why = agent_text(row, "why"), *waits = agent_text(d->qualified, "waits");

	if (!strcmp(state, "refused"))
		doctor_find(d, DOCTOR_ACTION, words("%s", device), words("the verdict on it is not believed: %s", why),
			    words("correct or remove that file in /var/lib/meshverbs/qualified"));
	else if (!strcmp(state, "unsure"))
		doctor_find(d, DOCTOR_NOTE, words("%s", device),
			    words("whether it qualifies is not certain (%s: %s); connections at work stay on it", agent_text(row, "trial"),
				  agent_text(row, "reason")),
			    again(device));
	else
		doctor_find(d, DOCTOR_NOTE, words("%s", device),
			    words("nobody has found out whether it qualifies%s%s; connections at work stay on it", why || waits ? ": " : "",
				  why ? why : waits ? waits : ""),
			    again(device));
}

static void check_device(struct doctor *d, struct json_object *row)
{
	const char *device = agent_text(row, "device"), *state = agent_text(row, "state");

	if (!device || !state || !strcmp(state, "qualified") || !strcmp(state, "unknown") || agent_flag(row, "running"))
		return;
	if (!strcmp(state, "failed"))
		find_failed(d, device, row);
	else
		find_unknown(d, device, state, row);
}

bool doctor_moves_at_work(const struct doctor *d)
{
	struct json_object *rows = agent_member(d->qualified, "devices", json_type_array);
	const struct mv_config *config = &d->status.config;
	bool some = false;
	size_t i;

	for (i = 0; rows && i < json_object_array_length(rows) && !some; i++) {
		const char *state = agent_text(json_object_array_get_idx(rows, i), "state");

		some = state && !strcmp(state, "qualified");
	}
	return config->survive == MV_SURVIVE_ON || (config->survive == MV_SURVIVE_AUTO && config->qualify != MV_QUALIFY_NEVER && some);
}

static void check_qualified(struct doctor *d)
{
	struct json_object *rows = agent_member(d->qualified, "devices", json_type_array);
	size_t i;

	if (d->status.config.survive != MV_SURVIVE_AUTO || d->status.config.qualify == MV_QUALIFY_NEVER || d->status.config.mode != MV_MODE_ON ||
	    !d->status.config.moves)
		return;
	if (!d->qualified) {
		doctor_skip(d, d->container ? "the agent answers on the host only" : "no agent answers");
		return;
	}
	for (i = 0; rows && i < json_object_array_length(rows); i++)
		check_device(d, json_object_array_get_idx(rows, i));
}

const struct doctor_check doctor_qualify_checks[] = {
	{"qualified", "whether devices have qualified (survive = auto)",
	 "Connections at work leave a dead port only where the device has been seen to do what that rests on.", check_qualified},
	{0},
};
