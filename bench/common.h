/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the programs of this folder share. Errors end the program, with a line on standard error. One thread. */

/* What two ends tell each other about a queue pair. */
struct address {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

/** die - end the program with an error: its name, the text, and what errno means, if errno is not 0 */
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *fmt, ...);
/** need - die if @p is NULL. Return: @p. */
void *need(void *p, const char *what);
/** zero - die if @err, an errno or -1 with errno set, is not 0 */
void zero(int err, const char *what);

/** now_ns - CLOCK_MONOTONIC */
uint64_t now_ns(void);
/** own_bytes - memory of this process that it shares with none */
uint64_t own_bytes(void);

/** open_device - Return: the caller closes it */
struct ibv_context *open_device(const char *name);

/** listen_at - Return: a TCP socket of IPv4 that listens on any address; the caller closes it */
int listen_at(const char *port);
/** accept_one - wait for one connection, and close @listener. Return: the caller closes it. */
int accept_one(int listener);
/** connect_to - Return: the caller closes it */
int connect_to(const char *host, const char *port);
/** transfer - send (@out) or receive @n bytes. Return: false: the other end closed the connection before the first byte. */
bool transfer(int sock, void *data, size_t n, bool out);

#endif
