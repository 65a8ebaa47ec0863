// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"
#include "rails.h"

/*
 * A lower provider is hooked by replacing alloc_context and import_context in its ops struct. The address of that
 * struct must not change, because each mlx5dv_* call compares it. The replacements get no argument that names the lower
 * provider, so there is one pair of functions per element of lower_providers[].
 */

static void overlay(const struct mesh_lower_provider *lower, struct ibv_device *device, struct verbs_context *start, bool direct)
{
	int saved_errno = errno, cancel = mesh_cancel_off();

	if (start && !mesh_rail_opening(&mesh_root))
		mesh_overlay_install(&mesh_root, lower, device, start, direct);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

#define HOOKS(i)                                                                                           \
	static struct verbs_context *alloc_context_##i(struct ibv_device *device, int cmd_fd,              \
						       void *private_data)                                 \
	{                                                                                                  \
		const struct mesh_lower_provider *lower = &mesh_root.lower_providers[i];                                        \
		struct verbs_context *start = lower->alloc_context(device, cmd_fd, private_data);           \
                                                                                                           \
		overlay(lower, device, start, private_data); /* of mlx5dv_open_device() */                  \
		return start;                                                                              \
	}                                                                                                  \
	static struct verbs_context *import_context_##i(struct ibv_device *device, int cmd_fd)             \
	{                                                                                                  \
		const struct mesh_lower_provider *lower = &mesh_root.lower_providers[i];                                        \
		struct verbs_context *start = lower->import_context(device, cmd_fd);                        \
                                                                                                           \
		overlay(lower, device, start, false);                                                       \
		return start;                                                                              \
	}

HOOKS(0) HOOKS(1) HOOKS(2) HOOKS(3) HOOKS(4) HOOKS(5) HOOKS(6) HOOKS(7)

static const struct {
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *private_data);
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
} hooks[MESH_MAX_BASES] = {
	{alloc_context_0, import_context_0}, {alloc_context_1, import_context_1},
	{alloc_context_2, import_context_2}, {alloc_context_3, import_context_3},
	{alloc_context_4, import_context_4}, {alloc_context_5, import_context_5},
	{alloc_context_6, import_context_6}, {alloc_context_7, import_context_7},
};

/* Protection of the memory at an address, as the dynamic linker set it. */
struct protection {
	uintptr_t address;
	size_t size;
	bool writable; /* in a writable segment */
	bool relro;    /* ... but made read-only after relocation */
};

static int find_protection(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct protection *p = arg;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + ph->p_vaddr, end = start + ph->p_memsz;

		if (ph->p_type == PT_LOAD && p->address >= start && p->address + p->size <= end)
			p->writable = ph->p_flags & PF_W;
		/* ld.so protects whole pages only: the start rounded down, the end rounded down. */
		if (ph->p_type == PT_GNU_RELRO && p->address >= (start & -page) &&
		    p->address < (end & -page))
			p->relro = true;
	}
	return 0;
}

/* Replace a function pointer in memory that may be read-only, and restore the protection. */
static int poke(void *place, const void *value)
{
	struct protection prot = {.address = (uintptr_t)place, .size = sizeof(void *)};
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)place & -page;
	size_t len = (uintptr_t)place + sizeof(void *) - start;

	dl_iterate_phdr(find_protection, &prot);
	if (!prot.writable)
		return -EACCES; /* constant data: no known provider keeps its ops there */
	if (prot.relro && mprotect((void *)start, len, PROT_READ | PROT_WRITE))
		return -errno;
	__atomic_store_n((const void **)place, value, __ATOMIC_RELEASE);
	if (prot.relro)
		mprotect((void *)start, len, PROT_READ); /* failing leaves it writable: harmless */
	return 0;
}

/*
 * Checks that a struct is mlx5's: mlx5dv_is_supported() compares a device's ops, which follow the public part of each
 * verbs_device, with its own.
 */
static bool mlx5_agrees(const struct mesh_driver_ops *ops, const char *path)
{
	struct {
		struct ibv_device device;
		const void *ops;
		char rest[256];
	} fake = {.ops = ops};
	bool (*is_supported)(struct ibv_device *device);
	bool agrees = true;
	void *handle, *sym;

	handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
	if (!handle)
		return true; /* part of the program: nothing to ask */
	sym = dlsym(handle, "mlx5dv_is_supported");
	if (sym) {
		memcpy(&is_supported, &sym, sizeof(sym));
		agrees = is_supported(&fake.device);
	}
	dlclose(handle);
	return agrees;
}

