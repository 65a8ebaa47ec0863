/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_QUALIFY_FILES_H
#define TOOL_QUALIFY_FILES_H

#include "cli.h"
#include "qualified.h"

/* Verdicts of this host, /var/lib/meshverbs/qualified (verdicts.h), for `meshverbs qualify`. All functions print their errors. */

/**
 * qualify_keep - store a verdict if the user may, else print that it is not kept
 * @gpu: memory of a GPU was tried. A run without does not replace a verdict that failed with such memory.
 *
 * Return: CLI_OK in both cases; CLI_ATTENTION: the device stays failed; CLI_ERROR
 */
int qualify_keep(const struct cli *cli, const struct mv_qualified *q, bool gpu);

/**
 * qualify_export - write all verdicts as a JSON list to a file; "-": stdout. Return: CLI_OK; CLI_ATTENTION: some were
 * left out; CLI_ERROR
 */
int qualify_export(const struct cli *cli, const char *file);

/**
 * qualify_import - store the verdicts of such a list, or a single one, replacing those of the same combinations.
 * Return: CLI_OK or CLI_ERROR
 */
int qualify_import(const struct cli *cli, const char *file);

#endif
