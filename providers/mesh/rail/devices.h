/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DEVICES_H
#define MESH_DEVICES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Commands to the firmware of one NIC. Firmware that hangs blocks a thread for seconds per command, without a way to cancel.
 *
 * Each device has a queue of objects to destroy: MRs, QPs, CQs, PDs, contexts. A thread per device runs the queue, so a device
 * that hangs delays no other. Jobs run in the order of mesh_device_do(): MRs before their PD, QPs before their CQs, all before
 * the context.
 *
 * A record is made at the first use of a device's name, and never freed.
 */

struct mesh_device_job {
	struct mesh_device_job *next;
	void (*run)(struct mesh_device_job *job); /* may free it */
};

struct mesh_device;

/** mesh_device_get - the record of a device; any thread. Return: NULL: no memory; all functions accept NULL. */
struct mesh_device *mesh_device_get(const char *name);

/**
 * mesh_device_do - queue a job for the device's thread
 *
 * Any thread, with any locks held. Without memory or a thread the caller runs the job.
 */
void mesh_device_do(struct mesh_device *device, struct mesh_device_job *job);

/**
 * mesh_devices_settle - wait until all queued jobs are done
 *
 * Waits MESH_SETTLE_NS at most per device. Does not wait for a device after a wait in vain, until one of its jobs is fast again.
 * Remaining jobs run in the background. Any thread but those of devices; no lock of the plugin is held.
 */
void mesh_devices_settle(void);

#define MESH_SETTLE_NS 250000000ull
/* Interval to check whether a device answers again. */
#define MESH_STUCK_AGAIN_NS 10000000ull

/** mesh_device_open_begin, mesh_device_open_end - take and release open_lock: one thread at a time opens a device */
void mesh_device_open_begin(struct mesh_device *device);
void mesh_device_open_end(struct mesh_device *device);

/**
 * mesh_command_begin - the calling thread will give the device short commands: open it; make, modify, query or destroy QPs and
 * CQs
 *
 * Return: pass it to mesh_command_end().
 */
int mesh_command_begin(struct mesh_device *device);
void mesh_command_end(struct mesh_device *device, int command);

/**
 * mesh_device_stuck - has such a thread been waiting for longer than commands take?
 *
 * Then the next command would block, too. Any thread, with any locks held.
 */
bool mesh_device_stuck(struct mesh_device *device);

/** mesh_device_behind - mesh_device_stuck(), or a queued job takes long, as a large region may: make nothing in advance there */
bool mesh_device_behind(struct mesh_device *device);

#endif
