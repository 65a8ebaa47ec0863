/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_HOSTSFILE_H
#define MD_HOSTSFILE_H

#include "pins.h"
#include "targets.h"

/*
 * The hosts file: NAME ADDRESS... [key=KEY] on each line, addresses as IP addresses or GIDs; '#' begins a comment. With a key, a host
 * of that name has to have it.
 */

/** Called for each line that cannot be used; @line 0: for the file as a whole. */
typedef void (*md_hostsfile_report)(void *arg, unsigned int line, const char *text);

/**
 * md_hostsfile_parse - take the addresses of a text
 * @text: @len bytes, need not end in NUL
 *
 * Lines that cannot be used are reported and left out; so are addresses beyond MD_FILE_ADDRS_MAX, zero, multicast and
 * link-local ones, for which nobody can be asked.
 *
 * Return: number of reports.
 */
unsigned int md_hostsfile_parse(struct md_targets *targets, struct md_pins *pins, const char *text, size_t len, md_hostsfile_report report,
				void *arg);

/**
 * md_hostsfile_load - read the file
 *
 * One that does not exist is no error. One that cannot be read, or is longer than 1 MiB, is reported with line 0.
 */
unsigned int md_hostsfile_load(struct md_targets *targets, struct md_pins *pins, const char *path, md_hostsfile_report report, void *arg);

#endif
