/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef FAKEVERBS_H
#define FAKEVERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * A made-up libibverbs for tests: it has the exported entry points of the real one, a list of drivers and
 * contexts, but the layout of everything private follows a configuration that a test chooses, sane or not.
 * Reached with dlopen(); the functions below come through dlsym().
 */

/* Ways to be a libibverbs that must be refused. */
enum fake_defect {
	FAKE_SANE,
	FAKE_INIT_FAILS,	   /* no memory for a context */
	FAKE_SIZE_WRONG,	   /* verbs_context.sz disagrees with the layout */
	FAKE_NO_DEVICE,		   /* the context does not name its device */
	FAKE_DEVICE_TWICE,	   /* it does so in two places */
	FAKE_NO_PRIV,		   /* no private part */
	FAKE_NO_MIRROR,		   /* public places are not kept */
	FAKE_MIRROR_SHARED,	   /* two operations show in one slot */
	FAKE_PRIV_SHUFFLED,	   /* private copy in another order than the table */
	FAKE_PRIV_FAR,		   /* private copy beyond where it is looked for */
	FAKE_CLOSE_TWO,		   /* closing calls two operations */
	FAKE_CLOSE_NONE,	   /* closing calls none */
	FAKE_SET_CLEARS,	   /* verbs_set_ops() clears what the table does not name */
	FAKE_SET_EXTRA,		   /* verbs_set_ops() changes something else as well */
	FAKE_CLOSE_SHARED,	   /* free_context has the slot of another operation */
	/* Ways to be one with which nothing can be moved. */
	FAKE_NO_CQ_EX,		   /* nothing between create_cq and create_flow */
	FAKE_CQ_EX_FAR,		   /* more than one operation there */
	FAKE_NO_QP_EX,		   /* create_qp_ex does not show */
	FAKE_NO_MOVES_LAST = FAKE_NO_QP_EX,
	/* Ways to be one that registers memory so that nobody sees. */
	FAKE_DMABUF_TWO,	   /* registering one calls two operations: no moves either, as with the next two */
	FAKE_REG_EX_TWO,	   /* ibv_reg_mr_ex() does */
	FAKE_DMABUF_SHARED,	   /* ... the operation of another slot: no moves either */
	FAKE_PORT_TWO,		   /* ibv_query_port() calls its operation twice: no port stands in for another */
	FAKE_CQ_EX_OTHER,	   /* creating an extended CQ calls another operation than the one in its place */
	/* Lists of drivers. */
	FAKE_LIST_HEAP,		   /* the list's head is not in the library's data */
	FAKE_LIST_SINGLE,	   /* nodes are not linked backwards */
	FAKE_LIST_FRONT,	   /* drivers are added at the front */
	FAKE_LIST_NONE,		   /* registering does nothing */
	FAKE_N_DEFECTS,
	FAKE_LIST_MIRROR,	   /* harmless: another place of the library points to the new node, too */
};

struct fake_config {
	enum fake_defect defect;
	unsigned int n_ops;	  /* length of the table, at least FAKE_MIN_OPS */
	unsigned int seed;	  /* order of the operations in it; 0: in order of definition */
	size_t front;		  /* bytes a context has in front of what our header knows; multiple of 8 */
	size_t priv_front;	  /* bytes in front of the private copy; multiple of 8 */
};

#define FAKE_MIN_OPS 50

struct fake_gid {
	union ibv_gid gid;
	uint32_t port_num, index, type, ifindex;
};

struct fake_state {
	/* The device's GID table, set by the test. */
	struct fake_gid gids[300];
	size_t n_gids;
	int query_error; /* returned by the table query if not 0 */
	_Atomic unsigned int n_queries; /* of it */
	/* What the fake lower provider was called with. */
	_Atomic unsigned int n_modify, n_create_ah, n_freed, n_async;
	_Atomic uint8_t modify_index, ah_index;
	struct ibv_port_attr port; /* of port 1, the only one */
	_Atomic unsigned int n_query_port;
	union ibv_gid ah_dgid; /* of the last one made */
	uint16_t ah_dlid;
	int modify_fails_for; /* sgid_index that modify_qp refuses; -1: none */
	int modify_errno[8]; /* what it says of the first ones; 0: nothing */
	int ah_fails_for;
};

/* Resolved by fake_open(). */
struct fakeverbs {
	void *handle;
	const void *anchor;
	/* To be called first. Hooked lower providers stay hooked, so a test that hooks runs in a process of its own. */
	void (*configure)(const struct fake_config *config);
	struct fake_state *state;
	/* Register a lower provider provider under a name, as its constructor would. */
	void (*register_lower)(const char *name);
	/*
	 * What libibverbs does for a device of the lower provider of that name: match all drivers, then alloc_context.
	 */
	struct ibv_context *(*open_device)(const char *lower, struct ibv_device *device);
	struct ibv_context *(*open_direct)(const char *lower, struct ibv_device *device); /* mlx5dv_open_device() */
	struct ibv_context *(*import_device)(const char *lower, struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	void (*async_event)(struct ibv_context *context, struct ibv_async_event *event);
	int (*query_port)(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);
};

/**
 * fake_open - load a made-up library
 * @file: path of fakeverbs-NN.so
 *
 * Fails the running cmocka test if it cannot be loaded.
 */
struct fakeverbs fake_open(const char *file);

#endif
