/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DEVICES_H
#define MESH_DEVICES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Commands to the firmware of one NIC. A firmware that hangs keeps a thread for seconds in each command, and nothing ends that earlier.
 *
 * Each device has a queue of its own for what is destroyed there: MRs, QPs, CQs, PDs, contexts. A thread of that device runs the queue, so a
 * device that hangs delays nobody else. The order is that of mesh_device_do(): MRs before their PD, QPs before their CQs, all before the context.
 *
 * A record is made with the first use of a device's name, and stays.
 */

struct mesh_device_job {
	struct mesh_device_job *next;
	void (*run)(struct mesh_device_job *job); /* may free it */
};

struct mesh_device;

/** mesh_device_get - the record of a device; any thread. Return: NULL: no memory; the functions below take that */
struct mesh_device *mesh_device_get(const char *name);

/**
 * mesh_device_do - have the device's own thread run a job, behind those that it has
 *
 * Any thread, any lock. Without memory or a thread for it the caller runs it.
 */
void mesh_device_do(struct mesh_device *device, struct mesh_device_job *job);

/**
 * mesh_devices_settle - wait until all that was given to the devices is done
 *
 * MESH_SETTLE_NS at most for each device; not at all for one that was waited for in vain, until one of its jobs takes less time. The rest of
 * the queue is run in the background then. Any thread but those of devices, no lock of ours.
 */
void mesh_devices_settle(void);

#define MESH_SETTLE_NS 250000000ull
/* When to look again whether a device answers. */
#define MESH_STUCK_AGAIN_NS 10000000ull

/** mesh_device_open_begin, mesh_device_open_end - by whoever opens the device, one at a time: takes its open_lock, and gives it back */
void mesh_device_open_begin(struct mesh_device *device);
void mesh_device_open_end(struct mesh_device *device);

/**
 * mesh_command_begin - the calling thread is about to give the device short commands: to make, change, query or destroy QPs and CQs, to open it
 *
 * Return: for mesh_command_end().
 */
int mesh_command_begin(struct mesh_device *device);
void mesh_command_end(struct mesh_device *device, int command);

/**
 * mesh_device_stuck - has such a thread been at it for longer than commands take?
 *
 * Then the next one would be stuck as well. Any thread, any lock.
 */
bool mesh_device_stuck(struct mesh_device *device);

/** mesh_device_behind - likewise, or a job of its queue takes long, as a large region may: nothing is made there that nobody needs yet */
bool mesh_device_behind(struct mesh_device *device);

#endif
