/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATHS_H
#define MESH_PATHS_H

#include <errno.h>

#include <string.h>

#include "context.h"
#include "decide.h"

/*
 * Source GID of a connection or address handle. Keeps the GID tables of each context, and the netdevs of the process, up to date,
 * and has the engine decide. All functions take process->paths.lock. Thread: any of the process that opened the context.
 */

/**
 * mesh_paths_open - read a new context's GID tables for the first time
 * @why: written on failure, a sentence for the operator
 *
 * The program reads the same tables when it looks for itself.
 *
 * Return: 0; -ENOTSUP: the library has no GID table query, or the device no Ethernet or InfiniBand port; -ENOMEM; -errno of the
 * query.
 */
int mesh_paths_open(struct mesh_context *mc, struct ibv_context *verbs, char *why, size_t why_size);

/** mesh_paths_close - free what mesh_paths_open() allocated */
void mesh_paths_close(struct mesh_context *mc);

/** mesh_paths_refresh - read the GID tables again, and keep a history of former entries */
void mesh_paths_refresh(struct mesh_context *mc, struct ibv_context *verbs);

/* Decision for a connection or address handle, by the knowledge of this host alone. */
struct mesh_choice {
	uint8_t index; /* index to use: the program's, unless another is clearly right */
	bool fits; /* packets from there reach the destination, by netdevs, prefixes and routes */
	/*
	 * Netdevs and GID tables were read for this choice, so it may be acted on. Otherwise they may be outdated. If nothing
	 * could be looked up, @fits is false without meaning, and @gid may be old.
	 */
	bool sure;
	bool down; /* its netdev is down; without @sure: was down */
	union ibv_gid gid; /* of the entry that the program means by its index; zero: not known */
	enum mv_gid_type type;
	union ibv_gid dgid; /* of the destination, also if given by LID; zero: not known. Written by connect/decide.c */
	bool differs; /* the decision is not "keep", even if it could not be carried out */
	char why_not[512]; /* line for the operator if this host alone cannot help; "": none */
};

/** mesh_choice_none - nothing is known: keep the program's index */
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
 * mesh_paths_choose - choose the source GID index for a destination
 * @ah: the program's, with is_global set
 * @transport: see mv_decide()
 * @sure: read everything now; if @ret->sure is set, any result may be acted on. Without @sure, a result that keeps the program's
 * index may rest on earlier reads.
 *
 * Cancellation is off. Logs a repair or replacement. Does not log @why_not: the caller may have other means, and otherwise calls
 * mesh_paths_why_not().
 */
void mesh_paths_choose(struct mesh_context *mc, struct ibv_context *verbs, const struct ibv_ah_attr *ah,
		       enum mv_transport transport, bool sure, struct mesh_choice *ret);

/** mesh_paths_why_not - log @why_not, once per text */
void mesh_paths_why_not(const struct mesh_choice *choice);

/**
 * mesh_paths_watch - the helper thread is about to sleep until something changes
 * @ret_busy: written: another thread has process->paths.lock, perhaps for long because of the kernel's rtnl lock; try again soon
 *
 * Processes changes so far. Until mesh_paths_unwatch(), decisions need no system call to know that nothing has changed. Never
 * blocks.
 *
 * Return: descriptor to poll for POLLIN, valid until mesh_paths_unwatch(); -1: nothing to watch now.
 */
int mesh_paths_watch(bool *ret_busy);
/** mesh_paths_unwatch - the helper thread is awake: each decision looks for changes itself */
void mesh_paths_unwatch(void);

#define MESH_PATHS_TWINS 8 /* limit of entries with the same GID */

/**
 * mesh_paths_towards - which of several entries with one GID, of different netdevs of a port, leads to a destination?
 * @entries: array of @n, at least one
 *
 * Compares prefixes of netdevs as last read. Makes no system call, and never blocks. Any thread.
 *
 * Return: one of @entries; the first if nothing is known.
 */
const struct mv_gid_entry *mesh_paths_towards(const struct mv_gid_entry *entries, size_t n, const union ibv_gid *dgid);

/**
 * mesh_paths_find - index of a GID of a port, as last read
 * @ret_index: in: preferred index, kept if it has the GID; out: else as mesh_paths_towards()
 *
 * Return: 0 or -ENOENT.
 */
int mesh_paths_find(struct mesh_context *mc, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		    const union ibv_gid *dgid, uint8_t *ret_index);

/**
 * mesh_paths_refusal - errno for the program, if RTR failed with the right index and with the program's
 * @right: errno with the right index
 * @own: errno with the program's own index, as without the plugin
 *
 * ENODATA (the own entry is empty) is replaced by ETIMEDOUT, the reason why the path is dead.
 */
static inline int mesh_paths_refusal(int right, int own)
{
	return own == ENODATA && right == ETIMEDOUT ? right : own;
}

/**
 * mesh_paths_lack - has a GID gone from a port's table, with no replacement in its entry?
 * @verbs: the device, open
 * @index: the program's
 *
 * Reads the table. Return: false also if the table cannot be read.
 */
bool mesh_paths_lack(struct mesh_context *mc, struct ibv_context *verbs, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		     uint8_t index);

#endif
