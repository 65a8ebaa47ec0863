/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_RESQP_H
#define MD_RESQP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bounds.h"

#include <infiniband/verbs.h>

/* What is kept of a device, so that not each question asks for all devices. */
struct md_resqp_device {
	char device[IBV_SYSFS_NAME_MAX];
	int index; /* the kernel's number of the device */
	uint32_t n_ports;
	uint32_t port; /* of the last queue pair that was found */
	uint64_t until_ns;
};

/*
 * Whose QP is it? As RDMA netlink says (`rdma resource show qp`), which needs no privilege. Kernels before 5.1, hosts without ib_core,
 * and network namespaces to which the device does not belong, cannot tell.
 */
struct md_resqp {
	int fd; /* NETLINK_RDMA; -1: not there */
	bool tells_threads; /* tgkill(2) says which process a thread is of */
	uint32_t seq;
	struct md_resqp_device known[MD_RAILS_MAX];
	size_t n_known, oldest;
};

/** md_resqp_open - never fails: without the socket nothing can be told */
void md_resqp_open(struct md_resqp *resqp);
void md_resqp_close(struct md_resqp *resqp);

/** md_resqp_forget - devices may have come and gone, or have other names */
void md_resqp_forget(struct md_resqp *resqp);

/** md_resqp_again - the same; and where it could not be opened: with the devices ib_core may have come */
void md_resqp_again(struct md_resqp *resqp);

/**
 * md_resqp_owner - the thread that made a QP: see md_resqp_is_of()
 * @now_ns: of a clock that is always the same
 *
 * The kernel answers at once, within the call. Where the thread has ended that made the QP: the thread that made its protection domain, or
 * its context.
 *
 * Return: its id in our PID namespace, which is the process's if it is the first one; 0: the kernel cannot be asked, also about a device
 * that it does not list; -ENOENT: there is no such QP on that device; -ESRCH: there is, but it is the kernel's, of a process that our PID
 * namespace does not have, of one that has ended, or bound to no port yet.
 */
pid_t md_resqp_owner(struct md_resqp *resqp, const char *device, uint32_t qpn, uint64_t now_ns);

/**
 * md_resqp_foreign - has any process queue pairs on a device that is not of one session, or the kernel connections?
 * @ours: that session; 0: none is left out
 *
 * Other queue pairs of the kernel do not count: it has some on each device.
 *
 * Return: 1, 0; -ENODATA: the kernel cannot be asked, also about a device that it does not list.
 */
int md_resqp_foreign(struct md_resqp *resqp, const char *device, pid_t ours, uint64_t now_ns);

/** md_resqp_is_of - is a thread, named by md_resqp_owner(), one of a process? Both are ids in our PID namespace, not 0. */
bool md_resqp_is_of(const struct md_resqp *resqp, pid_t thread, pid_t process);

/* What is asked for: a queue pair, its protection domain, its context. */
struct md_resqp_object {
	uint16_t command; /* RDMA_NLDEV_CMD_RES_*_GET */
	uint16_t id_attr;
	uint32_t id;
	uint16_t parent_attr; /* what the object belongs to */
};

/*
 * The parsers behind it: @len bytes of one answer, any content.
 * md_resqp_parse_device: Return: the index of the device of that name; -ENOENT; -EAGAIN: the answer goes on.
 * md_resqp_parse_owner: @ret_parent: id of the parent where nobody is named; 0: not told. Return: the pid; 0: no answer;
 *	-EAGAIN: not on that port; -ENOENT, -ESRCH: as md_resqp_owner().
 * md_resqp_parse_users: Return: how many threads were written to @ret, of those that made queue pairs which are not the kernel's, each as often as it
 *	made some; 0 for one that is not named, and for each connection of the kernel. *@ret_end: the dump is over.
 */
size_t md_resqp_parse_users(const void *buf, size_t len, pid_t *ret, size_t max, bool *ret_end);
int md_resqp_parse_device(const void *buf, size_t len, const char *device, uint32_t *ret_n_ports);
pid_t md_resqp_parse_owner(const void *buf, size_t len, const struct md_resqp_object *object, uint32_t *ret_parent);

#endif
