/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_RAILEVENTS_H
#define MESH_RAILEVENTS_H

#include <poll.h>

#include "rails.h"

/**
 * mesh_rail_events - relay completion events of a rail to the program's CQs
 *
 * Helper thread, after mesh_rail_intact(). Return: true: there were datagrams, whose peers may have to be asked now.
 */
bool mesh_rail_events(struct mesh_rail *rail);
/**
 * mesh_rails_poll - ppoll(), and relay completion events of rails at once
 * @fds: @n_fixed of other kinds, then for each rail its completion channel and its asynchronous events
 * @until_ns: latest return, mesh_now_ns()
 * @turn_ns: after that, return with the first event, too
 *
 * The program waits for each event. A full turn of the helper thread takes some twenty system calls; this loop takes four per
 * event: ppoll(), a check whether the channel is still the rail's, and two reads, of which the second finds nothing. Helper
 * thread.
 *
 * Return: as ppoll(). Events left in @fds are for the caller, though some may have been read already.
 */
int mesh_rails_poll(struct pollfd *fds, size_t n_fixed, struct mesh_rail *const *rails, size_t n_rails, uint64_t until_ns,
		    uint64_t turn_ns);
/** mesh_read_rail_events - read events of read_rails[@i]; @events: of its channel, and asynchronous ones; helper thread */
void mesh_read_rail_events(size_t i, const struct pollfd events[2]);
/** mesh_check_read_rails - drop rails whose descriptors were closed or reused by the program; helper thread */
void mesh_check_read_rails(void);

#endif
