/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESHVERBS_PLACES_H
#define MESHVERBS_PLACES_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Directories of the agent. RUN_DIR (/run/meshverbs) is mounted into containers, and has the directory file and the
 * processes' socket only. CONTROL_DIR is not mounted, and has the control socket and the agent's own files. Unless
 * configured, CONTROL_DIR is RUN_DIR's name with "d" appended (/run/meshverbsd).
 */

/**
 * mv_control_dir - default of CONTROL_DIR
 * @run_dir: trailing slashes are ignored
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
