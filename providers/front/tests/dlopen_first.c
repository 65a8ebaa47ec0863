// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Uses verbs as NCCL does: links neither library, opens libmlx5 first (by its development name,
 * then by its SONAME), takes versioned symbols from it, then does the same with libibverbs and
 * lists the devices.
 *
 * Prints "devices N supported M"; exits 1 with the reason if anything is missing.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>

static void *open_first(const char *const *names)
{
	for (; *names; names++) {
		void *h = dlopen(*names, RTLD_NOW);

		if (h)
			return h;
	}
	fprintf(stderr, "%s\n", dlerror());
	return NULL;
}

static void *symbol(void *handle, const char *name, const char *version)
{
	void *p = dlvsym(handle, name, version);

	if (!p)
		fprintf(stderr, "%s\n", dlerror());
	return p;
}

int main(void)
{
	static const char *const mlx5_names[] = {"libmlx5.so", "libmlx5.so.1", NULL};
	static const char *const verbs_names[] = {"libibverbs.so", "libibverbs.so.1", NULL};
	void *mlx5 = open_first(mlx5_names), *verbs = open_first(verbs_names);
	bool (*is_supported)(struct ibv_device * device);
	struct ibv_device **(*get_list)(int *n);
	struct ibv_device **list;
	int n = 0, supported = 0;

	if (!mlx5 || !verbs)
		return 1;
	is_supported =
		(bool (*)(struct ibv_device *))symbol(mlx5, "mlx5dv_is_supported", "MLX5_1.8");
	get_list = (struct ibv_device * *(*)(int *))
		symbol(verbs, "ibv_get_device_list", "IBVERBS_1.1");
	if (!is_supported || !get_list || !symbol(mlx5, "mlx5dv_init_obj", "MLX5_1.2"))
		return 1;
	if (dlvsym(mlx5, "mlx5dv_init_obj", "MLX5_1.99") || dlsym(mlx5, "mlx5dv_no_such_thing")) {
		fprintf(stderr, "a symbol that does not exist was found\n");
		return 1;
	}
	list = get_list(&n);
	for (int i = 0; list && i < n; i++)
		supported += is_supported(list[i]);
	printf("devices %d supported %d\n", n, supported);
	return list ? 0 : 1;
}
