// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "memlock.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* PROC_USER_INIT_INO of the kernel's include/linux/proc_ns.h, unchanged since 3.8; USER_NS_INIT_INO in nsfs.h. */
#define FIRST_USER_NS_INO 0xEFFFFFFDu

/* Checks the program's first thread: this thread may have been started before the program dropped its capabilities. */
static bool may_lock_anyway(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = getpid()};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	struct stat ns;

	return !syscall(SYS_capget, &header, caps) &&
	       caps[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK) &&
	       !stat("/proc/self/ns/user", &ns) && ns.st_ino == FIRST_USER_NS_INO;
}

bool mesh_memlock_bounded(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur == RLIM_INFINITY)
		return false;
	return !may_lock_anyway();
}
