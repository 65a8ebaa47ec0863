/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The uverbs file's write(): legacy and extended commands. */
#include "cmd.h"
#include "firmware.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	UNLOCKED = 1, /* takes the lock itself */
	NO_CONTEXT = 2, /* allowed before GET_CONTEXT */
	ON_DEAD = 4, /* works on an HCA that answers nothing: the kernel takes an object down
			whatever the device says */
};

struct command {
	int (*run)(struct cmd_args *a);
	uint16_t in_len, out_len; /* core parts */
	uint8_t flags;
	uint8_t firmware; /* enum sim_firmware */
};

#define IN(type)     sizeof(struct ib_uverbs_##type)
#define OUT(type)    sizeof(struct ib_uverbs_##type##_resp)
#define CMD(NAME)    [IB_USER_VERBS_CMD_##NAME]
#define EX_CMD(NAME) [IB_USER_VERBS_EX_CMD_##NAME]

static const struct command commands[] = {
	CMD(GET_CONTEXT) = {cmd_get_context, IN(get_context), OUT(get_context),
			    UNLOCKED | NO_CONTEXT, SIM_FW_OPEN},
	CMD(QUERY_DEVICE) = {cmd_query_device, IN(query_device), OUT(query_device), 0, SIM_FW_QUERY},
	CMD(QUERY_PORT) = {cmd_query_port, IN(query_port), OUT(query_port), 0, SIM_FW_QUERY},
	CMD(ALLOC_PD) = {cmd_alloc_pd, IN(alloc_pd), OUT(alloc_pd), 0, SIM_FW_CREATE},
	CMD(DEALLOC_PD) = {cmd_dealloc_pd, IN(dealloc_pd), 0, ON_DEAD, SIM_FW_DESTROY},
	CMD(REG_MR) = {cmd_reg_mr, IN(reg_mr), OUT(reg_mr), 0, SIM_FW_REG_MR},
	CMD(REREG_MR) = {cmd_rereg_mr, IN(rereg_mr), OUT(rereg_mr), 0, SIM_FW_REG_MR},
	CMD(DEREG_MR) = {cmd_dereg_mr, IN(dereg_mr), 0, ON_DEAD, SIM_FW_DEREG},
	CMD(CREATE_AH) = {cmd_create_ah, IN(create_ah), OUT(create_ah), UNLOCKED, 0},
	CMD(DESTROY_AH) = {cmd_destroy_ah, IN(destroy_ah), 0, ON_DEAD, 0},
	CMD(CREATE_COMP_CHANNEL) = {cmd_create_comp_channel, IN(create_comp_channel),
				    OUT(create_comp_channel), 0, 0},
	CMD(CREATE_CQ) = {cmd_create_cq, IN(create_cq), OUT(create_cq), 0, SIM_FW_CREATE},
	CMD(RESIZE_CQ) = {cmd_resize_cq, IN(resize_cq), 4 /* without "reserved" */, 0, SIM_FW_MODIFY},
	CMD(DESTROY_CQ) = {cmd_destroy_cq, IN(destroy_cq), OUT(destroy_cq), ON_DEAD, SIM_FW_DESTROY},
	CMD(CREATE_SRQ) = {cmd_create_srq, IN(create_srq), OUT(create_srq), 0, SIM_FW_CREATE},
	CMD(MODIFY_SRQ) = {cmd_modify_srq, IN(modify_srq), 0, 0, SIM_FW_MODIFY},
	CMD(QUERY_SRQ) = {cmd_query_srq, IN(query_srq), OUT(query_srq), 0, SIM_FW_QUERY},
	CMD(DESTROY_SRQ) = {cmd_destroy_srq, IN(destroy_srq), OUT(destroy_srq), ON_DEAD, SIM_FW_DESTROY},
	CMD(CREATE_QP) = {cmd_create_qp, IN(create_qp), OUT(create_qp), 0, SIM_FW_CREATE},
	CMD(QUERY_QP) = {cmd_query_qp, IN(query_qp), OUT(query_qp), 0, SIM_FW_QUERY},
	CMD(MODIFY_QP) = {cmd_modify_qp, IN(modify_qp), 0, UNLOCKED, SIM_FW_MODIFY},
	CMD(DESTROY_QP) = {cmd_destroy_qp, IN(destroy_qp), OUT(destroy_qp), ON_DEAD, SIM_FW_DESTROY},
	CMD(ATTACH_MCAST) = {cmd_attach_mcast, IN(attach_mcast), 0, 0, 0},
	CMD(DETACH_MCAST) = {cmd_detach_mcast, IN(detach_mcast), 0, ON_DEAD, 0},
};

