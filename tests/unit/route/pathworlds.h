/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_PATHWORLDS_H
#define UNIT_PATHWORLDS_H

#include "dirworld.h"
#include "pathfind.h"

/* Worlds (dirworld.h) in which paths are looked for, and what a program asks for there. */

/* One subnet, one switch: rails 0 and 1. */
#define PAIR_A                                                                                     \
	"host a; rail mlx5_0; gid fe80::a v1; gid fe80::a v2; gid 10.1.0.1/24 v1; gid "            \
	"10.1.0.1/24 v2;"
#define PAIR_B                                                                                     \
	"host b; rail mlx5_0; gid fe80::b v1; gid fe80::b v2; gid 10.1.0.2/24 v1; gid "            \
	"10.1.0.2/24 v2;"
#define PAIR PAIR_A PAIR_B "link 0 1;"

/* A triangle without a switch: a's rails 0 (to b) and 1 (to c), b's 2 and 3, c's 4 and 5. */
#define TRIANGLE                                                                                   \
	"host a; rail mlx5_0; gid 10.0.1.1/30 v2; rail mlx5_1; gid 10.0.3.1/30 v2;"                \
	"host b; rail mlx5_0; gid 10.0.1.2/30 v2; rail mlx5_1; gid 10.0.2.1/30 v2;"                \
	"host c; rail mlx5_0; gid 10.0.2.2/30 v2; rail mlx5_1; gid 10.0.3.2/30 v2;"                \
	"link 0 2; link 1 5;"

/* The same cables, and one subnet on all of them. */
#define FLAT_HOSTS                                                                                 \
	"host a; rail mlx5_0; gid 10.0.0.1/24 v2; rail mlx5_1; gid 10.0.0.2/24 v2;"               \
	"host b; rail mlx5_0; gid 10.0.0.3/24 v2; rail mlx5_1; gid 10.0.0.4/24 v2;"               \
	"host c; rail mlx5_0; gid 10.0.0.5/24 v2; rail mlx5_1; gid 10.0.0.6/24 v2;"
#define FLAT FLAT_HOSTS "link 0 2; link 1 5;"

/**
 * request_of - what @text asks for
 * @text: "DEVICE ADDRESS TYPE DESTINATION [routed|port2|made|proved|links|nobody|lidN]"
 * @device: gets DEVICE, which the request refers to
 */
struct mv_path_request request_of(const char *text, char device[64]);

#endif
