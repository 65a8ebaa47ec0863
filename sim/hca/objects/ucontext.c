/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One open uverbs file, and what must be taken down when it is closed. */
#include "hca.h"

#include <errno.h>
#include <stdlib.h>

#include "fdtab.h"
#include "cmd.h"

/** ucontext_open() - a new file on device @dev_index. Takes the lock itself. Return: NULL without
 * memory. */
struct ucontext *ucontext_open(struct hca *h, uint32_t dev_index)
{
	struct ucontext *uc = calloc(1, sizeof(*uc));

	if (!uc)
		return NULL;
	uc->fds = 1;
	uc->hca = h;
	uc->dev_index = dev_index;
	uc->dev = &h->state->devs[dev_index];
	uc->resets = atomic_load_explicit(&uc->dev->resets, memory_order_acquire);
	hca_lock(h);
	LIST_INSERT_HEAD(&h->contexts, uc, link);
	hca_unlock(h);
	return uc;
}

/** ucontext_hold() - one more descriptor refers to the file. Takes the lock. */
void ucontext_hold(struct ucontext *uc)
{
	hca_lock(uc->hca);
	uc->fds++;
	hca_unlock(uc->hca);
}

/** ucontext_port() - port by its number from 1, or NULL. */
struct sim_port *ucontext_port(struct ucontext *uc, uint32_t port)
{
	return port >= 1 && port <= uc->dev->n_ports ? &uc->dev->ports[port - 1] : NULL;
}

/**
 * ucontext_close() - a descriptor was closed; with the last one goes everything, in order, as in
 * the kernel.
 *
 * Takes the lock. Return: whether it was the last.
 */
bool ucontext_close(struct ucontext *uc)
{
	static const enum obj_type order[] = {OBJ_AH, OBJ_QP, OBJ_SRQ, OBJ_CQ, OBJ_MR, OBJ_PD};
	struct hca *h = uc->hca;
	struct evq *channel;

	hca_lock(h);
	if (--uc->fds) {
		hca_unlock(h);
		return false;
	}
	for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++)
		for (uint32_t i = 0; i < uc->n_objs; i++)
			if (uc->objs[i] && uc->objs[i]->type == order[k])
				cmd_destroy(uc->objs[i]);
	/* Completion channels have descriptors of their own. */
	while ((channel = LIST_FIRST(&uc->channels))) {
		LIST_REMOVE(channel, link);
		channel->uc = NULL;
	}
	evq_put(uc->async);
	for (int i = 0; i < SIM_MAX_IMPORTS; i++)
		evq_put(uc->imported[i]);
	LIST_REMOVE(uc, link);
	hca_unlock(h);
	free(uc->objs);
	free(uc);
	return true;
}
