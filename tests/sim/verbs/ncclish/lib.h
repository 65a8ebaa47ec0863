/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* libibverbs as NCCL gets it: opened, not linked, after libmlx5, each function looked up by
 * version. */
#ifndef NCCLISH_LIB_H
#define NCCLISH_LIB_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/* Functions that libibverbs exports; posting and polling are inline in its header. */
struct lib {
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *dev);
	struct ibv_context *(*open_device)(struct ibv_device *dev);
	int (*close_device)(struct ibv_context *ctx);
	int (*query_port)(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *ctx);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				       unsigned int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe, void *data,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
};

extern struct lib lib;

/** lib_load() - fills lib; ends the program with a message where something is missing. */
void lib_load(void);

/** die() - the message, the errno that @err stands for unless 0, exit status 1. */
_Noreturn __attribute__((format(printf, 2, 3))) void die(int err, const char *format, ...);

#endif
