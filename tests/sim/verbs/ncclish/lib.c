// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "lib.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lib lib;

static const struct {
	const char *name, *version;
	size_t at;
} functions[] = {
#define FUNCTION(member, version)                                                                  \
	{                                                                                          \
		"ibv_" #member, version, offsetof(struct lib, member)                              \
	}
	FUNCTION(get_device_list, "IBVERBS_1.1"), FUNCTION(free_device_list, "IBVERBS_1.1"),
	FUNCTION(get_device_name, "IBVERBS_1.1"), FUNCTION(open_device, "IBVERBS_1.1"),
	FUNCTION(close_device, "IBVERBS_1.1"),    FUNCTION(query_port, "IBVERBS_1.1"),
	FUNCTION(query_gid, "IBVERBS_1.1"),       FUNCTION(alloc_pd, "IBVERBS_1.1"),
	FUNCTION(dealloc_pd, "IBVERBS_1.1"),      FUNCTION(reg_mr_iova2, "IBVERBS_1.8"),
	FUNCTION(dereg_mr, "IBVERBS_1.1"),        FUNCTION(create_cq, "IBVERBS_1.1"),
	FUNCTION(destroy_cq, "IBVERBS_1.1"),      FUNCTION(create_qp, "IBVERBS_1.1"),
	FUNCTION(modify_qp, "IBVERBS_1.1"),       FUNCTION(destroy_qp, "IBVERBS_1.1"),
#undef FUNCTION
};

void die(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("ncclish: ", stderr);
	vfprintf(stderr, format, args);
	fprintf(stderr, err ? ": %s\n" : "\n", strerror(err));
	va_end(args);
	exit(1);
}

void lib_load(void)
{
	/* NCCL 2.26 and later: libmlx5 comes first, so its driver is registered before libibverbs
	 * looks for any. */
	void *mlx5 = dlopen("libmlx5.so", RTLD_NOW), *verbs;

	if (!mlx5)
		mlx5 = dlopen("libmlx5.so.1", RTLD_NOW);
	if (!mlx5)
		die(0, "no libmlx5: %s", dlerror());
	verbs = dlopen("libibverbs.so", RTLD_NOW);
	if (!verbs)
		verbs = dlopen("libibverbs.so.1", RTLD_NOW);
	if (!verbs)
		die(0, "no libibverbs: %s", dlerror());
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		void *function = dlvsym(verbs, functions[i].name, functions[i].version);

		if (!function)
			die(0, "%s", dlerror());
		memcpy((char *)&lib + functions[i].at, &function, sizeof(function));
	}
}
