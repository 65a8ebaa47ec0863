/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESHVERBS_PLACES_H
#define MESHVERBS_PLACES_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * RUN_DIR (/run/meshverbs) is mounted into containers: it has the directory of peers and the socket of processes, nothing
 * else. CONTROL_DIR is not: it has the control socket and what the agent keeps for itself. Unless named, it is beside RUN_DIR,
 * under its name with a "d" (/run/meshverbsd).
 */

/**
 * mv_control_dir - CONTROL_DIR where it is not named
 * @run_dir: slashes at its end do not count
 * @ret: @size bytes
 *
 * Return: 0; -ENAMETOOLONG; -EINVAL: @run_dir is empty or the root.
 */
static inline int mv_control_dir(const char *run_dir, char *ret, size_t size)
{
	size_t len = strlen(run_dir);

	while (len && run_dir[len - 1] == '/')
		len--;
	if (!len)
		return -EINVAL;
	if (len + sizeof("d") > size)
		return -ENAMETOOLONG;
	memcpy(ret, run_dir, len);
	memcpy(ret + len, "d", sizeof("d"));
	return 0;
}

#endif
