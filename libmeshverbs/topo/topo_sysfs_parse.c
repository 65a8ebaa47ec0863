/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Parses attributes below /sys/class/infiniband; topo_sysfs.c reads them. */
#include "topo_sysfs.h"

#include <errno.h>
#include <string.h>

/* Is @text equal to @word, with or without a newline? */
static bool is_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	return !strncmp(text, word, len) && (!text[len] || (text[len] == '\n' && !text[len + 1]));
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int mv_sysfs_parse_gid_type(const char *text, enum mv_gid_type *ret_type)
{
	/* Kernels print the first one for InfiniBand and for RoCE v1 (ib_core's gid_type_str). */
	if (is_word(text, "IB/RoCE v1") || is_word(text, "RoCE v1"))
		*ret_type = MV_GID_TYPE_ROCE_V1;
	else if (is_word(text, "RoCE v2"))
		*ret_type = MV_GID_TYPE_ROCE_V2;
	else
		return -EINVAL;
	return 0;
}

int mv_sysfs_parse_link_layer(const char *text, uint8_t *ret_link_layer)
{
	if (is_word(text, "Ethernet"))
		*ret_link_layer = IBV_LINK_LAYER_ETHERNET;
	else if (is_word(text, "InfiniBand"))
		*ret_link_layer = IBV_LINK_LAYER_INFINIBAND;
	else
		return -EINVAL;
	return 0;
}

int mv_sysfs_parse_state(const char *text, uint8_t *ret_state)
{
	if (!is_digit(text[0]) || text[1] != ':' || text[0] - '0' > IBV_PORT_ACTIVE_DEFER)
		return -EINVAL;
	*ret_state = (uint8_t)(text[0] - '0');
	return 0;
}

int mv_sysfs_parse_rate(const char *text, uint32_t *ret_mbps)
{
	uint32_t mbps = 0, unit = 100;

	if (!is_digit(*text))
		return -EINVAL;
	/* Far below overflow, far above the rate of any link. */
	for (; is_digit(*text); text++) {
		mbps = 10 * mbps + 1000 * (uint32_t)(*text - '0');
		if (mbps > 100 * 1000 * 1000)
			return -EINVAL;
	}
	if (*text == '.')
		for (text++; is_digit(*text); text++, unit /= 10)
			mbps += unit * (uint32_t)(*text - '0');
	if (strncmp(text, " Gb/sec", strlen(" Gb/sec")))
		return -EINVAL;
	*ret_mbps = mbps;
	return 0;
}

static int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int mv_sysfs_parse_guid(const char *text, uint64_t *ret_guid)
{
	uint64_t guid = 0;

	for (int i = 0; i < 19; i++) {
		int digit = hex_value(text[i]);

		if (i % 5 == 4) {
			if (text[i] != ':')
				return -EINVAL;
			continue;
		}
		if (digit < 0)
			return -EINVAL;
		guid = guid << 4 | (uint64_t)digit;
	}
	if (!is_word(text + 19, ""))
		return -EINVAL;
	*ret_guid = guid;
	return 0;
}

int mv_sysfs_parse_ipoib_address(const char *text, union ibv_gid *ret_gid)
{
	uint8_t bytes[20];

	for (size_t i = 0; i < sizeof(bytes); i++, text += 2) {
		int high, low;

		if (i && *text++ != ':')
			return -EINVAL;
		high = hex_value(text[0]);
		low = high < 0 ? -1 : hex_value(text[1]);
		if (low < 0)
			return -EINVAL;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	if (!is_word(text, ""))
		return -EINVAL;
	memcpy(ret_gid->raw, &bytes[4], sizeof(ret_gid->raw));
	return 0;
}

int mv_sysfs_parse_number(const char *text, uint32_t max, uint32_t *ret_number)
{
	uint64_t number = 0;
	uint32_t base = 10;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		base = 16;
		text += 2;
	}
	if (is_word(text, ""))
		return -EINVAL;
	for (; !is_word(text, ""); text++) {
		int digit = hex_value(*text);

		if (digit < 0 || (uint32_t)digit >= base)
			return -EINVAL;
		number = number * base + (uint64_t)digit;
		if (number > max)
			return -EINVAL;
	}
	*ret_number = (uint32_t)number;
	return 0;
}

int mv_sysfs_parse_gid(const char *text, union ibv_gid *ret_gid)
{
	char line[MV_GID_STRLEN];
	size_t len = strcspn(text, "\n");

	if (len >= sizeof(line) || !is_word(text + len, ""))
		return -EINVAL;
	memcpy(line, text, len);
	line[len] = '\0';
	return mv_gid_parse(line, ret_gid);
}
