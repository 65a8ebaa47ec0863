/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_METRICS_H
#define MD_METRICS_H

#include "agent.h"

/* A metric of the agent. */
struct md_metric {
	const char *name; /* without "meshverbs_" and "_total" */
	const char *label, *label_value; /* NULL: no label */
	const char *help;
	bool counter; /* grows only; false: a gauge */
	uint64_t value;
};

#define MD_METRICS_MAX 192

/** md_metrics_gather - fill in all metrics, those of one name together; @ret: MD_METRICS_MAX. Return: their number */
size_t md_metrics_gather(const struct md_agent *agent, struct md_metric *ret);

/**
 * md_metrics_text - all metrics as OpenMetrics text
 *
 * Return: release with free(); NULL: no memory.
 */
char *md_metrics_text(const struct md_agent *agent, size_t *ret_len);

#endif