static const struct command ex_commands[] = {
	EX_CMD(QUERY_DEVICE) = {cmd_ex_query_device, IN(ex_query_device), 0, 0, SIM_FW_QUERY},
	EX_CMD(CREATE_CQ) = {cmd_ex_create_cq, IN(ex_create_cq), OUT(ex_create_cq), 0, SIM_FW_CREATE},
	EX_CMD(CREATE_QP) = {cmd_ex_create_qp, IN(ex_create_qp), OUT(ex_create_qp), 0, SIM_FW_CREATE},
	EX_CMD(MODIFY_QP) = {cmd_ex_modify_qp, IN(ex_modify_qp), 0, UNLOCKED, SIM_FW_MODIFY},
	EX_CMD(MODIFY_CQ) = {cmd_ex_modify_cq, IN(ex_modify_cq), 0, 0, SIM_FW_MODIFY},
};

void cmd_drv_in(const struct cmd_args *a, void *dst, size_t len)
{
	memset(dst, 0, len);
	memcpy(dst, a->drv_in, a->drv_in_len < len ? a->drv_in_len : len);
}

void cmd_drv_out(const struct cmd_args *a, const void *src, size_t len)
{
	if (a->drv_out)
		memcpy(a->drv_out, src, a->drv_out_len < len ? a->drv_out_len : len);
}

/* What the command has changed, with the lock, the engine has seen in its last round, or will after a short sleep; else it is told. */
static void wake_engine(struct hca *h)
{
	uint64_t one = 1;

	if (atomic_exchange_explicit(&h->engine.dozes, false, memory_order_relaxed))
		(void)!write(h->engine.wake_fd, &one, sizeof(one));
}

static int run(struct ucontext *uc, const struct command *c, struct cmd_args *a)
{
	int err;

	if (!uc->has_context && !(c->flags & NO_CONTEXT))
		return -EINVAL;
	if (ucontext_dead(uc) && !(c->flags & ON_DEAD))
		return -EIO;
	firmware_wait(uc->dev, c->firmware);
	if (c->flags & UNLOCKED) {
		err = c->run(a);
		wake_engine(uc->hca);
		return err;
	}
	hca_lock(uc->hca);
	err = c->run(a);
	if (c->firmware == SIM_FW_QUERY)
		late_push(uc->hca, uc->dev, NULL);
	hca_unlock(uc->hca);
	return err;
}

/*
 * The program's request need not be aligned, and a short answer buffer is filled as far as it goes:
 * run on copies.
 * @resp: the program's; @resp_len: of core and driver together.
 */
static int run_buffered(struct ucontext *uc, const struct command *c, const void *in, size_t in_len,
			const void *drv_in, size_t drv_in_len, void *resp, size_t core_out,
			size_t drv_out)
{
	size_t out_len = core_out > c->out_len ? core_out : c->out_len;
	uint64_t *mem = calloc(1, in_len + 8 + drv_in_len + 8 + out_len + 512 + drv_out + 8);
	struct cmd_args a = {.uc = uc, .drv_in_len = drv_in_len, .drv_out_len = drv_out};
	uint8_t *p = (uint8_t *)mem;
	int err;

	if (!mem)
		return -ENOMEM;
	a.in = memcpy(p, in, in_len);
	p += (in_len + 7) & ~(size_t)7;
	a.drv_in = memcpy(p, drv_in, drv_in_len);
	p += (drv_in_len + 7) & ~(size_t)7;
	a.out = p;
	p += ((out_len + 7) & ~(size_t)7) +
	     504; /* the device answer grows with the kernel: room for ours */
	a.drv_out = drv_out ? p : NULL;
	err = run(uc, c, &a);
	if (!err && resp) {
		memcpy(resp, a.out, core_out);
		memcpy((uint8_t *)resp + core_out, a.drv_out ? a.drv_out : p, drv_out);
	}
	free(mem);
	return err;
}

