// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * meshverbs-probe [LIBRARY]: the shortest verbs program, for `meshverbs status`. It loads LIBRARY
 * first, as a program that links it does, then lists the RDMA devices, opens and closes each. On
 * stdout:
 *
 *   library TEXT            LIBRARY cannot be loaded
 *   list TEXT               the devices cannot be listed
 *   device NAME opened
 *   device NAME failed TEXT
 *   end                     all of it was done
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

static void probe_device(struct ibv_device *device)
{
	const char *name = ibv_get_device_name(device);
	struct ibv_context *context;

	errno = 0;
	context = ibv_open_device(device);
	if (!context) {
		printf("device %s failed %s\n", name,
		       errno ? strerror(errno) : "ibv_open_device gave no reason");
		return;
	}
	printf("device %s opened\n", name);
	if (ibv_close_device(context))
		printf("device %s failed closing: %s\n", name, strerror(errno));
}

int main(int argc, char **argv)
{
	struct ibv_device **list;
	int i, n = 0;

	/* Line buffering, so that lines before a crash are seen. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) {
		printf("library %s\n", dlerror());
		puts("end");
		return 0;
	}
	errno = 0;
	list = ibv_get_device_list(&n);
	if (!list)
		printf("list %s\n", strerror(errno));
	for (i = 0; i < n; i++)
		probe_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	puts("end");
	return 0;
}
