// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "firmware_rule.h"

#include <errno.h>
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

int firmware_set(struct sim_dev *d, char *text, char *why, size_t why_size)
{
	bool chosen[SIM_N_FW] = {false}, some = false, timed = false;
	unsigned long long us = 0;
	char *save, *word, *end;
	int kind;

	for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (!strncmp(word, "us=", 3)) {
			us = strtoull(word + 3, &end, 10);
			timed = end != word + 3 && !*end && us <= UINT32_MAX;
		} else if (!strncmp(word, "command=", 8)) {
			some = true;
			if (!choose(word + 8, chosen, why, why_size))
				return -EINVAL;
		} else {
			timed = false;
			break;
		}
	}
	if (!timed) {
		snprintf(why, why_size, "write: firmware us=N [command=KIND,...]");
		return -EINVAL;
	}
	for (kind = 1; kind < SIM_N_FW; kind++)
		if (chosen[kind] || !some)
			atomic_store_explicit(&d->firmware_us[kind], (uint32_t)us, memory_order_relaxed);
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
	return used;
}