static int write_legacy(struct ucontext *uc, const struct ib_uverbs_cmd_hdr *hdr, unsigned long len)
{
	const uint8_t *in = (const uint8_t *)(hdr + 1);
	const struct command *c;
	size_t out_len = hdr->out_words * 4u, in_len = len - sizeof(*hdr);
	uint64_t resp = 0;

	if (hdr->command >= sizeof(commands) / sizeof(commands[0]) || !commands[hdr->command].run)
		return -EOPNOTSUPP;
	c = &commands[hdr->command];
	if (hdr->in_words * 4u != len || in_len < c->in_len || out_len < c->out_len)
		return -EINVAL;
	if (c->out_len)
		memcpy(&resp, in, sizeof(resp));
	return run_buffered(uc, c, in, c->in_len, in + c->in_len, in_len - c->in_len,
			    (void *)(uintptr_t)resp, c->out_len,
			    out_len > c->out_len ? out_len - c->out_len : 0);
}

static int write_ex(struct ucontext *uc, const struct ib_uverbs_cmd_hdr *hdr, unsigned long len)
{
	const struct ib_uverbs_ex_cmd_hdr *ex = (const void *)(hdr + 1);
	const uint8_t *in = (const uint8_t *)(ex + 1);
	uint32_t cmd = hdr->command & IB_USER_VERBS_CMD_COMMAND_MASK;
	size_t in_len, drv_len, core_out;
	const struct command *c;

	if (len < sizeof(*hdr) + sizeof(*ex))
		return -EINVAL;
	if (cmd >= sizeof(ex_commands) / sizeof(ex_commands[0]) || !ex_commands[cmd].run)
		return -EOPNOTSUPP;
	c = &ex_commands[cmd];
	in_len = hdr->in_words * 8u;
	drv_len = ex->provider_in_words * 8u;
	core_out = hdr->out_words * 8u;
	if (in_len + drv_len + sizeof(*hdr) + sizeof(*ex) != len)
		return -EINVAL;
	/* A program older than this file leaves out the end of a structure. */
	if (in_len < c->in_len) {
		uint8_t buf[512] = {0};

		memcpy(buf, in, in_len);
		return run_buffered(uc, c, buf, c->in_len, in + in_len, drv_len,
				    (void *)(uintptr_t)ex->response, core_out,
				    ex->provider_out_words * 8u);
	}
	return run_buffered(uc, c, in, in_len, in + in_len, drv_len,
			    (void *)(uintptr_t)ex->response, core_out, ex->provider_out_words * 8u);
}

long cmd_write(struct ucontext *uc, const void *buf, unsigned long len)
{
	const struct ib_uverbs_cmd_hdr *hdr = buf;
	int err;

	if (len < sizeof(*hdr))
		err = -EINVAL;
	else if (hdr->command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		err = write_ex(uc, hdr, len);
	else
		err = write_legacy(uc, hdr, len);
	if (err) {
		errno = -err;
		return -1;
	}
	return (long)len;
}

void cmd_destroy(struct obj *o)
{
	switch (o->type) {
	case OBJ_AH: {
		struct ah *ah = (struct ah *)o;

		if (ah->has_gid)
			path_hold_gid(o->uc->hca, o->uc->dev_index, ah->port, ah->sgid_index, -1);
		ah->pd->obj.users--;
		obj_del(o);
		free(ah);
		break;
	}
	case OBJ_QP:
		qp_destroy((struct qp *)o);
		break;
	case OBJ_SRQ:
		evq_drop(o->uc->async, o);
		((struct srq *)o)->pd->obj.users--;
		obj_del(o);
		free(o);
		break;
	case OBJ_CQ: {
		struct cq *cq = (struct cq *)o;

		LIST_REMOVE(cq, link);
		evq_drop(o->uc->async, cq);
		evq_drop(cq->channel, cq);
		evq_put(cq->channel);
		obj_del(o);
		free(cq);
		break;
	}
	case OBJ_MR:
		mr_destroy((struct mr *)o);
		break;
	case OBJ_PD:
		obj_del(o);
		free(o);
		break;
	case OBJ_NONE:
		break;
	}
}
