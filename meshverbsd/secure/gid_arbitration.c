/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "gid_arbitration.h"

#include <string.h>

/* The holder may have invented itself, and may have claimed first a GID that another host has. */
static bool may_be_a_thief(const struct md_gid_claim *holder, const struct md_gid_claim *claimant)
{
	return holder->evidence < MD_EVIDENCE_ON_LINK && claimant->vouched && claimant->evidence >= MD_EVIDENCE_ON_LINK;
}

bool md_gid_claim_wins(const struct md_gid_claim *holder, const struct md_gid_claim *claimant)
{
	if (!memcmp(&holder->host, &claimant->host, sizeof(holder->host)) || !holder->live)
		return true;
	if (holder->vouched && claimant->evidence < MD_EVIDENCE_FILE && !may_be_a_thief(holder, claimant))
		return false;
	return claimant->evidence > holder->evidence;
}
