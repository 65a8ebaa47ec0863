/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_REPORT_H
#define MD_REPORT_H

#include "agent.h"

/** md_report_answer - md_controls.answer(): @arg is the agent */
char *md_report_answer(void *arg, const char *name, const struct md_peer *peer, size_t *ret_len);

/** md_report_is_long - md_controls.is_long(): reports whose size others can increase */
bool md_report_is_long(const char *name);

#endif
