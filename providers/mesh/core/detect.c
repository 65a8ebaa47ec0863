// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "detect.h"

#include <string.h>

#include "mesh.h"

bool mesh_detect_parse(const char *text, unsigned int *ret)
{
	static const struct {
		const char *name;
		enum mesh_detect what;
	} names[] = {{"carrier", MESH_DETECT_CARRIER},
		     {"event", MESH_DETECT_EVENT},
		     {"probe", MESH_DETECT_PROBE},
		     {"retry", MESH_DETECT_RETRY},
		     {"peer", MESH_DETECT_PEER}};
	unsigned int mask = 0;
	size_t len, i;

	for (; text && *text; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strlen(names[i].name) == len && !memcmp(names[i].name, text, len))
				break;
		if (i == sizeof(names) / sizeof(names[0]))
			return false;
		mask |= names[i].what;
	}
	*ret = text ? MESH_DETECT_ALL & ~mask : 0;
	return true;
}

bool mesh_detects(enum mesh_detect what)
{
	return !(mesh_root.undetected & what);
}
