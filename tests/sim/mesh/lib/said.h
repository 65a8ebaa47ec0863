/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_SAID_H
#define SIM_MESH_SAID_H

#include <stdbool.h>

#include "directory_client.h"

/*
 * Instead of an agent and of the helper thread, of which there is none in these tests: what directory_client.h and
 * thread.h would say. Whoever links said.c has those functions wrapped (simmesh_said() of CMakeLists.txt).
 */
struct said {
	bool agent; /* there is one */
	struct mesh_path_decision decision; /* of whatever path */
	int wake; /* errno of starting the helper thread; 0: it runs */
	_Atomic bool woken; /* set by each waking, from whatever thread */
};

/* All but @woken is for the test to set while nobody else asks. There is no agent, unless it says so. */
extern struct said said;

#endif
