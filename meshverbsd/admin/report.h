/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_REPORT_H
#define MD_REPORT_H

#include "agent.h"

/** md_report_answer - for struct md_controls: @arg is the agent */
char *md_report_answer(void *arg, const char *name, const struct md_peer *peer, size_t *ret_len);

/** md_report_is_long - for struct md_controls: the reports that grow with what others do */
bool md_report_is_long(const char *name);

#endif
