/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_ARMED_H
#define SIM_ARMED_H

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tracked_fixture.h"
#include "vqp_int.h"

/*
 * A tracked queue pair, and the memory of its program, for which registrations and queue pairs are made in advance on
 * another NIC.
 */

/* Registrations on rails. */
struct rail_regs {
	struct ibv_mr *(*real)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
	_Atomic unsigned int n_ok, n_failed;
	_Atomic int fail; /* errno; 0: none */
	void (*_Atomic meanwhile)(void); /* called once, by the thread that registers */
};

extern struct rail_regs rail_regs;

extern _Atomic unsigned int n_looks; /* times that process->keys.lock was taken to look at regions */
extern unsigned int n_dropped; /* keys that peers were told to drop */

/* Registration by the lower driver, for the program. */
struct lower_regs {
	struct ibv_mr *(*real)(struct ibv_pd *, void *, size_t, uint64_t, int);
	unsigned int n_fail;
};

extern struct lower_regs lower_regs;

bool idle(void);
bool until(bool (*condition)(void));

int setup(void **state);
int teardown(void **state);

extern const struct manner manner;
extern const struct shape shape;
extern const struct mesh_vqp_ops no_ops;

struct tracked {
	uint32_t depth;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct mesh_vqp *h;
};

void track(struct tracked *p);

#endif
