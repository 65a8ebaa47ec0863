// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conn.h"
#include "detect.h"
#include "dmabuf.h"
#include "fork.h"
#include "ourthreads.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

/*
 * The plugin never matches a device. The call is the last chance to hook a lower provider that was registered after the
 * plugin: libibverbs asks drivers in the order of registration, so the plugin before that lower provider.
 */
static bool match_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct mesh_root *root = &mesh_root;
	int saved_errno = errno, cancel = mesh_cancel_off();

	(void)sysfs_dev;
	/*
	 * libibverbs has its list of devices locked here. The owner of hook_lock is about to hook, and may wait for the dynamic
	 * linker's lock, whose owner may wait for that list: so only try.
	 */
	if (mesh_trylock(&root->process->hook_lock)) {
		if (root->drivers)
			mesh_hook_providers(root);
		mesh_unlock(&root->process->hook_lock);
	}
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return false;
}

/*
 * If the kernel reports the driver's identity, libibverbs asks only drivers whose table lists it, and reads each driver's table
 * without checking for NULL. So the plugin's table lists all identities.
 */
#define MATCH(id) {.u.driver_id = (id), .kind = MESH_MATCH_DRIVER_ID}

static const struct mesh_match_ent match_table[] = {
	MATCH(RDMA_DRIVER_MLX5),   MATCH(RDMA_DRIVER_MLX4),	 MATCH(RDMA_DRIVER_CXGB3),
	MATCH(RDMA_DRIVER_CXGB4),  MATCH(RDMA_DRIVER_MTHCA),	 MATCH(RDMA_DRIVER_BNXT_RE),
	MATCH(RDMA_DRIVER_OCRDMA), MATCH(RDMA_DRIVER_NES),	 MATCH(RDMA_DRIVER_I40IW),
	MATCH(RDMA_DRIVER_VMW_PVRDMA), MATCH(RDMA_DRIVER_QEDR),	 MATCH(RDMA_DRIVER_HNS),
	MATCH(RDMA_DRIVER_USNIC),  MATCH(RDMA_DRIVER_RXE),	 MATCH(RDMA_DRIVER_HFI1),
	MATCH(RDMA_DRIVER_QIB),	   MATCH(RDMA_DRIVER_EFA),	 MATCH(RDMA_DRIVER_SIW),
	MATCH(19 /* ERDMA */),	   MATCH(20 /* MANA */),	 MATCH(21 /* IONIC */),
	{.kind = MESH_MATCH_SENTINEL},
};

static const struct mesh_driver_ops own_ops = {
	.name = "mesh",
	.match_min_abi_version = 0,
	.match_max_abi_version = UINT32_MAX,
	.match_table = match_table,
	.match_device = match_device,
};

static void report_config_line(void *arg, const char *file, unsigned int line, const char *text)
{
	if (line)
		mesh_stage(arg, "config", MESH_STAGE_FAILED, "%s:%u: %s", file, line, text);
	else
		mesh_stage(arg, "config", MESH_STAGE_FAILED, "%s: %s", file, text);
}

/* Nothing that must be left alone depends on such a line. */
static void log_config_line(void *arg, const char *file, unsigned int line, const char *text)
{
	struct mesh_root *root = arg;

	mv_log_once(&root->log, MV_LOG_WARN, "config: %s:%u: %s; its default serves", file, line, text);
}

/*
 * Apply environment variables, which override the file.
 *
 * Return: false: MESHVERBS has an unknown value.
 */
static bool apply_environment(struct mv_config *config)
{
	static const struct {
		const char *text;
		enum mv_mode mode;
	} modes[] = {{"on", MV_MODE_ON}, {"observe", MV_MODE_OBSERVE}, {"off", MV_MODE_OFF}};
	const char *mode = secure_getenv("MESHVERBS"), *target = secure_getenv("MESHVERBS_LOG");
	size_t i;

	if (target && target[0])
		snprintf(config->log_target, sizeof(config->log_target), "%s", target);
	if (!mode)
		return true;
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (!strcmp(mode, modes[i].text)) {
			config->mode = modes[i].mode;
			return true;
		}
	}
	return false;
}

/* Set the agent's directory: @wanted, if its files' names fit; else the default. */
static void set_run_dir(struct mesh_root *root, const char *wanted)
{
	if (!wanted || wanted[0] != '/' || strlen(wanted) >= sizeof(root->run_dir))
		wanted = MESHVERBS_RUN_DIR;
	snprintf(root->run_dir, sizeof(root->run_dir), "%s", wanted);
}

/*
 * Read the configuration. If a setting about what to leave alone cannot be read reliably, everything is switched off: a mistyped
 * "mode = off" or "exclude" must not have the opposite effect. Other settings fall back to defaults.
 *
 * Return: true: go on.
 */
