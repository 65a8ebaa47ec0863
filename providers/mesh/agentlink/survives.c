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

static enum mv_dir_qualified ask(struct mesh_context *mc, const char *device)
{
	uint32_t library = library_of(mc);

	return library ? mesh_directory_qualified(device, library) : MV_DIR_QUALIFIED_NO;
}

/* As ask(), of the context's own device, by the directory that was mapped last. Each RTR asks, so the answer is kept. */
static enum mv_dir_qualified ask_once(struct mesh_context *mc)
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

/* @device: NULL: the context's own, by ask_once(). @ret_qualified: written if survive = auto, unless qualify = never. */
static bool survives(struct mesh_context *mc, const char *device, enum mv_dir_qualified *ret_qualified)
{
	if (mesh_root.config.survive != MV_SURVIVE_AUTO)
		return mesh_root.config.survive == MV_SURVIVE_ON;
	if (mesh_root.config.qualify == MV_QUALIFY_NEVER)
		return false;
	*ret_qualified = device ? ask(mc, device) : ask_once(mc);
	if (*ret_qualified != MV_DIR_QUALIFIED_YES)
		return false;
	atomic_store_explicit(&mesh_root.process->survives, true, memory_order_relaxed);
	return true;
}

bool mesh_survives_on(struct mesh_context *mc, const char *device)
{
	enum mv_dir_qualified qualified;

	return survives(mc, device, &qualified);
}

bool mesh_survives(struct mesh_context *mc)
{
	enum mv_dir_qualified qualified;

	return survives(mc, NULL, &qualified);
}

bool mesh_survives_some(void)
{
	if (mesh_root.config.survive != MV_SURVIVE_AUTO)
		return mesh_root.config.survive == MV_SURVIVE_ON;
	return atomic_load_explicit(&mesh_root.process->survives, memory_order_relaxed);
}

const char *mesh_survives_why_not(struct mesh_context *mc)
{
	enum mv_dir_qualified qualified = MV_DIR_QUALIFIED_NO;
	bool other;

	if (survives(mc, NULL, &qualified))
		return NULL;
	if (mesh_root.config.survive == MV_SURVIVE_OFF)
		return "survive = off when it was made";
	if (mesh_root.config.qualify == MV_QUALIFY_NEVER)
		return "survive = auto and qualify = never when it was made";
	other = qualified == MV_DIR_QUALIFIED_OTHER;
	if (!atomic_exchange_explicit(&mesh_root.process->unqualified_said, true, memory_order_relaxed))
		mv_log(&mesh_root.log, MV_LOG_INFO,
		       "%s: connections at work stay where they are (survive = auto): it has not qualified%s; see `meshverbs doctor`, and "
		       "`meshverbs qualify %s`",
		       mc->device, other ? " with the provider's library of this process" : "", MV_SHELL(mc->device));
	return other ? "its NIC had qualified with another library when it was made" : "its NIC had not qualified when it was made";
}
