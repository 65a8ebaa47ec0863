// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* An NCCL of the future, as far as netib_load() looks: a version, and a network plugin interface that nobody here knows. */
int ncclGetVersion(int *ret_version);
extern const char *const nccl_plugin_names[];

__attribute__((visibility("default"))) int ncclGetVersion(int *ret_version)
{
	*ret_version = 29901;
	return 0;
}

__attribute__((visibility("default"))) const char *const nccl_plugin_names[] = {"ncclNetPlugin_v11", "ncclNetPlugin_v99", "ncclNetPlugin_v12"};
