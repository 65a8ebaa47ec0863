/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "seen.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct record {
	uint32_t index;
	uint8_t port_num;
	struct mv_seen seen;
};

/* In order of observation: the newest record of an index is its last one. */
struct mv_seen_log {
	size_t n, cap;
	struct record *records;
};

struct mv_seen_log *mv_seen_new(void)
{
	return calloc(1, sizeof(struct mv_seen_log));
}

void mv_seen_free(struct mv_seen_log *log)
{
	if (!log)
		return;
	free(log->records);
	free(log);
}

static bool same_seen(const struct mv_seen *seen, const struct mv_gid_entry *entry)
{
	return seen->type == entry->type && mv_gid_equal(&seen->gid, &entry->gid);
}

static bool is_newest(const struct mv_seen_log *log, uint8_t port_num,
		      const struct mv_gid_entry *entry)
{
	for (size_t i = log->n; i-- > 0;)
		if (log->records[i].index == entry->index && log->records[i].port_num == port_num)
			return same_seen(&log->records[i].seen, entry);
	return false;
}

static void remove_record(struct mv_seen_log *log, size_t at)
{
	log->n--;
	memmove(&log->records[at], &log->records[at + 1], (log->n - at) * sizeof(log->records[0]));
}

/* mv_seen_update() has made room. */
static void append(struct mv_seen_log *log, uint8_t port_num, const struct mv_gid_entry *entry)
{
	/*
	 * A value that returns moves to the end, so an entry that alternates between two values takes two records only.
	 */
	for (size_t i = 0; i < log->n; i++) {
		const struct record *record = &log->records[i];

		if (record->index == entry->index && record->port_num == port_num &&
		    same_seen(&record->seen, entry)) {
			remove_record(log, i);
			break;
		}
	}
	if (log->n == MV_SEEN_MAX)
		remove_record(log, 0);
	log->records[log->n++] = (struct record){.index = entry->index,
						 .port_num = port_num,
						 .seen = {.gid = entry->gid, .type = entry->type}};
}

int mv_seen_update(struct mv_seen_log *log, const struct mv_port *port)
{
	size_t changes = 0, want;

	for (size_t i = 0; i < port->n_gids; i++)
		changes += !is_newest(log, port->num, &port->gids[i]);
	if (!changes)
		return 0;

	want = log->n + changes;
	if (want > MV_SEEN_MAX)
		want = MV_SEEN_MAX;
	if (want > log->cap) {
		struct record *grown = reallocarray(log->records, want, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		log->records = grown;
		log->cap = want;
	}
	for (size_t i = 0; i < port->n_gids; i++)
		if (!is_newest(log, port->num, &port->gids[i]))
			append(log, port->num, &port->gids[i]);
	return 0;
}

size_t mv_seen_get(const struct mv_seen_log *log, uint8_t port_num, uint32_t index,
		   struct mv_seen *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = log->n; i-- > 0 && n < max;)
		if (log->records[i].index == index && log->records[i].port_num == port_num)
			ret[n++] = log->records[i].seen;
	return n;
}
