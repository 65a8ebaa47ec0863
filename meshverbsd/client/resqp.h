/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_RESQP_H
#define MD_RESQP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bounds.h"

#include <infiniband/verbs.h>

/* Cached facts about a device, so that not every question lists all devices. */
struct md_resqp_device {
	char device[IBV_SYSFS_NAME_MAX];
	int index; /* the kernel's index of the device */
	uint32_t n_ports;
	uint32_t port; /* port of the last QP that was found */
	uint64_t until_ns;
};

/*
 * Owners of QPs, from RDMA netlink (as `rdma resource show qp`), which needs no privilege. Not available: kernels
 * before 5.1, hosts without ib_core, network namespaces that the device does not belong to. Not thread-safe.
 */
struct md_resqp {
	int fd; /* NETLINK_RDMA; -1: not available */
	bool tells_threads; /* tgkill(2) tells the process of a thread */
	uint32_t seq;
	struct md_resqp_device known[MD_RAILS_MAX];
	size_t n_known, oldest;
};

/** md_resqp_open - open the socket. Never fails: without it nothing is known */
void md_resqp_open(struct md_resqp *resqp);
void md_resqp_close(struct md_resqp *resqp);

/** md_resqp_forget - drop cached facts: devices may have come, gone or been renamed */
void md_resqp_forget(struct md_resqp *resqp);

/** md_resqp_again - the same, and open the socket if it is not open: ib_core may have been loaded with the devices */
void md_resqp_again(struct md_resqp *resqp);

/**
 * md_resqp_owner - the thread that created a QP: see md_resqp_is_of()
 * @now_ns: always of the same clock
 *
 * Does not block: the kernel answers within the call. If that thread has ended: the thread that created the protection
 * domain, or the context.
 *
 * Return: thread id in our PID namespace, which is the PID for a first thread; 0: the kernel cannot be asked, or does
 * not list the device; -ENOENT: no such QP on the device; -ESRCH: the QP is the kernel's, or of a process that our PID
 * namespace does not have, or that has ended, or not bound to a port yet.
 */
pid_t md_resqp_owner(struct md_resqp *resqp, const char *device, uint32_t qpn, uint64_t now_ns);

/**
 * md_resqp_foreign - do processes outside one session have QPs on the device, or does the kernel have connections?
 * @ours: that session; 0: none
 *
 * Other QPs of the kernel do not count: it has some on each device.
 *
 * Return: 1; 0; -ENODATA: the kernel cannot be asked, or does not list the device.
 */
int md_resqp_foreign(struct md_resqp *resqp, const char *device, pid_t ours, uint64_t now_ns);

/** md_resqp_is_of - is a thread from md_resqp_owner() one of a process? Both are ids in our PID namespace, not 0. */
bool md_resqp_is_of(const struct md_resqp *resqp, pid_t thread, pid_t process);

/* Object of a question: a QP, its protection domain, or its context. */
struct md_resqp_object {
	uint16_t command; /* RDMA_NLDEV_CMD_RES_*_GET */
	uint16_t id_attr;
	uint32_t id;
	uint16_t parent_attr; /* attribute with the id of the object's parent */
};

/*
 * Parsers, exported for tests: @len bytes of one answer, any content. md_resqp_parse_device: Return: index of the
 * device of that name; -ENOENT; -EAGAIN: the answer continues. md_resqp_parse_owner: @ret_parent: id of the parent if
 * no owner is named; 0: not told. Return: the pid; 0: no answer; -EAGAIN: not on that port; -ENOENT, -ESRCH: as
 * md_resqp_owner(). md_resqp_parse_users: Return: number of threads written to @ret: the creator of each QP that is not
 * the kernel's, 0 if not named; and 0 for each connection of the kernel. *@ret_end: end of the dump.
 */
size_t md_resqp_parse_users(const void *buf, size_t len, pid_t *ret, size_t max, bool *ret_end);
int md_resqp_parse_device(const void *buf, size_t len, const char *device, uint32_t *ret_n_ports);
pid_t md_resqp_parse_owner(const void *buf, size_t len, const struct md_resqp_object *object, uint32_t *ret_parent);

#endif
