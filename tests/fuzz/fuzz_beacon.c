/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What other agents say: payloads of beacons and answers, descriptions, envelopes, bundles, probes. First byte: which.
 * What is accepted is written back and has to be the same bytes: there is one way to say a thing.
 */
#include "fuzz.h"

#include <string.h>

#include "beacon.h"
#include "bundle_wire.h"
#include "hosts.h"
#include "msg_envelope.h"
#include "probe_wire.h"

static void check_desc(const uint8_t *data, size_t size)
{
	static uint8_t first[MD_DESC_BYTES_MAX], again[MD_DESC_BYTES_MAX];
	struct md_desc *desc;
	uint32_t n_gids = 0;

	if (md_desc_decode(data, size, &desc))
		return;
	FUZZ_CHECK(desc->n_rails <= MD_RAILS_MAX && desc->n_gids <= MD_GIDS_MAX);
	for (uint32_t r = 0; r < desc->n_rails; r++) {
		FUZZ_CHECK(desc->rails[r].first_gid == n_gids);
		n_gids += desc->rails[r].n_gids;
		FUZZ_CHECK(memchr(desc->rails[r].device, '\0', sizeof(desc->rails[r].device)));
		FUZZ_CHECK(memchr(desc->rails[r].netdev, '\0', sizeof(desc->rails[r].netdev)));
	}
	FUZZ_CHECK(n_gids == desc->n_gids);
	/* But for flags of rails that are not known, what is encoded again is the same. */
	FUZZ_CHECK(md_desc_encode(desc, first) == size);
	free(desc);
	FUZZ_CHECK(!md_desc_decode(first, size, &desc));
	FUZZ_CHECK(md_desc_encode(desc, again) == size);
	FUZZ_CHECK(!memcmp(first, again, size));
	free(desc);
}

static void check_beacon(const uint8_t *data, size_t size)
{
	uint8_t again[MD_PAYLOAD_MAX_BYTES];
	struct md_beacon beacon;

	if (md_beacon_decode(data, size, &beacon))
		return;
	FUZZ_CHECK(memchr(beacon.name, '\0', sizeof(beacon.name)));
	FUZZ_CHECK(!beacon.piece_bytes ||
		   (beacon.data >= data && beacon.data + beacon.piece_bytes == data + size));
	FUZZ_CHECK(md_beacon_encode(&beacon, again) == size);
	FUZZ_CHECK(!memcmp(data, again, size));
}

static void check_envelope(const uint8_t *data, size_t size)
{
	uint8_t again[MD_PAYLOAD_MAX_BYTES];
	struct md_envelope envelope;

	if (md_envelope_decode(data, size, &envelope))
		return;
	FUZZ_CHECK(md_envelope_encode(&envelope, again) == size);
	FUZZ_CHECK(!memcmp(data, again, size));
}

/* One and the same message can be written in many ways; ours gives it back, too. */
static void check_message(const struct md_envelope *envelope)
{
	uint8_t again[MD_PAYLOAD_MAX_BYTES];
	struct md_bundle_writer w;
	struct md_bundle_wire bundle;
	struct md_envelope back;

	md_bundle_begin(&w, again, MD_MSG_DATA, 0);
	FUZZ_CHECK(md_bundle_add(&w, envelope));
	FUZZ_CHECK(md_bundle_add(&w, envelope)); /* the same once more: runs of what is the same */
	FUZZ_CHECK(!md_bundle_decode(again, md_bundle_end(&w, 2), &bundle));
	for (int i = 0; i < 2; i++) {
		md_bundle_next(&bundle, &back);
		FUZZ_CHECK(back.id == envelope->id && back.len == envelope->len &&
			   !memcmp(back.data, envelope->data, back.len));
	}
}

static void check_bundle(const uint8_t *data, size_t size)
{
	uint8_t again[MD_PAYLOAD_MAX_BYTES];
	struct md_bundle_wire bundle;
	struct md_envelope envelope;
	struct md_bundle_writer w;

	if (size > sizeof(again) || md_bundle_decode(data, size, &bundle))
		return;
	md_bundle_begin(&w, again, bundle.op, bundle.start);
	for (unsigned int i = 0; i < bundle.n; i++) {
		md_bundle_next(&bundle, &envelope);
		if (bundle.op == MD_MSG_DATA)
			check_message(&envelope);
		else
			FUZZ_CHECK(md_bundle_add(&w, &envelope));
	}
	if (bundle.op != MD_MSG_DATA) {
		FUZZ_CHECK(md_bundle_end(&w, bundle.n) == size);
		FUZZ_CHECK(!memcmp(data, again, size));
	}
}

static void check_probe(const uint8_t *data, size_t size)
{
	uint8_t again[MD_PROBE_BYTES];
	struct md_probe_wire probe;

	if (md_probe_decode(data, size, &probe))
		return;
	FUZZ_CHECK(md_probe_encode(&probe, again) == size);
	FUZZ_CHECK(!memcmp(data, again, size));
}

/* A row of datagrams, each as [length 2][host 1][netdev 1][payload], into the table of hosts. */
static void check_hosts(const uint8_t *data, size_t size)
{
	struct md_hosts hosts = {0};
	uint64_t now_ns = MD_S;
	unsigned int changed;

	while (size >= 4) {
		struct md_heard heard = {
			.start = 1, .ifindex = 1u + data[3] % 4, .answer = data[3] & 0x80};
		size_t len = (size_t)data[0] << 8 | data[1];
		struct md_beacon beacon;

		heard.sender.bytes[0] = data[2] % 8 + 1;
		data += 4;
		size -= 4;
		if (len > size)
			len = size;
		if (!md_beacon_decode(data, len, &beacon))
			md_hosts_hear(&hosts, &heard, &beacon, now_ns, &changed);
		data += len;
		size -= len;
		now_ns += 100 * MD_MS;
		if (!(now_ns / (100 * MD_MS) % 16))
			md_hosts_expire(&hosts, now_ns);
		FUZZ_CHECK(hosts.n <= 8);
		FUZZ_CHECK(hosts.n_partial <= hosts.n * 5); /* 4 netdevs, and answers */
	}
	md_hosts_fini(&hosts);
	FUZZ_CHECK(!hosts.n && !hosts.n_partial && !hosts.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	/* Files of the corpus from before there were probes and bundles mean what they meant. */
	if (data[0] == 0xfe) {
		check_bundle(data + 1, size - 1);
		return 0;
	}
	if (data[0] == 0xff) {
		check_probe(data + 1, size - 1);
		return 0;
	}
	switch (data[0] % 4) {
	case 0:
		check_desc(data + 1, size - 1);
		break;
	case 1:
		check_beacon(data + 1, size - 1);
		break;
	case 2:
		check_envelope(data + 1, size - 1);
		break;
	default:
		check_hosts(data + 1, size - 1);
	}
	return 0;
}
