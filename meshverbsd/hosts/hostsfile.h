/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_HOSTSFILE_H
#define MD_HOSTSFILE_H

#include "pins.h"
#include "targets.h"

/*
 * The hosts file. Each line is: NAME ADDRESS... [key=KEY]. An address is an IP address or a GID; '#' begins a comment.
 * A key pins the host of that name: no other key is accepted.
 */

/** Called for each line that cannot be used. @line: from 1; 0: the file as a whole. @text: valid during the call. */
typedef void (*md_hostsfile_report)(void *arg, unsigned int line, const char *text);

/**
 * md_hostsfile_parse - add the addresses and keys of a text to @targets and @pins
 * @text: @len bytes, no NUL needed at the end
 *
 * A line that cannot be used is reported, and left out. Addresses that are zero, multicast or link-local cannot be
 * asked, so they are reported and left out, as are those beyond MD_FILE_ADDRS_MAX.
 *
 * Return: number of reports.
 */
unsigned int md_hostsfile_parse(struct md_targets *targets, struct md_pins *pins, const char *text, size_t len, md_hostsfile_report report,
				void *arg);

/**
 * md_hostsfile_load - read the file: it replaces what the file said before
 *
 * A file that does not exist counts as empty. A file that cannot be read, or is longer than 1 MiB, is reported with
 * line 0; then @targets and @pins stay as they are. Without its keys, anybody could be met under the names in the file.
 *
 * Return: number of reports.
 */
unsigned int md_hostsfile_load(struct md_targets *targets, struct md_pins *pins, const char *path, md_hostsfile_report report, void *arg);

#endif
