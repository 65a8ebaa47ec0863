/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The parsers of sysfs attributes: the first byte picks one, the rest is its text. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "topo_sysfs.h"

static int parse_one(unsigned int selector, const char *text)
{
	enum mv_gid_type type;
	uint8_t link_layer, state;
	uint32_t mbps, number;
	union ibv_gid gid;
	uint64_t guid;
	int err;

	switch (selector % 7) {
	case 0:
		err = mv_sysfs_parse_gid_type(text, &type);
		FUZZ_CHECK(err || type == MV_GID_TYPE_ROCE_V1 || type == MV_GID_TYPE_ROCE_V2);
		return err;
	case 1:
		err = mv_sysfs_parse_link_layer(text, &link_layer);
		FUZZ_CHECK(err || link_layer == IBV_LINK_LAYER_ETHERNET ||
			   link_layer == IBV_LINK_LAYER_INFINIBAND);
		return err;
	case 2:
		err = mv_sysfs_parse_state(text, &state);
		FUZZ_CHECK(err || state <= IBV_PORT_ACTIVE_DEFER);
		return err;
	case 3:
		err = mv_sysfs_parse_rate(text, &mbps);
		FUZZ_CHECK(err || mbps < 101 * 1000 * 1000);
		return err;
	case 4:
		return mv_sysfs_parse_guid(text, &guid);
	case 5:
		return mv_sysfs_parse_gid(text, &gid);
	default:
		err = mv_sysfs_parse_number(text, 65535, &number);
		FUZZ_CHECK(err || number <= 65535);
		return err;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;
	int err;

	if (!size)
		return 0;
	text = malloc(size);
	FUZZ_CHECK(text);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	err = parse_one(data[0], text);
	FUZZ_CHECK(!err || err == -EINVAL);
	free(text);
	return 0;
}
