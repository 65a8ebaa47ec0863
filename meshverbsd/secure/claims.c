/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "claims.h"

#include <string.h>

bool md_claim_wins(const struct md_claim *holder, const struct md_claim *claimant)
{
	if (!memcmp(&holder->host, &claimant->host, sizeof(holder->host)) || !holder->live)
		return true;
	if (holder->vouched && claimant->evidence < MD_EVIDENCE_FILE)
		return false;
	return claimant->evidence > holder->evidence;
}
