/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The socket on which simhostd takes faults: one request a connection, one datagram each way. */
#ifndef SIM_CONTROL_H
#define SIM_CONTROL_H

#include "host.h"

#define CONTROL_BYTES 65536

/** control_listen() - the listening socket at @path. Return: a file descriptor, or -errno. */
int control_listen(const char *path);

/** control_accept() - take and answer one request of those waiting at @fd. Return: 0 or -errno of
 * accepting. */
int control_accept(struct host *h, int fd);

/**
 * control_answer() - carry out one request.
 * @request: "status", "cm" (identifiers of the connection manager), or "DEV ACTION ..." with what `sim fault --help` lists; is cut up.
 * @answer: text to send back, never empty; starts with "error: " if the request cannot be.
 */
void control_answer(struct host *h, char *request, char *answer, size_t size);

#endif
