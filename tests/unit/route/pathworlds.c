/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pathworlds.h"

static uint8_t type_of(const char *name)
{
	if (!strcmp(name, "v1"))
		return MV_GID_TYPE_ROCE_V1;
	if (!strcmp(name, "ib"))
		return MV_GID_TYPE_IB;
	return MV_GID_TYPE_ROCE_V2;
}

struct mv_path_request request_of(const char *text, char device[64])
{
	char source[64], type[8], destination[64], option[16] = "";
	struct mv_path_request request = {.device = device, .port_num = 1};

	assert_true(sscanf(text, "%63s %63s %7s %63s %15s", device, source, type, destination,
			   option) >= 4);
	request.sgid = unit_gid(source);
	request.sgid_type = type_of(type);
	request.dgid = unit_gid(destination);
	request.routed = !strcmp(option, "routed");
	request.made = !strcmp(option, "made");
	request.proved = !strcmp(option, "proved");
	request.by_links = !strcmp(option, "links") || !strcmp(option, "nobody") || !strncmp(option, "lid", 3);
	request.dlid = !strncmp(option, "lid", 3) ? (uint16_t)atoi(option + 3) : 0;
	request.routed |= !strcmp(option, "nobody"); /* at the end of the kernel's route */
	if (!strcmp(option, "port2"))
		request.port_num = 2;
	return request;
}
