/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTBENCH_NUMA_H
#define TESTBENCH_NUMA_H

#include <stdbool.h>
#include <stddef.h>

/* NUMA nodes, by system calls and sysfs: no libnuma. */

/**
 * numa_other_node - choose a node with memory where this process does not get its memory by default
 * @sysfs: root of sysfs, "/sys"
 * @device: RDMA device
 * @own: node where the process gets its memory, numa_node_of(); negative: unknown
 *
 * Prefers the node of the device: then memory near the device and memory far from it are tried. Thread-safe.
 *
 * Return: the node; -1: there is none, or @own is unknown.
 */
int numa_other_node(const char *sysfs, const char *device, int own);

/** numa_node_of - node of the page at @at, which has been touched. Thread-safe. Return: the node; -1: unknown */
int numa_node_of(const void *at);

/**
 * numa_place - have the pages of a mapping come from a node, as long as the node has memory
 * @at: page-aligned; @bytes of a private mapping that have not been touched
 *
 * Other nodes stand in for a node without free memory, so nothing is killed for lack of memory. numa_is_on() tells.
 * Thread-safe.
 *
 * Return: 0 or -errno of mbind(2): -EPERM in containers that forbid the call, -ENOSYS without NUMA
 */
int numa_place(void *at, size_t bytes, int node);

/** numa_is_on - are all pages of the range, page-aligned and touched, on the node? Thread-safe. */
bool numa_is_on(const void *at, size_t bytes, int node);

#endif
