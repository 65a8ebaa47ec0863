// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Verdicts of trials, with reasons and figures. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

__attribute__((format(printf, 2, 0))) static void say(struct mv_qualified_trial *t, const char *fmt, va_list args)
{
	vsnprintf(t->reason, sizeof(t->reason), fmt, args);
}

#define VERDICT(NAME, VALUE)                                                                                                               \
	enum mv_trial_verdict NAME(struct mv_qualified_trial *t, const char *fmt, ...)                                                     \
	{                                                                                                                                  \
		va_list args;                                                                                                              \
                                                                                                                                           \
		va_start(args, fmt);                                                                                                       \
		say(t, fmt, args);                                                                                                         \
		va_end(args);                                                                                                              \
		return VALUE;                                                                                                              \
	}

VERDICT(q_fail, MV_TRIAL_FAIL)
VERDICT(q_unsure, MV_TRIAL_UNSURE)
VERDICT(q_skip, MV_TRIAL_SKIPPED)

enum mv_trial_verdict q_broken(struct mv_qualified_trial *t, const char *step, int err)
{
	return q_unsure(t, "%s: %s", step, strerror(-err));
}

void q_figure(struct mv_qualified_trial *t, const char *name, double value)
{
	struct mv_qualified_figure *f = NULL;

	for (size_t i = 0; i < t->n_figures; i++)
		if (!strcmp(t->figures[i].name, name))
			f = &t->figures[i];
	if (!f && t->n_figures == MV_QUALIFIED_FIGURES)
		return;
	if (!f)
		f = &t->figures[t->n_figures++];
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->value = value;
}
