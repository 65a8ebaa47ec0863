/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of other hosts: which of them have arrived before? */
#include "msg_relay.h"

#include <string.h>

#include "ctl.h"

static uint64_t hash_of(const struct mv_host_id *sender, uint64_t start, const struct md_envelope *msg)
{
	struct {
		struct mv_host_id sender;
		uint64_t start, id;
		uint8_t data[MV_CTL_MAX_BYTES];
	} what = {.sender = *sender, .start = start, .id = msg->id};

	memcpy(what.data, msg->data, msg->len);
	return md_hash64(&what, offsetof(typeof(what), data) + msg->len);
}

bool md_msg_relay_is_copy(struct md_msg_relay *relay, const struct mv_host_id *sender, uint64_t start,
			  const struct md_envelope *msg)
{
	return md_msg_dedup_has(&relay->dedup, hash_of(sender, start, msg));
}

bool md_msg_relay_first(struct md_msg_relay *relay, const struct mv_host_id *sender, uint64_t start,
			const struct md_envelope *msg, uint64_t now_ns)
{
	bool first = md_msg_dedup_first(&relay->dedup, hash_of(sender, start, msg), now_ns);

	if (first)
		relay->count.received++;
	else
		relay->count.repeated++;
	return first;
}
