/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_QUALIFY_FILES_H
#define TOOL_QUALIFY_FILES_H

#include "cli.h"
#include "qualified.h"

/* The verdicts of this host, /var/lib/meshverbs/qualified (verdicts.h), for `meshverbs qualify`. What is wrong has been said. */

/** qualify_keep - put one with the others, if this user may, else say that to people; Return: CLI_OK, also where it may not, or CLI_ERROR */
int qualify_keep(const struct cli *cli, const struct mv_qualified *q);

/** qualify_export - all of them as a JSON list to a file, "-": stdout; Return: CLI_OK; CLI_ATTENTION: some were left out; CLI_ERROR */
int qualify_export(const struct cli *cli, const char *file);

/** qualify_import - such a list, or one verdict; each takes the place of the one on its combination; Return: CLI_OK or CLI_ERROR */
int qualify_import(const struct cli *cli, const char *file);

#endif