/* Is this the ops struct of that lower provider? Its functions have to be code of the object that has the struct. */
static int check_ops(const struct mesh_library *lib, const struct mesh_driver_ops *ops, char *why,
		     size_t why_size)
{
	Dl_info home, code;

	if (!dladdr(ops, &home) || !ops->alloc_context || !dladdr((const void *)ops->alloc_context, &code) ||
	    home.dli_fbase != code.dli_fbase) {
		snprintf(why, why_size, "its alloc_context is not its own");
		return -ENOTSUP;
	}
	if (lib->has_import && ops->import_context &&
	    (!dladdr((const void *)ops->import_context, &code) || home.dli_fbase != code.dli_fbase)) {
		snprintf(why, why_size, "its import_context is not its own");
		return -ENOTSUP;
	}
	if (!strcmp(ops->name, "mlx5") && !mlx5_agrees(ops, home.dli_fname)) {
		snprintf(why, why_size, "mlx5dv_is_supported() does not know the ops that were found");
		return -ENOTSUP;
	}
	return 0;
}

static int poke_both(struct mesh_lower_provider *lower, unsigned int n)
{
	int err;

	err = poke(&lower->ops->alloc_context, (const void *)hooks[n].alloc_context);
	if (err || !lower->import_context)
		return err;
	err = poke(&lower->ops->import_context, (const void *)hooks[n].import_context);
	if (err)
		poke(&lower->ops->alloc_context, (const void *)lower->alloc_context);
	return err;
}

/*
 * Called with hook_lock held.
 *
 * Return: false: the provider is not registered yet: try again later.
 */
static bool hook_lower(struct mesh_root *root, const char *name)
{
	unsigned int n = root->n_lower;
	struct mesh_driver_ops *ops;
	struct mesh_lower_provider *lower;
	char stage[MV_CONFIG_NAME_MAX + 8], why[256];
	int err;

	ops = mesh_drivers_lookup(root->drivers, name);
	if (!ops)
		return false;

	snprintf(stage, sizeof(stage), "base:%s", name);
	if (n == MESH_MAX_BASES) {
		mesh_stage(root, stage, MESH_STAGE_REFUSED, "provider %s: more than %u lower providers", name,
			   MESH_MAX_BASES);
		return true;
	}
	if (check_ops(&root->lib, ops, why, sizeof(why))) {
		mesh_stage(root, stage, MESH_STAGE_REFUSED, "provider %s: %s", name, why);
		return true;
	}

	/* The entry must be complete before the first call can come in through it: poke() releases. */
	lower = &root->lower_providers[n];
	lower->name = ops->name;
	lower->ops = ops;
	lower->alloc_context = ops->alloc_context;
	lower->import_context = root->lib.has_import ? ops->import_context : NULL;
	root->n_lower = n + 1; /* also if hooking fails half-way: a call may be inside already */

	err = poke_both(lower, n);
	if (err)
		mesh_stage(root, stage, MESH_STAGE_FAILED, "provider %s cannot be hooked: %s", name,
			   strerrordesc_np(-err));
	else
		mesh_stage(root, stage, MESH_STAGE_OK, "stacked over provider %s", name);
	return true;
}

void mesh_hook_providers(struct mesh_root *root)
{
	size_t i;

	for (i = 0; i < root->config.base.n; i++)
		if (!root->lower_settled[i])
			root->lower_settled[i] = hook_lower(root, root->config.base.names[i]);
}

bool mesh_calibrated(struct mesh_root *root)
{
	int state = atomic_load_explicit(&root->calibration_state, memory_order_acquire);
	char why[256];

	if (state != MESH_CALIBRATION_NONE)
		return state == MESH_CALIBRATION_OK;

	mesh_lock(&root->process->hook_lock);
	state = atomic_load_explicit(&root->calibration_state, memory_order_relaxed);
	if (state == MESH_CALIBRATION_NONE) {
		if (!root->config.stand_in)
			root->lib.query_port = NULL; /* not even looked for: mesh_calibration_lacks() */
		if (mesh_calibrate(&root->lib, &root->calibration, why, sizeof(why))) {
			state = MESH_CALIBRATION_REFUSED;
			mesh_stage(root, "calibration", MESH_STAGE_REFUSED, "%s: %s", root->lib.path, why);
		} else {
			state = MESH_CALIBRATION_OK;
			mesh_stage(root, "calibration", MESH_STAGE_OK,
				   "%u operations of %s agree, context of %zu bytes%s%s",
				   root->calibration.n_known, root->lib.path,
				   root->calibration.context_size,
				   root->calibration.no_moves[0] ? "; no moves: " : "",
				   root->calibration.no_moves);
		}
		atomic_store_explicit(&root->calibration_state, state, memory_order_release);
	}
	mesh_unlock(&root->process->hook_lock);
	return state == MESH_CALIBRATION_OK;
}
