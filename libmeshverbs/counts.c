/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "counts.h"

#include "ctl.h"
#include "decide.h"

static const uint64_t bounds_us[MV_PAUSE_BUCKETS - 1] = MV_PAUSE_BOUNDS_US;

_Static_assert(MV_COUNT_DECIDED_END > MV_COUNT_DECIDED + MV_PASS, "one for each action");
_Static_assert(MV_COUNT_GIVEN_UP_END >= MV_COUNT_GIVEN_UP + MV_CTL_REASON_END, "one for each reason");
_Static_assert(MV_N_COUNTS <= MV_COUNTS_MAX, "room");

#define DECIDED	 "GID decisions, one for each connect and address handle"
#define REPAIRED "Queue pairs and address handles that were given another GID index than the program's"
#define OBSERVED "Decisions that were not carried out because of mode = observe"
#define GIVEN_UP "Connections on a path that does not work which were left there, by reason"

static const struct mv_count_row rows[MV_N_COUNTS] = {
	[MV_COUNT_DECIDED + MV_KEEP] = {"decisions", "action", "keep", DECIDED},
	[MV_COUNT_DECIDED + MV_REPAIR] = {"decisions", "action", "repair", DECIDED},
	[MV_COUNT_DECIDED + MV_REPLACE] = {"decisions", "action", "replace", DECIDED},
	[MV_COUNT_DECIDED + MV_PASS] = {"decisions", "action", "pass", DECIDED},
	[MV_COUNT_REPAIRED_QP] = {"repairs", "of", "qp", REPAIRED},
	[MV_COUNT_REPAIRED_AH] = {"repairs", "of", "ah", REPAIRED},
	[MV_COUNT_REPAIR_REFUSED] = {"repairs_refused", 0, 0,
				     "Repaired GID indexes that the provider did not take"},
	[MV_COUNT_OBSERVED_GID] = {"observed", "would", "gid", OBSERVED},
	[MV_COUNT_OBSERVED_MOVE] = {"observed", "would", "move", OBSERVED},
	[MV_COUNT_STUCK] = {"connections_stuck", 0, 0,
			    "Connections on a path that does not work and for which there is no other"},
	[MV_COUNT_HELD] = {"connections_held", 0, 0, "Connections whose path was put to the peer"},
	[MV_COUNT_MOVED] = {"moves", "at", "connect", "Connections that moved to another path"},
	[MV_COUNT_GIVEN_UP + MV_CTL_REASON_NONE] = {"moves_given_up", "reason", "timeout", GIVEN_UP},
	[MV_COUNT_GIVEN_UP + MV_CTL_REASON_NATIVE] = {"moves_given_up", "reason", "native", GIVEN_UP},
	[MV_COUNT_GIVEN_UP + MV_CTL_REASON_NO_PATH] = {"moves_given_up", "reason", "no_path", GIVEN_UP},
	[MV_COUNT_GIVEN_UP + MV_CTL_REASON_NO_RESOURCES] = {"moves_given_up", "reason", "no_resources",
							    GIVEN_UP},
	[MV_COUNT_GIVEN_UP + MV_CTL_REASON_MISMATCH] = {"moves_given_up", "reason", "mismatch", GIVEN_UP},
	[MV_COUNT_GIVEN_UP + MV_CTL_REASON_OFF] = {"moves_given_up", "reason", "off", GIVEN_UP},
	[MV_COUNT_GIVEN_UP + MV_CTL_REASON_UNSUPPORTED] = {"moves_given_up", "reason", "unsupported",
							   GIVEN_UP},
	[MV_COUNT_GIVEN_UP + MV_CTL_REASON_UNREACHABLE] = {"moves_given_up", "reason", "unreachable",
							   GIVEN_UP},
	[MV_COUNT_RELAYED_AH] = {"relayed_handles", 0, 0,
				 "Address handles whose datagrams go by another NIC"},
	[MV_COUNT_SURFACED] = {"surfaced_errors", 0, 0,
			       "Connections that were given an error because no way was left"},
};

const struct mv_count_row *mv_count_row(size_t place)
{
	return &rows[place];
}

const struct mv_pause_row *mv_pause_rows(void)
{
	static const struct mv_pause_row pauses[] = {
		{"connect", MV_COUNT_CONNECT_PAUSE},
		{0},
	};

	return pauses;
}

size_t mv_pause_bucket(uint64_t pause_us)
{
	size_t bucket = 0;

	while (bucket < MV_PAUSE_BUCKETS - 1 && pause_us > bounds_us[bucket])
		bucket++;
	return bucket;
}

uint64_t mv_pause_bound_us(size_t bucket)
{
	return bucket < MV_PAUSE_BUCKETS - 1 ? bounds_us[bucket] : UINT64_MAX;
}
