/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * DEVX: commands in the format of the firmware, of a device that has it (sim_dev.devx). Only those that libmlx5's
 * mlx5dv_modify_qp_udp_sport(), mlx5dv_modify_qp_lag_port() and mlx5dv_query_qp_lag_port() need.
 *
 * The kernel refuses with EINVAL what is no command of the method, and a command about another queue pair. An error of
 * the firmware is EREMOTEIO, and a status in the answer.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <string.h>

#include "cmd_ioctl.h"

#define MIN_MAILBOX 16 /* bytes, of a command and of an answer */

enum opcode { QUERY_HCA_CAP = 0x100, RTS2RTS_QP = 0x505, QUERY_QP = 0x50b, QUERY_LAG = 0x842 };

enum status {
	OK = 0,
	BAD_PARAM = 0x03,
	BAD_QP_STATE = 0x10,
	BAD_INPUT_LEN = 0x50,
	BAD_OUTPUT_LEN = 0x51,
};

/* A field of a mailbox. Bits count from the highest bit of the first byte on, as in the kernel's mlx5_ifc.h. */
struct field {
	uint32_t offset, width;
};

/* All commands, all answers. */
static const struct field opcode = {0, 16}, op_mod = {0x30, 16}, command_qpn = {0x48, 24};
static const struct field answer_status = {0, 8};
/* QUERY_HCA_CAP: op_mod is twice the number of the group of capabilities, plus one for the current ones. */
#define GENERAL_CAPS 0
static const struct field cap_rts2rts_udp_sport = {0x80 + 0x151, 1}, cap_rts2rts_lag_port = {0x80 + 0x152, 1};
static const struct field cap_lag_port = {0x80 + 0x278, 1}, cap_n_lag_ports = {0x80 + 0x27c, 4};
/* QUERY_LAG */
static const struct field lag_state = {0x40 + 0x1d, 3};
static const struct field lag_port_1_is = {0x40 + 0x3c, 4}, lag_port_2_is = {0x40 + 0x34, 4};
/* The queue pair's context lies at the same place in RTS2RTS_QP and in the answer of QUERY_QP. */
static const struct field qpc_state = {0xc0, 4}, qpc_lag_port = {0xc0 + 0x4, 4};
static const struct field qpc_udp_sport = {0xc0 + 0xc0 + 0x110, 16};
/* RTS2RTS_QP: which fields of the context are to be changed. */
static const struct field mask_31_0 = {0x80, 32}, mask_95_64 = {0x840, 32}, mask_63_32 = {0x860, 32};
#define MASK_LAG_PORT  0x8000u /* of mask_31_0 */
#define MASK_UDP_SPORT 4u /* of mask_63_32 */

static uint32_t get(const uint8_t *mailbox, struct field f)
{
	uint32_t value = 0;

	for (uint32_t i = f.offset; i < f.offset + f.width; i++)
		value = value << 1 | (mailbox[i / 8] >> (7 - i % 8) & 1);
	return value;
}

static void put(uint8_t *mailbox, struct field f, uint32_t value)
{
	for (uint32_t i = f.offset + f.width; i-- > f.offset; value >>= 1)
		if (value & 1)
			mailbox[i / 8] |= (uint8_t)(1 << (7 - i % 8));
}

/* ---- commands: mailboxes are as long as commands[] says, and the answer is zero before ---------- */

struct devx {
	struct ucontext *uc;
	struct qp *qp; /* NULL: the command is about none */
	const uint8_t *in;
	uint8_t *out;
};

static enum status query_hca_cap(struct devx *d)
{
	bool bond = d->uc->dev->lag_ports;

	if (get(d->in, op_mod) >> 1 != GENERAL_CAPS)
		return BAD_PARAM;
	put(d->out, cap_rts2rts_udp_sport, 1);
	put(d->out, cap_rts2rts_lag_port, bond);
	put(d->out, cap_lag_port, bond);
	put(d->out, cap_n_lag_ports, d->uc->dev->lag_ports);
	return OK;
}

/* Both ports are up, so each one sends its own packets. */
static enum status query_lag(struct devx *d)
{
	if (d->uc->dev->lag_ports) {
		put(d->out, lag_state, 1);
		put(d->out, lag_port_1_is, 1);
		put(d->out, lag_port_2_is, 2);
	}
	return OK;
}

