/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_RESQP_H
#define MD_RESQP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bounds.h"

#include <infiniband/verbs.h>

/*
 * Whose QP is it? As RDMA netlink says (`rdma resource show qp`), which needs no privilege. Kernels before 4.17,
 * and hosts without ib_core, cannot tell.
 */
struct md_resqp {
	int fd; /* NETLINK_RDMA; -1: not there */
	bool tells_threads; /* tgkill(2) says which process a thread is of */
	uint32_t seq;
	/* The kernel's numbers of devices, so that not each question asks for all devices. */
	struct {
		char device[IBV_SYSFS_NAME_MAX];
		int index;
		uint64_t until_ns;
	} known[MD_RAILS_MAX];
	size_t n_known, oldest;
};

/** md_resqp_open - never fails: without the socket nothing can be told */
void md_resqp_open(struct md_resqp *resqp);
void md_resqp_close(struct md_resqp *resqp);

/** md_resqp_forget - devices may have come and gone, or have other names */
void md_resqp_forget(struct md_resqp *resqp);

/**
 * md_resqp_owner - the thread that made a QP: see md_resqp_is_of()
 * @now_ns: of a clock that is always the same
 *
 * The kernel answers at once, within the call.
 *
 * Return: its id in our PID namespace, which is the process's if it is the first one; 0: the kernel cannot or does not say (also for
 * a device it does not know, and when that thread has ended); -ENOENT: there is no such QP on that device.
 */
pid_t md_resqp_owner(struct md_resqp *resqp, const char *device, uint32_t qpn, uint64_t now_ns);

/** md_resqp_is_of - is a thread, named by md_resqp_owner(), one of a process? Both are ids in our PID namespace, not 0. */
bool md_resqp_is_of(const struct md_resqp *resqp, pid_t thread, pid_t process);

/*
 * The parsers behind it: @len bytes of one answer, any content.
 * md_resqp_parse_device: Return: the index of the device of that name; -ENOENT; -EAGAIN: the answer goes on.
 * md_resqp_parse_owner: Return: as md_resqp_owner().
 */
int md_resqp_parse_device(const void *buf, size_t len, const char *device);
pid_t md_resqp_parse_owner(const void *buf, size_t len, uint32_t qpn);

#endif
