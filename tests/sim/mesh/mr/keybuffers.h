/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_KEYBUFFERS_H
#define SIM_KEYBUFFERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>

#include "keys.h"
#include "loop.h"

/* Buffers of a program that are registered on its NIC, and their keys on another NIC of the host. */

#define SIZE   65536
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

extern struct ibv_context *context;
extern struct ibv_pd *pd;
extern struct mesh_context *mc;
extern struct mesh_rail *rail;
extern struct mesh_pd *spd;

struct dropped {
	unsigned int calls;
	struct ibv_pd *pd;
	uint32_t rkey;
};

extern struct dropped dropped;

struct given {
	unsigned int calls, drops; /* drops: calls of note_drop() by then */
	struct ibv_pd *pd;
	uint32_t rkey;
	bool known; /* a peer that asks for the key gets an answer */
};

extern struct given given;

int setup(void **state);
int teardown(void **state);

struct buffer {
	uint8_t *bytes;
	struct ibv_mr *mr;
};

struct buffer buffer_new(struct ibv_pd *of, int access);
void buffer_free(struct buffer *b);
uint32_t local_key(uint32_t lkey);
uint32_t remote_key(uint32_t rkey);
void assert_unknown(struct mesh_pd *in, uint32_t lkey, uint32_t rkey);

extern struct ibv_mr strange_mr; /* of a kind that the simulator does not have */

struct ibv_mr *import_mr(struct ibv_pd *of, uint32_t handle);

#endif
