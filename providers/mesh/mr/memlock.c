// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "memlock.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* PROC_USER_INIT_INO of the kernel's include/linux/proc_ns.h, the same since 3.8; nsfs.h has it as USER_NS_INIT_INO. */
#define FIRST_USER_NS_INO 0xEFFFFFFDu

/* Of the thread that the program began with: ours may have been started before it gave its rights away. */
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