static bool configure(struct mesh_root *root)
{
	const char *file = secure_getenv("MESHVERBS_CONF");
	struct mv_config again;
	bool known;

	snprintf(root->config_file, sizeof(root->config_file), "%s",
		 file && file[0] ? file : MESHVERBS_CONF_DIR "/mesh.conf");
	set_run_dir(root, secure_getenv("MESHVERBS_RUN_DIR"));
	mv_config_defaults(&root->config);
	if (mv_config_load(&root->config, root->config_file, NULL, NULL)) {
		/* The log's target is known only now: read again, to report errors. */
		apply_environment(&root->config);
		mv_log_init(&root->log, root->config.log_target, root->config.log_level);
		mv_config_defaults(&again);
		mv_config_load(&again, root->config_file, root->config.doubtful ? report_config_line : log_config_line, root);
		if (root->config.doubtful)
			return false;
	}
	root->move_times = mv_move_default_times;
	/* Twice: for the agreement, and for the exchange of state. */
	root->move_times.move_ns = 2 * root->config.move_timeout_ms * 1000000ull;
	known = apply_environment(&root->config);
	mv_log_init(&root->log, root->config.log_target, root->config.log_level);
	mesh_stage(root, "config", MESH_STAGE_OK, "%s", root->config_file);
	if (!known) {
		mesh_stage(root, "environment", MESH_STAGE_FAILED, "MESHVERBS=%s is none of on, observe, off",
			   secure_getenv("MESHVERBS"));
		return false;
	}
	if (!mesh_detect_parse(secure_getenv("MESHVERBS_DETECT"), &root->undetected)) {
		mesh_stage(root, "environment", MESH_STAGE_FAILED,
			   "MESHVERBS_DETECT=%s: write some of carrier, event, probe, retry, peer, with commas",
			   secure_getenv("MESHVERBS_DETECT"));
		return false;
	}
	if (root->config.mode == MV_MODE_OFF) {
		mesh_stage(root, "environment", MESH_STAGE_OFF, "switched off by %s",
			   secure_getenv("MESHVERBS") ? "MESHVERBS=off" : root->config_file);
		return false;
	}
	return true;
}

/* One page that the kernel clears in a child of fork(). */
static struct mesh_process *process_new(void)
{
	size_t size = (sizeof(struct mesh_process) + 4095) & ~(size_t)4095;
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, size, MADV_WIPEONFORK)) { /* Linux 4.14 */
		munmap(page, size);
		return NULL;
	}
#ifdef __SANITIZE_ADDRESS__
	__lsan_register_root_region(page, size); /* objects referred to from there are no leaks */
#endif
	return page;
}

/**
 * mesh_load - all that happens when the plugin is loaded
 * @lib: the libibverbs to stack into
 *
 * On any failure nothing is hooked, and the program runs as without the plugin.
 */
void mesh_load(struct mesh_root *root, const struct mesh_library *lib)
{
	char why[256];
	int err;

	root->lib = *lib;
	atomic_store_explicit(&root->moves, root->config.mode == MV_MODE_ON && root->config.moves,
			      memory_order_relaxed);
	root->key_dropped = mesh_conns_key_dropped;
	root->key_given = mesh_conns_key_given;
	mesh_threads_init();
	root->process = process_new();
	if (!root->process) {
		mesh_stage(root, "process", MESH_STAGE_FAILED, "no memory that a fork clears: %s",
			   strerrordesc_np(errno));
		return;
	}
	err = mesh_fork_init(mesh_dmabufs_forked);
	if (err) {
		mesh_stage(root, "process", MESH_STAGE_FAILED, "fork() cannot be taken care of: %s", strerrordesc_np(-err));
		return;
	}
	/* Once registered, the plugin may be asked for a match by other threads. */
	mesh_lock(&root->process->hook_lock);
	if (mesh_drivers_find(&root->lib, &own_ops, &root->drivers, why, sizeof(why))) {
		mesh_stage(root, "driver-list", MESH_STAGE_REFUSED, "%s: %s", root->lib.path, why);
	} else {
		mesh_stage(root, "driver-list", MESH_STAGE_OK, "found in %s", root->lib.path);
		mesh_hook_providers(root);
	}
	mesh_unlock(&root->process->hook_lock);
}

__attribute__((constructor)) static void mesh_init(void)
{
	int saved_errno = errno, cancel = mesh_cancel_off();
	struct mesh_root *root = &mesh_root;
	struct mesh_library lib;
	char why[640];

	mesh_report_init(root);
	if (configure(root)) {
		if (mesh_library_find(&lib, why, sizeof(why))) {
			mesh_stage(root, "libibverbs", MESH_STAGE_REFUSED, "%s", why);
		} else {
			mesh_stage(root, "libibverbs", MESH_STAGE_OK, "%s, private ABI %u", lib.path, lib.abi);
			mesh_load(root, &lib);
		}
	}
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}
