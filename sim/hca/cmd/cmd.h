/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * uverbs commands. A handler gets the pieces of one write(): the core structures of
 * <rdma/ib_user_verbs.h> and the driver's part behind them (<rdma/mlx5-abi.h>). Lengths are what
 * the program gave; the dispatcher has checked that the core parts are as long as the table says,
 * and has zeroed the answers.
 */
#ifndef SIM_CMD_H
#define SIM_CMD_H

#include <stddef.h>

#include "hca.h"

struct mlx5_ib_alloc_ucontext_resp;

/* uverbs handles of UAR pages, which are not in the table of objects. */
#define UAR_HANDLE_BASE 0x1000000u

struct cmd_args {
	struct ucontext *uc;
	const void *in; /* core part; of a legacy command with its "response" field */
	void *out;
	const void *drv_in;
	size_t drv_in_len;
	void *drv_out;
	size_t drv_out_len;
};

/* All return 0 or -errno. With the lock held unless said otherwise. */
int cmd_get_context(struct cmd_args *a); /* without */
int cmd_query_device(struct cmd_args *a);
int cmd_ex_query_device(struct cmd_args *a);
int cmd_query_port(struct cmd_args *a);

int cmd_alloc_pd(struct cmd_args *a);
int cmd_dealloc_pd(struct cmd_args *a);
int cmd_reg_mr(struct cmd_args *a);
int cmd_rereg_mr(struct cmd_args *a);
int cmd_dereg_mr(struct cmd_args *a);
int cmd_create_ah(struct cmd_args *a); /* without */
int cmd_destroy_ah(struct cmd_args *a);

int cmd_create_comp_channel(struct cmd_args *a);
int cmd_create_cq(struct cmd_args *a);
int cmd_ex_create_cq(struct cmd_args *a);
int cmd_resize_cq(struct cmd_args *a);
int cmd_destroy_cq(struct cmd_args *a);
int cmd_ex_modify_cq(struct cmd_args *a);

int cmd_create_srq(struct cmd_args *a);
int cmd_modify_srq(struct cmd_args *a);
int cmd_query_srq(struct cmd_args *a);
int cmd_destroy_srq(struct cmd_args *a);

int cmd_create_qp(struct cmd_args *a);
int cmd_ex_create_qp(struct cmd_args *a);
int cmd_modify_qp(struct cmd_args *a); /* without */
int cmd_ex_modify_qp(struct cmd_args *a); /* without */
int cmd_query_qp(struct cmd_args *a);
int cmd_destroy_qp(struct cmd_args *a);
int cmd_attach_mcast(struct cmd_args *a);
int cmd_detach_mcast(struct cmd_args *a);

/** cmd_destroy() - destroy any object, whoever still holds it; for closing the file in the order
 * that makes it safe. */
void cmd_destroy(struct obj *o);

/** cmd_fill_context() - what mlx5 tells about a context when it is made or imported. */
void cmd_fill_context(struct ucontext *uc, struct mlx5_ib_alloc_ucontext_resp *ret);

/** cmd_drv_in() - copy the driver's part of the request; what the program's version does not have
 * is zero. */
void cmd_drv_in(const struct cmd_args *a, void *dst, size_t len);
/** cmd_drv_out() - give back as much of the driver's answer as the program asked for. */
void cmd_drv_out(const struct cmd_args *a, const void *src, size_t len);

#endif
