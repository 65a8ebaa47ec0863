/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_REPORTINT_H
#define MD_REPORTINT_H

#include <stdio.h>

#include "json_out.h"
#include "paths.h"
#include "report.h"

/* What the files of the report share. */

/** md_report_own_identity - the name and the keys of this host's agent; for who shows them. Return: NULL without memory */
struct json_object *md_report_own_identity(const struct md_agent *agent);

/* Each writes one whole answer. @peer: who asks: only administrators see queue pairs of others */
void md_report_keys(const struct md_agent *agent, FILE *out);
void md_report_qualified(const struct md_agent *agent, FILE *out);
void md_report_probes(const struct md_agent *agent, FILE *out);
void md_report_qps(const struct md_agent *agent, const struct md_peer *peer, FILE *out);

#endif
