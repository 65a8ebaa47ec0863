/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef BENCH_CABLE_H
#define BENCH_CABLE_H

#include <stdatomic.h>
#include <stdint.h>

/* The cable that is pulled under the traffic. */

/* What the cable tells; in a file that its process and those of the traffic map. */
struct fault {
	_Atomic uint64_t down_ns; /* the netdev is down since then at the latest */
	_Atomic uint64_t number; /* of the fault, written last */
};

/** map_fault - Return: mapped until the process ends; the file is made if it is missing */
struct fault *map_fault(const char *file);
/** cable - pull and plug what standard input names, until its end. Return: 0. */
int cable(const char *file, const char *netns);

#endif
