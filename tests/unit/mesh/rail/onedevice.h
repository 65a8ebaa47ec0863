/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_ONEDEVICE_H
#define UNIT_ONEDEVICE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ud.h"

/* A libibverbs with one device, and a helper thread that runs when the test says so. */

#define DEVICE	  "mlx5_1"
#define LIMIT_MS  100000

/* The helper thread may run MAX_TURNS times in each QUIET_US. A thread that spins would run a hundred thousand times. */
#define QUIET_US  300000
#define MAX_TURNS 30u

struct opened {
	struct ibv_context context;
	struct ibv_comp_channel channel;
	int async[2], events[2]; /* [0] is the plugin's */
	_Atomic unsigned int n_fatal; /* DEVICE_FATAL to be read */
	_Atomic bool closed;
};

extern struct ibv_device device;
extern struct opened opened[4];
extern unsigned int n_opened;
extern _Atomic unsigned int n_pds; /* PDs are given back by a thread of the device */
extern bool refuses; /* the device cannot be opened */

/** gets_lost - waits until the helper thread has given up the rail; returns: it has */
bool gets_lost(const struct mesh_rail *rail);
/** gets_closed - waits until the helper thread, the last user, has closed the device */
void gets_closed(struct opened *o);
/** sleeps - the helper thread does not spin */
void sleeps(void);

extern struct ibv_context program;
extern struct ibv_pd program_pd;
extern struct mesh_context mc;

struct mesh_rail *get_rail(void);

/** setup_all - what the helper thread reads: written once */
int setup_all(void **state);
int setup(void **state);
int teardown(void **state);

struct marker {
	struct mesh_device_job job;
	_Atomic bool done;
};

void put_rail(struct mesh_rail *rail);
void put_pd(struct mesh_pd *spd);

/** take_number - the program closes the plugin's descriptor @number, and has a socket with data under that number */
void take_number(int number, int ret_ends[2]);
/** assert_untouched - the program's socket and its data are as they were */
void assert_untouched(int number, const int ends[2]);

int number_of(const struct opened *o, int which);

extern bool has_path;

#endif
