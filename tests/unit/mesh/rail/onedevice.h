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
#define LIMIT_MS  20000 /* generous: nothing here depends on time */

/* How often the helper thread may look in that time; one that spins does so a hundred thousand times. */
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
extern bool refuses;

bool gets_lost(const struct mesh_rail *rail);

/* By the helper thread, who has it last. */
void gets_closed(struct opened *o);
void sleeps(void);

extern struct ibv_context program;
extern struct ibv_pd program_pd;
extern struct mesh_context mc;

struct mesh_rail *get_rail(void);

/* Once: the helper thread reads it. */
int setup_all(void **state);
int setup(void **state);
int teardown(void **state);

struct marker {
	struct mesh_device_job job;
	_Atomic bool done;
};

void put_rail(struct mesh_rail *rail);
void put_pd(struct mesh_pd *spd);

/* A stream of the program's has the number of one of ours, and data in it. */
void take_number(int number, int ret_ends[2]);

void assert_untouched(int number, const int ends[2]);

int number_of(const struct opened *o, int which);

extern bool has_path;

#endif
