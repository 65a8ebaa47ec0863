/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DETECT_H
#define MESH_DETECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * Signs by which a connection at work is found to need another path. All are used, and the first one decides. Tests switch off
 * all but one: MESHVERBS_DETECT lists those that stay on, separated by commas.
 */
enum mesh_detect {
	MESH_DETECT_CARRIER = 1, /* the directory says that a port at either end is down */
	MESH_DETECT_EVENT = 2, /* IBV_EVENT_PORT_ERR of this end's port */
	MESH_DETECT_PROBE = 4, /* the agent's probes */
	MESH_DETECT_RETRY = 8, /* a completion: retries exceeded */
	MESH_DETECT_PEER = 16, /* the peer's process says so */
	MESH_DETECT_ALL = 31,
};

/**
 * mesh_detect_parse - parse the value of MESHVERBS_DETECT
 * @text: NULL: all are on
 * @ret: mask of those that are off
 *
 * Return: false: an unknown word; @ret is written on success only.
 */
bool mesh_detect_parse(const char *text, unsigned int *ret);

/** mesh_detects - is that sign on in this process? */
bool mesh_detects(enum mesh_detect what);

#endif
