/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_ABI_H
#define MESH_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * All that the plugin assumes of libibverbs' private interface. These structs did not change from rdma-core 28 to 64, with one
 * exception: import_context in struct mesh_driver_ops, which exists if the library exports ibv_import_device (has_import). All
 * else that changes between releases is measured at run time (calibrate.c). library.c, drivers.c and hook.c check each struct
 * before its use.
 */

struct verbs_device;
struct verbs_sysfs_dev;

/* The public struct ibv_mr_init_attr, for headers from before rdma-core 59. New members are only added at its end. */
struct mesh_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova; /* this and the next three: valid if their bit is set in @comp_mask */
	void *addr;
	int fd;
	uint64_t fd_offset;
};

enum {
	MESH_MR_IOVA = 1 << 0,
	MESH_MR_ADDR = 1 << 1,
	MESH_MR_FD = 1 << 2,
	MESH_MR_FD_OFFSET = 1 << 3,
	MESH_MR_DMAH = 1 << 4, /* has a DMA handle, which only makes access faster */
};

/* struct verbs_device_ops, by which a driver registers. import_context moved the last two members by one place (rdma-core 31). */
struct mesh_driver_ops {
	const char *name;
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const struct mesh_match_ent *match_table;
	const void **static_providers;
	bool (*match_device)(struct verbs_sysfs_dev *sysfs_dev);
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *private_data);
	/* Only if the library exports ibv_import_device; in older ones alloc_device is here. */
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
	void (*unused[2])(void); /* alloc_device, uninit_device */
};

/* struct verbs_match_ent: an entry of a match table. */
struct mesh_match_ent {
	const void *driver_data;
	union {
		const char *modalias;
		uint64_t driver_id; /* enum rdma_driver_id */
	} u;
	uint16_t vendor;
	uint16_t device;
	uint8_t kind;
};

enum { MESH_MATCH_SENTINEL = 0, MESH_MATCH_DRIVER_ID = 3 };

/* A node of libibverbs' list of drivers. The head of the list has only the first two members. */
struct mesh_driver_node {
	struct mesh_driver_node *next;
	struct mesh_driver_node *prev;
	const struct mesh_driver_ops *ops;
};

/*
 * Public functions that the plugin calls for its own objects, in the libibverbs that it is stacked in. Inline functions of
 * verbs.h are not listed: they call through the context.
 */
#define MESH_VERBS(X)                                                                                      \
	X(get_device_list)                                                                                 \
	X(free_device_list)                                                                                \
	X(get_device_name)                                                                                 \
	X(open_device)                                                                                     \
	X(query_device)                                                                                    \
	X(get_async_event)                                                                                 \
	X(ack_async_event)                                                                                 \
	X(alloc_pd)                                                                                        \
	X(dealloc_pd)                                                                                      \
	X(reg_mr)                                                                                          \
	X(reg_mr_iova2)                                                                                    \
	X(dereg_mr)                                                                                        \
	X(create_comp_channel)                                                                             \
	X(destroy_comp_channel)                                                                            \
	X(create_cq)                                                                                       \
	X(resize_cq)                                                                                       \
	X(destroy_cq)                                                                                      \
	X(get_cq_event)                                                                                    \
	X(ack_cq_events)                                                                                   \
	X(create_srq)                                                                                      \
	X(modify_srq)                                                                                      \
	X(query_srq)                                                                                       \
	X(destroy_srq)                                                                                     \
	X(create_qp)                                                                                       \
	X(modify_qp)                                                                                       \
	X(query_qp)                                                                                        \
	X(destroy_qp)                                                                                      \
	X(qp_to_qp_ex)                                                                                     \
	X(create_ah)                                                                                       \
	X(destroy_ah)

#define MESH_VERB_MEMBER(name) __typeof__(&ibv_##name) name;
struct mesh_verbs {
	MESH_VERBS(MESH_VERB_MEMBER)
};

/* What the plugin calls in the loaded libibverbs. Constant after mesh_library_find(). */
struct mesh_library {
	char path[512];
	unsigned int abi; /* NN of verbs_register_driver_NN */
	bool has_import;  /* it exports ibv_import_device */
	uintptr_t data_start, data_end; /* writable segment of the library */

	void (*register_driver)(const struct mesh_driver_ops *ops);
	void *(*init_and_alloc_context)(struct ibv_device *device, int cmd_fd, size_t alloc_size,
					struct verbs_context *context_offset, uint32_t driver_id);
	void (*set_ops)(struct verbs_context *vctx, const void *ops);
	int (*close_device)(struct ibv_context *context);
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t max_entries, uint32_t flags, size_t entry_size);
	/* These are NULL if the library does not export them. */
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
					int fd, int access);
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct mesh_mr_init_attr *attr);
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t handle);
	struct ibv_pd *(*import_pd)(struct ibv_context *context, uint32_t handle);
	void (*unimport_pd)(struct ibv_pd *pd);
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
	int (*query_port)(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr);

	struct mesh_verbs verbs; /* all set if @missing_verb is NULL */
	const char *missing_verb; /* first function of @verbs that the library lacks: no connection is moved; NULL: none */
};

#endif
