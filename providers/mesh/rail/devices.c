// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mesh.h"
#include "ourthreads.h"

#define IDLE_SECONDS 10
/*
 * Firmware that has not answered for this time hangs. A command takes some 60 us, opening a device some 10 ms, and a busy machine
 * delays a thread as long. Less than LOOK_US of handoff.c, so that a new helper thread knows which device hangs.
 */
#define STUCK_NS   100000000ull
#define BEHIND_NS  50000000ull /* a queued job may be a large region: make nothing in advance meanwhile */
#define N_COMMANDS 8

struct mesh_device {
	struct mesh_device *next; /* constant, as @name */
	char name[IBV_SYSFS_NAME_MAX];
	MESH_LOCK(DEVICE_OPEN) open_lock; /* taken before rails_lock */
	MESH_LOCK(DEVICE) lock; /* innermost; guards the rest */
	pthread_cond_t work, done;
	struct mesh_device_job *first, **end;
	unsigned int n_pending; /* queued, or running */
	uint64_t job_ns; /* begin of the running job; 0: none */
	bool thread, idle;
	bool slow; /* a wait was in vain */
	uint64_t commands[N_COMMANDS]; /* begin of each; 0: none */
};

/* ---- records ------------------------------------------------------------------------------------------------- */

static struct mesh_device *device_new(const char *name)
{
	struct mesh_device *device = calloc(1, sizeof(*device));
	pthread_condattr_t attr;

	if (!device)
		return NULL;
	strncpy(device->name, name, sizeof(device->name) - 1);
	mesh_lock_init(&device->open_lock);
	mesh_lock_init(&device->lock);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&device->work, &attr);
	pthread_cond_init(&device->done, &attr);
	pthread_condattr_destroy(&attr);
	device->end = &device->first;
	return device;
}

struct mesh_device *mesh_device_get(const char *name)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_device *device;
	int cancel = mesh_cancel_off();

	mesh_lock(&process->devices.lock);
	for (device = process->devices.all; device && strcmp(device->name, name) != 0; device = device->next)
		;
	if (!device) {
		device = device_new(name);
		if (device) {
			device->next = process->devices.all;
			process->devices.all = device;
		}
	}
	mesh_unlock(&process->devices.lock);
	mesh_cancel_restore(cancel);
	return device;
}

MV_LOCKS_UNCHECKED void mesh_device_open_begin(struct mesh_device *device)
{
	mesh_lock(&device->open_lock);
}

MV_LOCKS_UNCHECKED void mesh_device_open_end(struct mesh_device *device)
{
	mesh_unlock(&device->open_lock);
}

/* ---- the queue ----------------------------------------------------------------------------------------------- */

static struct timespec after(uint64_t ns)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	ns += (uint64_t)at.tv_nsec;
	at.tv_sec += (time_t)(ns / 1000000000ull);
	at.tv_nsec = (long)(ns % 1000000000ull);
	return at;
}

/* Called with the lock, which is released meanwhile. */
static void run_first(struct mesh_device *device) MV_REQUIRES(&device->lock);
static void run_first(struct mesh_device *device)
{
	struct mesh_device_job *job = device->first;
	uint64_t begun_ns = mesh_now_ns();

	device->job_ns = begun_ns;
	device->first = job->next;
	if (!device->first)
		device->end = &device->first;
	mesh_unlock(&device->lock);
	job->run(job);
	mesh_lock(&device->lock);
	if (mesh_now_ns() < begun_ns + MESH_SETTLE_NS)
		device->slow = false;
	device->job_ns = 0;
	device->n_pending--;
	if (!device->n_pending)
		pthread_cond_broadcast(&device->done);
}

/* Called with the lock. Return: false: no job came for IDLE_SECONDS. */
static bool wait_for_job(struct mesh_device *device) MV_REQUIRES(&device->lock);
static bool wait_for_job(struct mesh_device *device)
{
	struct timespec until = after(IDLE_SECONDS * 1000000000ull);
	int err = 0;

	device->idle = true;
	while (!device->first && err != ETIMEDOUT)
		err = mesh_cond_wait_until(&device->work, &device->lock, &until);
	device->idle = false;
	return device->first;
}

static void *work(void *arg)
{
	struct mesh_device *device = arg;

	pthread_setname_np(pthread_self(), "meshverbs-nic");
	mesh_lock(&device->lock);
	do
		while (device->first)
			run_first(device);
	while (wait_for_job(device));
	device->thread = false;
	mesh_unlock(&device->lock);
	return NULL;
}

void mesh_device_do(struct mesh_device *device, struct mesh_device_job *job)
{
	int saved_errno = errno, cancel = mesh_cancel_off();
	bool runs = false;

	if (device) {
		mesh_lock(&device->lock);
		if (!device->thread)
			device->thread = !mesh_thread_start(work, device);
		runs = device->thread;
		if (runs) {
			job->next = NULL;
			*device->end = job;
			device->end = &job->next;
			device->n_pending++;
			if (device->idle)
				pthread_cond_signal(&device->work);
		}
		mesh_unlock(&device->lock);
	}
	if (!runs)
		job->run(job);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

static void settle(struct mesh_device *device)
{
	struct timespec until = after(MESH_SETTLE_NS);
	int err = 0;

	mesh_lock(&device->lock);
	while (device->n_pending && !device->slow && err != ETIMEDOUT)
		err = mesh_cond_wait_until(&device->done, &device->lock, &until);
	if (device->n_pending && !device->slow) {
		device->slow = true;
		pthread_cond_broadcast(&device->done); /* other waiters stop, too */
		mv_log(&mesh_root.log, MV_LOG_WARN, "the firmware of %s does not answer: what is there for moves goes when it does", device->name);
	}
	mesh_unlock(&device->lock);
}

void mesh_devices_settle(void)
{
	int saved_errno = errno, cancel = mesh_cancel_off();
	struct mesh_process *process = mesh_root.process;
	struct mesh_device *device;

	mesh_lock(&process->devices.lock);
	device = process->devices.all;
	mesh_unlock(&process->devices.lock);
	for (; device; device = device->next)
		settle(device);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

/* ---- commands ------------------------------------------------------------------------------------------------ */

int mesh_command_begin(struct mesh_device *device)
{
	int i;

	if (!device)
		return N_COMMANDS;
	mesh_lock(&device->lock);
	for (i = 0; i < N_COMMANDS && device->commands[i]; i++)
		;
	if (i < N_COMMANDS)
		device->commands[i] = mesh_now_ns();
	mesh_unlock(&device->lock);
	return i;
}

void mesh_command_end(struct mesh_device *device, int command)
{
	if (command == N_COMMANDS)
		return;
	mesh_lock(&device->lock);
	device->commands[command] = 0;
	mesh_unlock(&device->lock);
}

bool mesh_device_stuck(struct mesh_device *device)
{
	uint64_t now_ns = mesh_now_ns();
	bool stuck = false;
	int i;

	if (!device)
		return false;
	mesh_lock(&device->lock);
	for (i = 0; i < N_COMMANDS; i++)
		stuck |= device->commands[i] && now_ns > device->commands[i] + STUCK_NS;
	mesh_unlock(&device->lock);
	return stuck;
}

bool mesh_device_behind(struct mesh_device *device)
{
	bool behind;

	if (!device)
		return false;
	mesh_lock(&device->lock);
	behind = device->job_ns && mesh_now_ns() > device->job_ns + BEHIND_NS;
	mesh_unlock(&device->lock);
	return behind || mesh_device_stuck(device);
}
