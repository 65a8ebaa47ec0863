/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "netns.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int netns_ip(const char *args)
{
	char command[256];

	snprintf(command, sizeof(command), "ip %s", args);
	return system(command);
}

/*
 * Makes the user that we were root of the new user namespace, or ip(8) would have no rights in it.
 */
static int map_root(uid_t uid, gid_t gid)
{
	const struct {
		const char *path;
		unsigned int outside;
	} maps[] = {{"/proc/self/uid_map", uid}, {"/proc/self/gid_map", gid}};
	FILE *file = fopen("/proc/self/setgroups", "we");
	int err = 0;

	if (!file)
		return -1;
	fputs("deny", file);
	err |= fclose(file);
	for (size_t i = 0; i < 2 && !err; i++) {
		file = fopen(maps[i].path, "we");
		if (!file)
			return -1;
		fprintf(file, "0 %u 1", maps[i].outside);
		err |= fclose(file);
	}
	return err;
}

static int enter(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (!uid)
		return unshare(CLONE_NEWNET);
	return unshare(CLONE_NEWUSER | CLONE_NEWNET) || map_root(uid, gid) ? -1 : 0;
}

bool netns_enter(void)
{
	if (enter()) {
		printf("no network namespace can be made here: %s\n", strerror(errno));
		return false;
	}
	if (netns_ip("link show lo >/dev/null 2>&1") || netns_ip("link add vx type veth peer name vy 2>/dev/null") ||
	    netns_ip("link del vx")) {
		printf("ip(8) or veth devices are missing: install iproute2\n");
		return false;
	}
	return true;
}
