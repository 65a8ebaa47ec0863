/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "qualify.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *md_qualify_state_name(enum md_qualify_state state)
{
	static const char *const names[] = {
		[MD_QUALIFY_UNKNOWN] = "unknown",   [MD_QUALIFY_NONE] = "none",	    [MD_QUALIFY_QUALIFIED] = "qualified",
		[MD_QUALIFY_FAILED] = "failed", [MD_QUALIFY_UNSURE] = "unsure", [MD_QUALIFY_REFUSED] = "refused",
	};

	return names[state];
}

const char *md_qualify_why_not(const struct mv_config *config)
{
	if (config->mode != MV_MODE_ON)
		return "mode is not on";
	return config->moves ? NULL : "moves = off";
}

void md_qualify_found(struct md_qualify_device *device, const struct mv_qualified_key *key)
{
	if (mv_qualified_same_key(&device->key, key))
		return;
	device->key = *key;
	device->state = MD_QUALIFY_NONE;
	device->time_s = 0;
	device->tries = 0;
	device->again_ns = 0;
	device->why[0] = '\0';
}

void md_qualify_counted(struct md_qualify_device *device, uint64_t words)
{
	device->still = device->words && words + 1 - device->words <= MD_QUALIFY_WORDS_MAX;
	device->words = words + 1;
}

/* The first failed trial; without one, the first unsure trial. */
static const struct mv_qualified_trial *find_trial(const struct mv_qualified *q)
{
	enum mv_trial_verdict wanted = q->verdict == MV_VERDICT_FAILED ? MV_TRIAL_FAIL : MV_TRIAL_UNSURE;

	for (size_t i = 0; i < q->n_trials; i++)
		if (q->trials[i].verdict == wanted)
			return &q->trials[i];
	return NULL;
}

static enum md_qualify_state state_of(const struct mv_qualified *q)
{
	if (q->verdict == MV_VERDICT_QUALIFIED)
		return MD_QUALIFY_QUALIFIED;
	return q->verdict == MV_VERDICT_FAILED ? MD_QUALIFY_FAILED : MD_QUALIFY_UNSURE;
}

void md_qualify_decided(struct md_qualify_device *device, int err, const struct mv_qualified *q, const char *why)
{
	const struct mv_qualified_trial *trial = err ? NULL : find_trial(q);

	device->state = !err ? state_of(q) : err == -ENOENT ? MD_QUALIFY_NONE : MD_QUALIFY_REFUSED;
	device->time_s = err ? 0 : q->time_s;
	snprintf(device->trial, sizeof(device->trial), "%s", trial ? trial->name : "");
	snprintf(device->assumption, sizeof(device->assumption), "%s", trial ? trial->assumption : "");
	snprintf(device->reason, sizeof(device->reason), "%s", trial ? trial->reason : "");
	if (err != -ENOENT)
		snprintf(device->why, sizeof(device->why), "%s", err ? why : "");
}

void md_qualify_ended(struct md_qualify_device *device, enum md_qualify_end end, const char *why, uint64_t now_ns)
{
	snprintf(device->why, sizeof(device->why), "%s", end == MD_QUALIFY_CANNOT ? why : "");
	if (end == MD_QUALIFY_INTERRUPTED) {
		device->again_ns = now_ns + MD_QUALIFY_RETRY_NS;
		return;
	}
	device->tries++;
	device->again_ns = device->tries < MD_QUALIFY_TRIES ? now_ns + device->tries * MD_QUALIFY_AGAIN_NS : UINT64_MAX;
}

bool md_qualify_is_due(const struct md_qualify_device *device, uint64_t now_ns)
{
	return (device->state == MD_QUALIFY_NONE || device->state == MD_QUALIFY_UNSURE) && device->again_ns <= now_ns;
}
