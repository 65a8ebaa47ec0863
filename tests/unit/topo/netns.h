/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_NETNS_H
#define UNIT_NETNS_H

#include <stdbool.h>

/*
 * A network namespace of the test's own: as root, or in a user namespace where the kernel allows those.
 * Return: false, with a line that says why: the test exits with 77.
 */
bool netns_enter(void);

/* Runs an ip(8) command line. Return: what system(3) does. */
int netns_ip(const char *args);

#endif
