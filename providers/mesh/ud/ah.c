// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "count.h"
#include "directory_client.h"
#include "paths.h"
#include "ud.h"

struct ibv_ah *mesh_lower_ah(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = mc->lower.create_ah(pd, attr);

	if (ah) {
		ah->context = pd->context;
		ah->pd = pd;
	}
	return ah;
}

/* NULL: the caller makes the lower provider's handle with @choice->index. */
static struct ibv_ah *choose(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_ah_attr *attr,
			     struct mesh_choice *choice)
{
	struct ibv_ah *ah = NULL;
	int cancel = mesh_cancel_off();

	/* Without cache: a lost datagram is noticed by the program only. */
	mesh_paths_choose(mc, pd->context, attr, MV_DATAGRAM, true, choice);
	if (choice->index == attr->grh.sgid_index)
		ah = mesh_ud_create_ah(mc, pd, attr, choice);
	if (!ah && choice->differs)
		mesh_counts_changed();
	if (!ah)
		mesh_paths_why_not(choice);
	mesh_cancel_restore(cancel);
	return ah;
}

/*
 * The lower provider's handle, as the lower provider gives it to the program. @ret_err: 0: no error is known, as mlx5
 * sets none for a port that does not exist. Then the program keeps its errno, @program_errno.
 */
static struct ibv_ah *ask_lower(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_ah_attr *attr, int program_errno, int *ret_err)
{
	struct ibv_ah *ah;

	errno = 0;
	ah = mc->lower.create_ah(pd, attr);
	*ret_err = errno;
	if (!errno)
		errno = program_errno;
	return ah;
}

struct ibv_ah *mesh_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	struct ibv_ah_attr repaired;
	struct mesh_choice choice;
	struct ibv_ah *ah;
	bool stranger, absent;
	int program_errno = errno, saved_errno, err;

	if (!attr->is_global || !mesh_context_active(mc))
		return mc->lower.create_ah(pd, attr);

	ah = choose(mc, pd, attr, &choice);
	if (ah)
		return ah;
	if (choice.index == attr->grh.sgid_index) {
		stranger = !choice.fits && mc->sees_peers && mesh_directory_is_stranger(&attr->grh.dgid, false);
		ah = ask_lower(mc, pd, attr, program_errno, &err);
		if (ah)
			return ah;
		saved_errno = errno;
		/* No host without an agent has the address: believe the links on which the host is heard that announces the address. */
		absent = mc->sees_peers && mesh_is_nobody_there(err);
		if (absent)
			mesh_directory_note_absent(&choice.gid, &attr->grh.dgid);
		/*
		 * The lower provider has waited for a neighbour for a second or more. By then the host may have
		 * answered the agent.
		 */
		if (absent || (stranger && !mesh_directory_is_stranger(&attr->grh.dgid, false)))
			ah = choose(mc, pd, attr, &choice);
		errno = saved_errno;
		return ah;
	}

	repaired = *attr;
	repaired.grh.sgid_index = choice.index;
	ah = mc->lower.create_ah(pd, &repaired);
	mesh_count(ah ? MV_COUNT_REPAIRED_AH : MV_COUNT_REPAIR_REFUSED);
	/* The program gets the result that it would have got on a bare HCA. */
	return ah ? ah : mc->lower.create_ah(pd, attr);
}
