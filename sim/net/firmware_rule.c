// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "firmware_rule.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[SIM_N_FW] = {
	[SIM_FW_OPEN] = "open",	    [SIM_FW_QUERY] = "query", [SIM_FW_CREATE] = "create", [SIM_FW_MODIFY] = "modify",
	[SIM_FW_REG_MR] = "reg_mr", [SIM_FW_DEREG] = "dereg", [SIM_FW_DESTROY] = "destroy",
};

/* Return: 0: none has that name. */
static int kind_of(const char *name)
{
	int kind = SIM_N_FW - 1;

	while (kind && strcmp(names[kind], name) != 0)
		kind--;
	return kind;
}

/* Return: whether all of them are known. @chosen: SIM_N_FW */
static bool choose(char *kinds, bool *chosen, char *why, size_t why_size)
{
	char *save, *name;
	int kind;

	for (name = strtok_r(kinds, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		kind = kind_of(name);
		if (!kind) {
			snprintf(why, why_size, "unknown command '%s'; known: open query create modify reg_mr dereg destroy", name);
			return false;
		}
		chosen[kind] = true;
	}
	return true;
}

/* Return: whether @text is a number of up to @most. */
static bool number(const char *text, unsigned long long most, uint32_t *ret)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	*ret = (uint32_t)value;
	return end != text && !*end && !errno && *text != '-' && value <= most;
}

int firmware_set(struct sim_dev *d, char *text, char *why, size_t why_size)
{
	bool chosen[SIM_N_FW] = {false}, some = false, timed = false, right = true;
	uint32_t us = 0, at_once = 0;
	char *save, *word;
	int kind;

	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (!strncmp(word, "us=", 3)) {
			timed = number(word + 3, UINT32_MAX, &us);
		} else if (!strncmp(word, "at-once=", 8)) {
			right &= number(word + 8, SIM_FW_AT_ONCE, &at_once);
		} else if (!strncmp(word, "command=", 8)) {
			some = true;
			if (!choose(word + 8, chosen, why, why_size))
				return -EINVAL;
		} else {
			right = false;
		}
	}
	if (!timed || !right) {
		snprintf(why, why_size, "write: firmware us=N [at-once=N] [command=KIND,...], with at-once up to %d", SIM_FW_AT_ONCE);
		return -EINVAL;
	}
	for (kind = 1; kind < SIM_N_FW; kind++)
		if (chosen[kind] || !some)
			atomic_store_explicit(&d->firmware_us[kind], us, memory_order_relaxed);
	atomic_store_explicit(&d->firmware_at_once, at_once, memory_order_relaxed);
	/* What waits now begins anew. */
	for (kind = 0; kind < SIM_FW_AT_ONCE; kind++)
		atomic_store_explicit(&d->firmware_free_ns[kind], 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&d->firmware_setting, 1, memory_order_release);
	return 0;
}

size_t firmware_format(const struct sim_dev *d, char *out, size_t size)
{
	size_t used = 0;
	uint32_t us;
	int kind;

	out[0] = '\0';
	for (kind = 1; kind < SIM_N_FW; kind++) {
		us = atomic_load_explicit(&d->firmware_us[kind], memory_order_relaxed);
		if (us && used < size)
			used += (size_t)snprintf(out + used, size - used, "%s%s=%u", used ? " " : "", names[kind], us);
	}
	us = atomic_load_explicit(&d->firmware_at_once, memory_order_relaxed);
	if (us && used && used < size)
		used += (size_t)snprintf(out + used, size - used, " at-once=%u", us);
	if (used && used < size)
		used += (size_t)snprintf(out + used, size - used, " commands=%" PRIu64,
					 atomic_load_explicit(&d->firmware_commands, memory_order_relaxed));
	return used;
}
