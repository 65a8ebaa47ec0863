// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "survives.h"

#include "directory_client.h"
#include "shell_word.h"

/* Hash of the build id of the provider's library. Return: 0: the library has no build id, so it is qualified nowhere. */
static uint32_t library_of(struct mesh_context *mc)
{
	uint32_t library = atomic_load_explicit(&mc->library, memory_order_relaxed);

	if (library)
		return library;
	library = mv_directory_library_of((const void *)mc->lower.qp.modify_qp);
	atomic_store_explicit(&mc->library, library, memory_order_relaxed);
	return library;
}

/* Kept out of the functions that each RTR calls: these then need not save registers. */
__attribute__((noinline)) static enum mv_dir_qualified ask(struct mesh_context *mc, const char *device)
{
	uint32_t library = library_of(mc);
	enum mv_dir_qualified qualified = library ? mesh_directory_qualified(device, library) : MV_DIR_QUALIFIED_NO;

	if (qualified == MV_DIR_QUALIFIED_YES)
		atomic_store_explicit(&mesh_root.process->survives, true, memory_order_relaxed);
	return qualified;
}

/* As ask(), of the context's own device, by the directory that was mapped last. Each RTR asks, so the answer is kept. */
static inline enum mv_dir_qualified ask_once(struct mesh_context *mc)
{
	uint64_t number = atomic_load_explicit(&mesh_root.process->directory.number, memory_order_relaxed),
		 known = atomic_load_explicit(&mc->qualified, memory_order_relaxed);
	enum mv_dir_qualified qualified;

	if (number && known >> 2 == number)
		return known & 3;
	qualified = ask(mc, mc->device);
	/* The answer may be of a later directory: then the next call asks again. */
	atomic_store_explicit(&mc->qualified, number << 2 | qualified, memory_order_relaxed);
	return qualified;
}

/* @ret: do connections survive? Return: false: the configuration does not tell, the device does. */
static inline bool is_configured(bool *ret)
{
	*ret = mesh_root.config.survive == MV_SURVIVE_ON;
	return mesh_root.config.survive != MV_SURVIVE_AUTO || mesh_root.config.qualify == MV_QUALIFY_NEVER;
}

bool mesh_survives_on(struct mesh_context *mc, const char *device)
{
	bool survives;

	return is_configured(&survives) ? survives : ask(mc, device) == MV_DIR_QUALIFIED_YES;
}

bool mesh_survives(struct mesh_context *mc)
{
	bool survives;

	return is_configured(&survives) ? survives : ask_once(mc) == MV_DIR_QUALIFIED_YES;
}

bool mesh_survives_some(void)
{
	if (mesh_root.config.survive != MV_SURVIVE_AUTO)
		return mesh_root.config.survive == MV_SURVIVE_ON;
	return atomic_load_explicit(&mesh_root.process->survives, memory_order_relaxed);
}

__attribute__((noinline)) static void log_unqualified(const struct mesh_context *mc, bool other)
{
	if (!atomic_exchange_explicit(&mesh_root.process->unqualified_said, true, memory_order_relaxed))
		mv_log(&mesh_root.log, MV_LOG_INFO,
		       "%s: connections at work stay where they are (survive = auto): it has not qualified%s; see `meshverbs doctor`, and "
		       "`meshverbs qualify %s`",
		       mc->device, other ? " with the provider's library of this process" : "", MV_SHELL(mc->device));
}

const char *mesh_survives_why_not(struct mesh_context *mc)
{
	enum mv_dir_qualified qualified;

	if (mesh_root.config.survive == MV_SURVIVE_ON)
		return NULL;
	if (mesh_root.config.survive == MV_SURVIVE_OFF)
		return "survive = off when it was made";
	if (mesh_root.config.qualify == MV_QUALIFY_NEVER)
		return "survive = auto and qualify = never when it was made";
	qualified = ask_once(mc);
	if (qualified == MV_DIR_QUALIFIED_YES)
		return NULL;
	if (!atomic_load_explicit(&mesh_root.process->unqualified_said, memory_order_relaxed))
		log_unqualified(mc, qualified == MV_DIR_QUALIFIED_OTHER);
	return qualified == MV_DIR_QUALIFIED_OTHER ? "its NIC had qualified with another library when it was made"
						   : "its NIC had not qualified when it was made";
}
