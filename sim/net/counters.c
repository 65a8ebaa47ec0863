// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "host.h"
#include "sysfs_out.h"

#define COUNTER(member, ...)                                                                       \
	{                                                                                          \
		offsetof(struct sim_counters, member),                                             \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

/* Which files show a counter. The data counters of the standard count words of four bytes. */
static const struct {
	size_t offset;
	const char *files[3];
} shown[] = {
	COUNTER(tx_packets, "counters/port_xmit_packets", "counters/unicast_xmit_packets"),
	COUNTER(tx_bytes, "counters/port_xmit_data"),
	COUNTER(rx_packets, "counters/port_rcv_packets", "counters/unicast_rcv_packets"),
	COUNTER(rx_bytes, "counters/port_rcv_data"),
	COUNTER(rx_icrc_errors, "hw_counters/rx_icrc_encapsulated"),
	COUNTER(out_of_sequence, "hw_counters/out_of_sequence"),
	COUNTER(duplicate_request, "hw_counters/duplicate_request"),
	COUNTER(rnr_nak_retry_err, "hw_counters/rnr_nak_retry_err"),
	COUNTER(packet_seq_err, "hw_counters/packet_seq_err"),
	COUNTER(local_ack_timeout_err, "hw_counters/local_ack_timeout_err"),
};

static void show_counter(struct host *h, uint32_t dev, size_t k)
{
	char *base = (char *)&h->state->devs[dev].ports[0].counters;
	_Atomic uint64_t *counter = (void *)(base + shown[k].offset);
	uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

	if (strstr(shown[k].files[0], "_data"))
		value /= 4;
	if (value == h->shown[dev][k])
		return;
	h->shown[dev][k] = value;
	for (size_t f = 0; f < 3 && shown[k].files[f]; f++)
		sysfs_port_counter(h->state->devs[dev].name, shown[k].files[f], value);
}

void host_show_counters(struct host *h)
{
	_Static_assert(sizeof(shown) / sizeof(shown[0]) <=
			       sizeof(struct sim_counters) / sizeof(uint64_t),
		       "host.shown has a place for each");

	for (uint32_t dev = 0; dev < h->state->n_devs; dev++)
		for (size_t k = 0; k < sizeof(shown) / sizeof(shown[0]); k++)
			show_counter(h, dev, k);
}
