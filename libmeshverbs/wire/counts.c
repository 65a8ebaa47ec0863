/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "counts.h"

#include <string.h>

#include "ctl.h"
#include "decide.h"

static const uint64_t bounds_us[MV_PAUSE_BUCKETS - 1] = MV_PAUSE_BOUNDS_US;

_Static_assert(MV_COUNT_DECIDED_END > MV_COUNT_DECIDED + MV_PASS, "one for each action");
_Static_assert(MV_COUNT_GIVEN_UP_END >= MV_COUNT_GIVEN_UP + MV_CTL_REASON_END,
	       "one for each reason");
_Static_assert(MV_COUNT_FAILOVER_REASONS == MV_CTL_REASON_END - MV_CTL_REASON_PORT, "all that move at work");
_Static_assert(MV_N_COUNTS <= MV_COUNTS_MAX, "room");

#define FAILOVER(first, reason, places) ((first) + (MV_CTL_REASON_##reason - MV_CTL_REASON_PORT) * (places))

#define DECIDED "GID decisions, one for each connect and address handle"
#define REPAIRED                                                                                   \
	"Queue pairs and address handles that were given another GID index than the program's"
#define OBSERVED "Decisions that were not carried out because of mode = observe"
#define MOVED    "Connections that moved to another path, by when: as they were made, or why at work"
#define GIVEN_UP "Connections that were to move and stayed, by reason"

#define ARMED "Memory regions, queue pairs and their connections made on the NIC that would be moved to next"

#define DECIDED_TO(action, word)                                                                   \
	[MV_COUNT_DECIDED + (action)] = {"decisions", "action", word, DECIDED}
#define GAVE_UP(reason, word)                                                                      \
	[MV_COUNT_GIVEN_UP + MV_CTL_REASON_##reason] = {"moves_given_up", "reason", word, GIVEN_UP}
#define MOVED_AT(reason, word)   [FAILOVER(MV_COUNT_MOVED_FAILOVER, reason, 1)] = {"moves", "at", word, MOVED}
#define PLAIN(count, name, help) [count] = {name, NULL, NULL, help}

static const struct mv_count_row rows[MV_N_COUNTS] = {
	DECIDED_TO(MV_KEEP, "keep"),
	DECIDED_TO(MV_REPAIR, "repair"),
	DECIDED_TO(MV_REPLACE, "replace"),
	DECIDED_TO(MV_PASS, "pass"),
	[MV_COUNT_REPAIRED_QP] = {"repairs", "of", "qp", REPAIRED},
	[MV_COUNT_REPAIRED_AH] = {"repairs", "of", "ah", REPAIRED},
	PLAIN(MV_COUNT_REPAIR_REFUSED, "repairs_refused", "Repaired GID indexes that the provider did not take"),
	[MV_COUNT_OBSERVED_GID] = {"observed", "would", "gid", OBSERVED},
	[MV_COUNT_OBSERVED_MOVE] = {"observed", "would", "move", OBSERVED},
	PLAIN(MV_COUNT_STUCK, "connections_stuck",
	      "Connections on a path that does not work and for which there is no other"),
	PLAIN(MV_COUNT_HELD, "connections_negotiated", "Connections whose path was put to the peer"),
	[MV_COUNT_MOVED] = {"moves", "at", "connect", MOVED},
	MOVED_AT(PORT, "port"),
	MOVED_AT(PATH, "path"),
	MOVED_AT(DRAIN, "drain"),
	MOVED_AT(PRIMARY, "home"),
	GAVE_UP(NONE, "timeout"),
	GAVE_UP(PASSTHROUGH, "native"),
	GAVE_UP(NO_PATH, "no_path"),
	GAVE_UP(NO_RESOURCES, "no_resources"),
	GAVE_UP(MISMATCH, "mismatch"),
	GAVE_UP(OFF, "off"),
	GAVE_UP(UNSUPPORTED, "unsupported"),
	GAVE_UP(UNREACHABLE, "unreachable"),
	GAVE_UP(HEALED, "healed"),
	GAVE_UP(GONE, "gone"),
	GAVE_UP(TIMEOUT, "peer_timeout"),
	GAVE_UP(UNREADABLE, "unreadable"),
	GAVE_UP(BUSY, "busy"),
	PLAIN(MV_COUNT_RELAYED_AH, "relayed_handles", "Address handles whose datagrams go by another NIC"),
	PLAIN(MV_COUNT_SURFACED, "flushed_errors", "Connections that were given an error because no way was left"),
	[MV_COUNT_ARMED_MR] = {"armed", "what", "mr", ARMED},
	[MV_COUNT_ARMED_QP] = {"armed", "what", "qp", ARMED},
	PLAIN(MV_COUNT_ARM_FAILED, "arm_failed", "Times that something for the next move could not be made in advance"),
	[MV_COUNT_ARMED_CONNECTED] = {"armed", "what", "connection", ARMED},
};

const struct mv_count_row *mv_count_row(size_t place)
{
	return &rows[place];
}

const char *mv_count_former(const char *name)
{
	static const struct {
		const char *name, *former;
	} names[] = {
		{"connections_negotiated", "connections_held"},
		{"flushed_errors", "surfaced_errors"},
		{"armed", "made_ahead"},
		{"arm_failed", "made_ahead_failed"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i].name, name))
			return names[i].former;
	return NULL;
}

const struct mv_pause_row *mv_pause_rows(void)
{
	static const struct mv_pause_row pauses[] = {
		{"connect", MV_COUNT_CONNECT_PAUSE},
		{"port", FAILOVER(MV_COUNT_FAILOVER_PAUSE, PORT, MV_PAUSE_PLACES)},
		{"path", FAILOVER(MV_COUNT_FAILOVER_PAUSE, PATH, MV_PAUSE_PLACES)},
		{"drain", FAILOVER(MV_COUNT_FAILOVER_PAUSE, DRAIN, MV_PAUSE_PLACES)},
		{"home", FAILOVER(MV_COUNT_FAILOVER_PAUSE, PRIMARY, MV_PAUSE_PLACES)},
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
