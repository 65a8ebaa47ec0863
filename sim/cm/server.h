/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The host's connection manager in simhostd: its clock, its sockets, its clients. Single-threaded.
 */
#ifndef SIM_CM_SERVER_H
#define SIM_CM_SERVER_H

#include "host.h"

struct cm_server;

/**
 * cm_server_open() - be there for programs and for other hosts from now on.
 *
 * @h must stay as long as the server. Return: 0 or -errno.
 */
int cm_server_open(struct host *h, struct cm_server **ret);

/** cm_server_close() - NULL is allowed. */
void cm_server_close(struct cm_server *s);

/** cm_server_fd() - poll it for input, then call cm_server_run(). */
int cm_server_fd(const struct cm_server *s);

/** cm_server_show() - a line for each identifier of the host; never empty. */
void cm_server_show(const struct cm_server *s, char *text, size_t size);

/** cm_server_run() - do what there is to do, without blocking. Return: milliseconds until it should
 * be called again at the latest, -1 for no need. */
int cm_server_run(struct cm_server *s);

#endif
