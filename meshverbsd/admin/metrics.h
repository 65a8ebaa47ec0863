/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_METRICS_H
#define MD_METRICS_H

#include "agent.h"

/* A figure of the agent. */
struct md_metric {
	const char *name; /* without "meshverbs_" and "_total" */
	const char *label, *label_value; /* NULL: none */
	const char *help;
	bool counter; /* grows only; otherwise a gauge */
	uint64_t value;
};

#define MD_METRICS_MAX 192

/** md_metrics_gather - all of them, those of one name together; returns how many */
size_t md_metrics_gather(const struct md_agent *agent, struct md_metric *ret);

/**
 * md_metrics_text - OpenMetrics text
 *
 * Return: malloc()ed; NULL without memory.
 */
char *md_metrics_text(const struct md_agent *agent, size_t *ret_len);

#endif
