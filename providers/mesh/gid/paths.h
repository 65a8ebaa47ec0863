/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATHS_H
#define MESH_PATHS_H

#include <errno.h>

#include <string.h>

#include "context.h"
#include "decide.h"

/*
 * The source GID of a connection or address handle: keeps the GID tables of each context and the netdevs of the process current, and
 * asks the engine for the decision. Each function takes process->paths_lock. Any thread of the process that opened the context may call.
 */

/**
 * mesh_paths_open - read a new context's GID tables for the first time
 * @why: on failure, a sentence for the operator
 *
 * The program reads the same addresses when it looks for itself.
 *
 * Return: 0, -ENOTSUP when the library has no GID table query or the device no Ethernet or InfiniBand
 * port, -ENOMEM, or what the query returned.
 */
int mesh_paths_open(struct mesh_context *mc, struct ibv_context *verbs, char *why, size_t why_size);

/**
 * mesh_paths_close - release what mesh_paths_open() took
 */
void mesh_paths_close(struct mesh_context *mc);

/** mesh_paths_netdev - ifindex of the netdev of a GID table entry, as last read; 0: none in this network namespace */
uint32_t mesh_paths_netdev(struct mesh_context *mc, uint8_t port_num, uint8_t index);

/**
 * mesh_paths_refresh - read the GID tables again, remembering what was there before
 */
void mesh_paths_refresh(struct mesh_context *mc, struct ibv_context *verbs);

/* What to do with a connection or address handle, as far as this host can tell alone. */
struct mesh_choice {
	uint8_t index; /* to use: the program's own unless something else is clearly right */
	bool fits; /* packets from there reach the destination, as far as netdevs, prefixes and routes tell */
	/*
	 * Netdevs and GID tables were read for this choice, so it may be acted upon. Otherwise they may be out of date; if nothing could be
	 * looked up, @fits is false, which means nothing, and @gid may be old.
	 */
	bool sure;
	bool down; /* its netdev is down; without @sure: was */
	union ibv_gid gid; /* of the entry that the program means by its index; zero: not known */
	enum mv_gid_type type;
	union ibv_gid dgid; /* of the destination, which the program may have given by LID; zero: not known. Filled by connect/judge.c */
	bool differs; /* something else than "keep" was decided, whether or not it could be done */
	char why_not[512]; /* a line for the operator when this host alone can do nothing; "": no need */
};

/** mesh_choice_none - nothing is known, the program's index stays */
static inline void mesh_choice_none(struct mesh_choice *choice, uint8_t index)
{
	choice->index = index;
	choice->fits = false;
	choice->sure = false;
	choice->down = false;
	choice->differs = false;
	memset(&choice->gid, 0, sizeof(choice->gid));
	memset(&choice->dgid, 0, sizeof(choice->dgid));
	choice->type = MV_GID_TYPE_UNKNOWN;
	choice->why_not[0] = '\0';
}

/**
 * mesh_paths_choose - the source GID index to use towards a destination
 * @ah: the program's address, with is_global set
 * @transport: see mv_decide()
 * @sure: read everything now; if @ret->sure, any answer may be acted upon. Without @sure an answer that keeps the program's index may
 *        rest on earlier reads.
 *
 * To be called with cancellation off. A repair or replacement is logged. @why_not is not: the caller may have other means than this host
 * alone, and calls mesh_paths_why_not() if not.
 */
void mesh_paths_choose(struct mesh_context *mc, struct ibv_context *verbs, const struct ibv_ah_attr *ah,
		       enum mv_transport transport, bool sure, struct mesh_choice *ret);

/** mesh_paths_why_not - log @why_not, once per text */
void mesh_paths_why_not(const struct mesh_choice *choice);

/**
 * mesh_paths_watch - the helper thread is about to sleep until something changes
 * @ret_busy: set: another thread has paths_lock, and may wait long for the kernel's rtnl lock; try again soon
 *
 * Takes the changes until now. From here to mesh_paths_unwatch() a decision needs no system call to know that nothing has changed. Never
 * waits.
 *
 * Return: descriptor to poll for POLLIN, good until mesh_paths_unwatch(); -1: nothing to watch now.
 */
int mesh_paths_watch(bool *ret_busy);
/** mesh_paths_unwatch - the helper thread is awake and busy: each decision looks for changes itself */
void mesh_paths_unwatch(void);

#define MESH_PATHS_TWINS 8 /* entries with one address that are looked at */

/**
 * mesh_paths_towards - which of several entries with one address, of several netdevs of a port, leads to a destination?
 * @entries: @n, at least one
 *
 * Compares the prefixes of netdevs as last read. Asks the kernel nothing, and never waits. Any thread.
 *
 * Return: one of @entries; the first one where nothing is known.
 */
const struct mv_gid_entry *mesh_paths_towards(const struct mv_gid_entry *entries, size_t n, const union ibv_gid *dgid);

/**
 * mesh_paths_find - index of a GID of a port as last read
 * @ret_index: stays as it is if the GID is there, as it may be at several; else as mesh_paths_towards() has it
 *
 * Return: 0 or -ENOENT.
 */
int mesh_paths_find(struct mesh_context *mc, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		    const union ibv_gid *dgid, uint8_t *ret_index);

/**
 * mesh_paths_refusal - the errno for the program where RTR failed with the right index and with its own
 * @right: errno with the right index
 * @own: errno with the program's own index, as without the plugin
 *
 * ENODATA (its own entry is empty) gives way to ETIMEDOUT, which is why the path is dead.
 */
static inline int mesh_paths_refusal(int right, int own)
{
	return own == ENODATA && right == ETIMEDOUT ? right : own;
}

/**
 * mesh_paths_lack - has a GID gone from a port's table, and is nothing in its place?
 * @verbs: the device, open
 * @index: where the program has it
 *
 * Reads the table. Return: false also where the table cannot be read.
 */
bool mesh_paths_lack(struct mesh_context *mc, struct ibv_context *verbs, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		     uint8_t index);

#endif
