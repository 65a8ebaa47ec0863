// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "library.h"

/*
 * The name verbs_register_driver_NN has the ABI number. The first number was 17; rdma-core 64 has 64. Later numbers are
 * accepted, too: calibration finds out whether such a library still behaves as the known ones.
 */
#define ABI_FIRST 17
#define ABI_LAST  199

struct segment_query {
	uintptr_t anchor;
	struct mesh_library *lib;
	bool found;
};

/* Finds the writable segment of the object that the anchor lies in. */
static int find_segment(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct segment_query *q = arg;
	bool mine = false;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD && q->anchor >= start && q->anchor < start + ph->p_memsz)
			mine = true;
	}
	if (!mine)
		return 0;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && ph->p_flags & PF_W) {
			q->lib->data_start = info->dlpi_addr + ph->p_vaddr;
			q->lib->data_end = q->lib->data_start + ph->p_memsz;
			q->found = true;
		}
	}
	return 1;
}

/* dlsym() returns void *, and ISO C does not define its conversion to a function pointer: hence memcpy(). */
static bool resolve(void *handle, const char *name, void *ret_function)
{
	void *p = dlsym(handle, name);

	memcpy(ret_function, &p, sizeof(p));
	return p;
}

static void resolve_verbs(void *handle, struct mesh_library *lib)
{
#define RESOLVE(name)                                                                                      \
	if (!resolve(handle, "ibv_" #name, &lib->verbs.name) && !lib->missing_verb)                        \
		lib->missing_verb = #name;
	MESH_VERBS(RESOLVE)
}

int mesh_library_resolve(struct mesh_library *ret, void *handle, const void *anchor, char *why,
			 size_t why_size)
{
	struct mesh_library lib = {0};
	struct segment_query query = {.anchor = (uintptr_t)anchor, .lib = &lib};
	const char *missing = NULL;
	char name[48];
	Dl_info info;
	void *import;

	if (!dladdr(anchor, &info) || !info.dli_fname) {
		snprintf(why, why_size, "the loaded libibverbs has no name");
		return -ENOENT;
	}
	snprintf(lib.path, sizeof(lib.path), "%s", info.dli_fname);

	/* The highest number first: a library may also export older ones for compatibility. */
	for (lib.abi = ABI_LAST; lib.abi >= ABI_FIRST; lib.abi--) {
		snprintf(name, sizeof(name), "verbs_register_driver_%u", lib.abi);
		if (resolve(handle, name, &lib.register_driver))
			break;
	}
	if (!lib.register_driver)
		missing = "verbs_register_driver_NN";
	else if (!resolve(handle, "_verbs_init_and_alloc_context", &lib.init_and_alloc_context))
		missing = "_verbs_init_and_alloc_context";
	else if (!resolve(handle, "verbs_set_ops", &lib.set_ops))
		missing = "verbs_set_ops";
	else if (!resolve(handle, "ibv_close_device", &lib.close_device))
		missing = "ibv_close_device";
	/*
	 * Without the GID table the plugin can do nothing: rdma-core 32 is needed. Besides, libraries before rdma-core 28 close
	 * contexts in a way that calibration does not know.
	 */
	else if (!resolve(handle, "_ibv_query_gid_table", &lib.query_gid_table))
		missing = "_ibv_query_gid_table (it is older than rdma-core 32)";
	if (missing) {
		snprintf(why, why_size, "%s does not export %s", lib.path, missing);
		return -ENOTSUP;
	}
	lib.has_import = resolve(handle, "ibv_import_device", &import);
	resolve(handle, "ibv_reg_dmabuf_mr", &lib.reg_dmabuf_mr);
	resolve(handle, "ibv_reg_mr_ex", &lib.reg_mr_ex);
	resolve(handle, "ibv_import_mr", &lib.import_mr);
	resolve(handle, "ibv_import_pd", &lib.import_pd);
	resolve(handle, "ibv_unimport_pd", &lib.unimport_pd);
	resolve(handle, "ibv_set_ece", &lib.set_ece);
	resolve(handle, "ibv_query_ece", &lib.query_ece);
	resolve(handle, "ibv_query_qp_data_in_order", &lib.query_qp_data_in_order);
	resolve(handle, "ibv_query_port", &lib.query_port);
	resolve_verbs(handle, &lib);

	dl_iterate_phdr(find_segment, &query);
	if (!query.found) {
		snprintf(why, why_size, "%s has no writable data", lib.path);
		return -ENOTSUP;
	}
	*ret = lib;
	return 0;
}

int mesh_library_find(struct mesh_library *ret, char *why, size_t why_size)
{
	/* A process may have two copies of libibverbs. This is the copy that the plugin's calls are bound to. */
	const void *anchor = (const void *)ibv_get_device_list;
	Dl_info info;
	void *handle;
	int err;

	if (!dladdr(anchor, &info) || !info.dli_fname) {
		snprintf(why, why_size, "libibverbs is not a shared library in this program");
		return -ENOENT;
	}
	handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_NOW);
	if (!handle) {
		snprintf(why, why_size, "%s is loaded but cannot be opened again: static program?",
			 info.dli_fname);
		return -ENOENT;
	}
	err = mesh_library_resolve(ret, handle, anchor, why, why_size);
	/* The plugin is linked to the library, which keeps it loaded. */
	dlclose(handle);
	return err;
}
