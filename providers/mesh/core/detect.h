/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DETECT_H
#define MESH_DETECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * By what a connection at work is found to need another path. All count, and the first one decides; tests switch off all but the
 * one that they are about: MESHVERBS_DETECT names those that are left, with commas between them.
 */
enum mesh_detect {
	MESH_DETECT_CARRIER = 1, /* the directory: a port at either end is down */
	MESH_DETECT_EVENT = 2, /* IBV_EVENT_PORT_ERR of our port */
	MESH_DETECT_PROBE = 4, /* the agent's probes */
	MESH_DETECT_RETRY = 8, /* a completion: retries exceeded */
	MESH_DETECT_PEER = 16, /* the peer's process says so */
	MESH_DETECT_ALL = 31,
};

/**
 * mesh_detect_parse - the value of MESHVERBS_DETECT
 * @text: NULL: all
 * @ret: mask of those that do not count
 *
 * Return: false for a word that is none of them; @ret is written on success only.
 */
bool mesh_detect_parse(const char *text, unsigned int *ret);

/** mesh_detects - does that one count in this process? */
bool mesh_detects(enum mesh_detect what);

#endif
