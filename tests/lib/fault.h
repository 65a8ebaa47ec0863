/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TEST_FAULT_H
#define MV_TEST_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/*
 * Faults in what the engine calls. Every unit test is linked with --wrap for the functions below,
 * so calls from the code under test (not libc's own) come here first. Calls may come from any
 * thread; arming and disarming are for one thread alone.
 */
enum fault_call {
	FAULT_ALLOC, /* malloc, calloc, realloc, reallocarray */
	FAULT_SOCKET,
	FAULT_BIND,
	FAULT_SENDTO,
	FAULT_RECV,
	FAULT_RECVMSG,
	FAULT_GETSOCKNAME,
	FAULT_OPEN, /* open, openat */
	FAULT_READ,
	FAULT_WRITE,
	FAULT_FSTAT,
	FAULT_FDOPENDIR,
	FAULT_READDIR,
	FAULT_MMAP,
	FAULT_MADVISE,
	FAULT_MPROTECT,
	FAULT_PIPE2,
	FAULT_N_CALLS,
};

/**
 * fault_arm - let the @nth call (1..) fail with @err; nothing else fails
 *
 * Allocation fails with ENOMEM whatever @err says. Replaces what was armed before.
 */
void fault_arm(enum fault_call call, unsigned int nth, int err);
void fault_disarm(void);
/**
 * fault_one_thread - from now on calls of the calling thread count and may fail, and no others
 * @on: false: those of all threads again
 *
 * For tests of what has threads of its own: how many calls these make meanwhile is a matter of time.
 */
void fault_one_thread(bool on);
bool fault_fired(void); /* since fault_arm() */
unsigned int fault_count(enum fault_call call); /* calls since fault_arm() or fault_disarm() */

/* Takes the place of the real function while not NULL; faults come first. */
extern ssize_t (*fault_sendto_divert)(int fd, const void *buf, size_t len, int flags,
				      const struct sockaddr *addr, socklen_t addr_len);
extern ssize_t (*fault_recv_divert)(int fd, void *buf, size_t len, int flags);
extern ssize_t (*fault_recvmsg_divert)(int fd, struct msghdr *msg, int flags);

/* Open descriptors of this process: to see that none is left behind. */
unsigned int fault_open_fds(void);

/*
 * FAULT_EACH(call, err, statement) - run @statement with the first, second, ... call failing, until
 * it makes fewer calls than that. Afterwards faults are disarmed and it has run once without a
 * fault.
 */
#define FAULT_EACH(call, err, statement)                                                           \
	for (unsigned int fault_nth = 1, fault_more = 1; fault_more;                               \
	     fault_more = fault_fired(), fault_disarm(), fault_nth++) {                            \
		fault_arm(call, fault_nth, err);                                                   \
		statement;                                                                         \
	}

#endif
