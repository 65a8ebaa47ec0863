/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATHS_H
#define MESH_PATHS_H

#include <errno.h>

#include <string.h>

#include "context.h"
#include "decide.h"

/*
 * Between the verbs objects and the engine's decision: keeps the GID tables of each context and the
 * netdevs of the process current, and asks. Everything here takes process->paths_lock itself and may be
 * called from any thread of a process whose generation the context has.
 */

/**
 * mesh_paths_open - read a new context's GID tables for the first time
 * @why: on failure, a sentence for the operator
 *
 * These are the addresses the program will read when it looks for itself.
 *
 * Return: 0, -ENOTSUP when the library has no GID table query or the device no Ethernet or InfiniBand
 * port, -ENOMEM, or what the query returned.
 */
int mesh_paths_open(struct mesh_context *mc, struct ibv_context *verbs, char *why, size_t why_size);

/**
 * mesh_paths_close - release what mesh_paths_open() took
 */
void mesh_paths_close(struct mesh_context *mc);

/**
 * mesh_paths_refresh - read the GID tables again, remembering what was there before
 */
void mesh_paths_refresh(struct mesh_context *mc, struct ibv_context *verbs);

/* What to do with a connection or address handle, as far as this host can tell alone. */
struct mesh_choice {
	uint8_t index; /* to use: the program's own unless something else is clearly right */
	bool fits; /* packets from there reach the destination, as far as netdevs, prefixes and routes tell */
	/*
	 * Netdevs and GID tables were read for it. Else they may be as they were a moment ago, or nothing could be looked up: then @fits is
	 * false, which says nothing, and @gid may be old. Only what is sure may be acted upon.
	 */
	bool sure;
	bool down; /* its netdev is down, perhaps as of a moment ago */
	union ibv_gid gid; /* what the program means by its index; zero: not known */
	enum mv_gid_type type;
	union ibv_gid dgid; /* what the program means as destination, be it by a LID; zero: not known. Of who judges a connection */
	bool differs; /* something else than "keep" was decided, whether or not it could be done */
	char why_not[512]; /* a line for the operator when nothing can be done alone; "": there is no need */
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
 * @sure: to be acted upon whatever it says, if @ret->sure. Else it may rest on what was read earlier, as long as it says
 *        that the program's own index stays.
 *
 * To be called with cancellation off. A repair or replacement is logged; @why_not is left to the caller, who may know more than this host
 * does alone.
 */
void mesh_paths_choose(struct mesh_context *mc, struct ibv_context *verbs, const struct ibv_ah_attr *ah,
		       enum mv_transport transport, bool sure, struct mesh_choice *ret);

/** mesh_paths_why_not - write that line, once per text */
void mesh_paths_why_not(const struct mesh_choice *choice);

/**
 * mesh_paths_watch - the helper thread is about to sleep until something changes
 *
 * @ret_busy: set: somebody is deciding, and the kernel may have him wait for its locks for long, as connections that move must not;
 *            to be tried again soon
 *
 * Takes what has changed until now. Until mesh_paths_unwatch() decisions need no system call to know that nothing else did. Never waits.
 *
 * Return: descriptor to poll for POLLIN, good until mesh_paths_unwatch(); -1: nothing to watch now.
 */
int mesh_paths_watch(bool *ret_busy);
/** mesh_paths_unwatch - it is awake, and may be long with something else: who decides, looks */
void mesh_paths_unwatch(void);

#define MESH_PATHS_TWINS 8 /* so many entries with one address are looked at */

/**
 * mesh_paths_towards - which of several entries with one address, of several netdevs of a port, leads to a destination?
 * @entries: @n, at least one
 *
 * By what is known of netdevs and their prefixes; the kernel is not asked, and nobody waited for. Any thread.
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
 * mesh_paths_refusal - what the program is told where neither the right index nor its own could be connected with
 * @right: errno with the former
 * @own: with the latter: what it would have been told without us
 *
 * But that its own entry is empty is not why the path is dead.
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
 * Reads the table. Return: false as well where that cannot be done.
 */
bool mesh_paths_lack(struct mesh_context *mc, struct ibv_context *verbs, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		     uint8_t index);

#endif
