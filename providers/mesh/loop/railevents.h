/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_RAILEVENTS_H
#define MESH_RAILEVENTS_H

#include <poll.h>

#include "rails.h"

/**
 * mesh_rail_events - completion events of a rail become events of the programs' CQs; railevents.c
 *
 * Helper thread, after mesh_rail_intact(). Return: whether there were datagrams among them, whose peers may have to be asked now.
 */
bool mesh_rail_events(struct mesh_rail *rail);
/**
 * mesh_rails_poll - ppoll(), and relay completion events of rails as they come
 * @fds: @n_fixed that are not of rails, then for each rail its completion channel and its asynchronous events
 * @until_ns: when to return at the latest
 * @turn_ns: with the first event after that, return, too
 *
 * A program waits for each of these events, and a turn of the helper thread takes some twenty system calls. Here an event takes four: ppoll(),
 * a look whether the channel is the rail's, and two reads, of which the second finds nothing. Helper thread.
 *
 * Return: as ppoll(). What is left in @fds is for the caller, who may find that events there have been read.
 */
int mesh_rails_poll(struct pollfd *fds, size_t n_fixed, struct mesh_rail *const *rails, size_t n_rails, uint64_t until_ns,
		    uint64_t turn_ns);
/** mesh_read_rail_events - there are events of read_rails[@i]; @events: of the channel, and the asynchronous ones; helper thread */
void mesh_read_rail_events(size_t i, const struct pollfd events[2]);
/** mesh_check_read_rails - those whose descriptors are not theirs any more are lost; helper thread */
void mesh_check_read_rails(void);

#endif
