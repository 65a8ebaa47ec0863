// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "quirk_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const names[SIM_N_QUIRKS] = {
	[SIM_QUIRK_PSN_OFF_BY_ONE] = "psn-off-by-one", [SIM_QUIRK_PSN_HIGHEST] = "psn-highest",	  [SIM_QUIRK_PSN_MOVES] = "psn-moves",
	[SIM_QUIRK_PSN_MESSAGES] = "psn-messages",     [SIM_QUIRK_PSN_READS] = "psn-reads",	  [SIM_QUIRK_PSN_ATOMICS] = "psn-atomics",
	[SIM_QUIRK_PSN_COUNT] = "psn-count",	       [SIM_QUIRK_LATE_DMA] = "late-dma",	  [SIM_QUIRK_LATE_READS] = "late-reads",
	[SIM_QUIRK_LATE_SRQ] = "late-srq",	       [SIM_QUIRK_SRQ_HIDES] = "srq-hides",	  [SIM_QUIRK_LOST_FLUSH] = "lost-flush",
	[SIM_QUIRK_FLUSH_ORDER] = "flush-order",       [SIM_QUIRK_WQE_FORMAT] = "wqe-format",	  [SIM_QUIRK_ECE] = "ece",
	[SIM_QUIRK_LATE_DMABUF] = "late-dmabuf",	       [SIM_QUIRK_PUSHED_DMA] = "pushed-dma",	  [SIM_QUIRK_PUSHED_DMABUF] = "pushed-dmabuf",
};

static size_t append(char *out, size_t size, size_t used, const char *name)
{
	if (used < size)
		used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "", name);
	return used;
}

static int unknown(const char *name, char *why, size_t why_size)
{
	char all[256] = "";
	size_t used = 0;

	for (int q = 0; q < SIM_N_QUIRKS; q++)
		used = append(all, sizeof(all), used, names[q]);
	snprintf(why, why_size, "unknown quirk '%s'; known: %s; none", name, all);
	return -EINVAL;
}

int quirk_set(struct sim_dev *d, char *text, char *why, size_t why_size)
{
	char *save, *word = text ? strtok_r(text, " ", &save) : NULL;
	uint32_t quirks = 0;
	int q;

	if (!word)
		return unknown("", why, why_size);
	for (; word; word = strtok_r(NULL, " ", &save)) {
		for (q = 0; q < SIM_N_QUIRKS && strcmp(names[q], word) != 0; q++)
			;
		if (q < SIM_N_QUIRKS)
			quirks |= 1u << q;
		else if (strcmp(word, "none") != 0)
			return unknown(word, why, why_size);
	}
	atomic_store_explicit(&d->quirks, quirks, memory_order_relaxed);
	return 0;
}

size_t quirk_format(const struct sim_dev *d, char *out, size_t size)
{
	uint32_t quirks = atomic_load_explicit(&d->quirks, memory_order_relaxed);
	size_t used = 0;

	out[0] = '\0';
	for (int q = 0; q < SIM_N_QUIRKS; q++)
		if (quirks >> q & 1)
			used = append(out, size, used, names[q]);
	return used;
}
