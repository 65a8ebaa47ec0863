/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_REPORTINT_H
#define MD_REPORTINT_H

#include <stdio.h>

#include "json_out.h"
#include "paths.h"
#include "report.h"

/* Shared by report*.c only. */

/** md_report_own_identity - name and keys of this host. Return: owned by the caller; NULL: no memory */
struct json_object *md_report_own_identity(const struct md_agent *agent);

/* Each writes one whole answer. @peer: the asker; only administrators see all queue pairs. */
void md_report_keys(const struct md_agent *agent, FILE *out);
void md_report_qualified(const struct md_agent *agent, FILE *out);
void md_report_probes(const struct md_agent *agent, FILE *out);
void md_report_qps(const struct md_agent *agent, const struct md_peer *peer, FILE *out);

#endif