static uint32_t firmware_state(uint8_t state)
{
	switch (state) {
	case IBV_QPS_SQE:
		return 4;
	case IBV_QPS_SQD:
		return 5;
	default:
		return state;
	}
}

static enum status query_qp(struct devx *d)
{
	put(d->out, qpc_state, firmware_state(d->qp->state));
	put(d->out, qpc_lag_port, d->qp->attr.lag_port);
	put(d->out, qpc_udp_sport, d->qp->path.wire.udp_sport);
	return OK;
}

/* Without a bond the firmware accepts any LAG port, and ignores it. */
static enum status rts2rts_qp(struct devx *d)
{
	uint32_t low = get(d->in, mask_31_0), high = get(d->in, mask_63_32), lag_port = get(d->in, qpc_lag_port);

	if (d->qp->state != IBV_QPS_RTS)
		return BAD_QP_STATE;
	if (low & ~MASK_LAG_PORT || high & ~MASK_UDP_SPORT || get(d->in, mask_95_64))
		return BAD_PARAM;
	if (low && d->qp->dev->lag_ports) {
		if (!lag_port || lag_port > d->qp->dev->lag_ports)
			return BAD_PARAM;
		d->qp->attr.lag_port = (uint8_t)lag_port;
	}
	if (high)
		d->qp->path.wire.udp_sport = (uint16_t)get(d->in, qpc_udp_sport);
	return OK;
}

/* ---- methods ------------------------------------------------------------------------------------ */

static const struct command {
	enum opcode opcode;
	uint16_t object, method;
	uint16_t in_len, out_len;
	enum status (*run)(struct devx *d);
} commands[] = {
	{QUERY_HCA_CAP, MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, MIN_MAILBOX, 0x1010, query_hca_cap},
	{QUERY_LAG, MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, MIN_MAILBOX, MIN_MAILBOX, query_lag},
	{QUERY_QP, MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, MIN_MAILBOX, 0x110, query_qp},
	{RTS2RTS_QP, MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, 0x1d0, MIN_MAILBOX, rts2rts_qp},
};

static const struct command *command_of(const struct call *c, uint32_t op)
{
	for (const struct command *k = commands; k < commands + sizeof(commands) / sizeof(commands[0]); k++)
		if (k->opcode == op && k->object == c->hdr->object_id && k->method == c->hdr->method_id)
			return k;
	return NULL;
}

static int execute(struct call *c, struct qp *qp, uint16_t in_id, uint16_t out_id)
{
	struct ib_uverbs_attr *in = ioctl_find(c, in_id), *out = ioctl_find(c, out_id);
	struct devx d = {.uc = c->uc, .qp = qp};
	const struct command *command;
	enum status status;

	if (!in || !out || in->len < MIN_MAILBOX || out->len < MIN_MAILBOX)
		return -EINVAL;
	d.in = (const uint8_t *)(uintptr_t)in->data;
	d.out = (uint8_t *)(uintptr_t)out->data;
	command = command_of(c, get(d.in, opcode));
	if (!command || (qp && get(d.in, command_qpn) != qp->qpn))
		return -EINVAL;
	memset(d.out, 0, out->len);
	if (in->len < command->in_len)
		status = BAD_INPUT_LEN;
	else if (out->len < command->out_len)
		status = BAD_OUTPUT_LEN;
	else
		status = command->run(&d);
	put(d.out, answer_status, status);
	out->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return status == OK ? 0 : -EREMOTEIO;
}

static int of_qp(struct call *c, uint16_t handle, uint16_t in_id, uint16_t out_id)
{
	struct qp *qp = (struct qp *)obj_get(c->uc, (uint32_t)ioctl_get(c, handle), OBJ_QP);

	return qp ? execute(c, qp, in_id, out_id) : -EINVAL;
}

int ioctl_devx_other(struct call *c)
{
	return execute(c, NULL, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT);
}

int ioctl_devx_obj_query(struct call *c)
{
	return of_qp(c, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN,
		     MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT);
}

int ioctl_devx_obj_modify(struct call *c)
{
	return of_qp(c, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
		     MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT);
}
