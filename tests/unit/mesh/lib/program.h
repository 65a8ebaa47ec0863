/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "context.h"
#include "fakeverbs.h"
#include "fault.h"

/*
 * A verbs program on a made-up libibverbs, lower provider provider and network, with the plugin loaded as its
 * constructor would. The host has eth0 (ifindex 2) with 10.1.0.1/24 and 10.9.0.1/24, and eth0.5 (ifindex 3)
 * with 10.5.0.1/24; its device mlx5_0 has 10.1.0.1 at GID index 1 and 10.5.0.1 at 2.
 *
 * What the netlink collector reads is replaced with --wrap, and so is the clock; the sockets are real.
 */
extern struct fakeverbs fake;
extern struct ibv_device device;
extern const struct fake_config usual;
extern int open_error; /* of opening netlink, while not 0 */
extern int route_error; /* of a route look-up, while not 0 */
extern unsigned int n_fills; /* how often netdevs and addresses were read */
extern int notice_fd; /* a socket in place of the one for changes, which nobody reads; -1: none */
extern uint64_t notice_ino; /* its inode */
extern _Atomic unsigned int n_follows; /* how often changes were looked for */

union ibv_gid gid(const char *text);
void set_gid(size_t at, uint32_t index, const char *text, uint32_t ifindex);

/* Load the plugin into the made-up library of that file. */
void start(const char *library, const struct fake_config *config);

/* The address of index 1 comes back at index 4, as after ip addr del; ip addr add. */
void flap(void);
/* What flap() consists of, for those to whom the order matters: the kernel fills its table after netlink has told. */
void move_gid(void);
void announce_change(void);
/* What can be followed without reading all anew: another address of eth0 or eth0.5; a route, which none is. */
void announce_addr(uint32_t ifindex, const char *text);
void announce_route(void);
/* One that is not told of, and dumps have. */
void add_untold_addr(uint32_t ifindex, const char *text);

extern uint64_t clock_ns; /* what the plugin takes for the time; 0: the real one */

/* sgid_index with which the lower provider came to be called, or -errno. */
int connect_from(struct ibv_context *context, unsigned int index, const char *to);
int address_from(struct ibv_context *context, unsigned int index, const char *to);

/* Hooks stay, so a test body runs in a process of its own and fails the test unless that exits with 0. */
void run(void (*body)(void));

#define TEST(name)                                                                                         \
	static void test_##name(void **state)                                                              \
	{                                                                                                  \
		(void)state;                                                                               \
		run(name);                                                                                 \
	}

#endif
