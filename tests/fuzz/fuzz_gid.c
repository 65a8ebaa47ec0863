/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* mv_gid_parse() on any text, and mv_gid_format() on any 16 bytes. */
#include "fuzz.h"

#include <string.h>

#include "gid.h"

static void check_round_trip(const union ibv_gid *gid)
{
	char text[MV_GID_STRLEN];
	union ibv_gid again;

	mv_gid_format(gid, text);
	FUZZ_CHECK(strlen(text) < sizeof(text));
	FUZZ_CHECK(!mv_gid_parse(text, &again));
	FUZZ_CHECK(mv_gid_equal(gid, &again));
	FUZZ_CHECK(mv_gid_in_prefix(gid, &again, 128));
	for (unsigned int bits = 0; bits <= 128; bits++) {
		again = mv_gid_network(gid, bits);
		FUZZ_CHECK(mv_gid_in_prefix(gid, &again, bits));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	union ibv_gid gid;

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (!mv_gid_parse(text, &gid))
		check_round_trip(&gid);
	free(text);
	if (size >= sizeof(gid)) {
		memcpy(&gid, data, sizeof(gid));
		check_round_trip(&gid);
	}
	return 0;
}
