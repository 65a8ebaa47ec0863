// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mesh.h"

struct mesh_root mesh_root = {.report_fd = -1};

/*
 * We never match a device. Being asked is the last moment to hook a base that was registered after us:
 * libibverbs tries drivers in the order of registration, so it asks us before that base.
 */
static bool match_device(struct verbs_sysfs_dev *sysfs_dev)
{
	(void)sysfs_dev;
	mesh_hook_bases(&mesh_root);
	return false;
}

/*
 * Where the kernel tells the driver's identity, libibverbs asks only drivers whose table lists it, and
 * follows the table of every driver without looking whether there is one. So ours lists them all.
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

/* The environment of one process overrides the file. */
static void apply_environment(struct mv_config *config)
{
	const char *mode = secure_getenv("MESHVERBS"), *target = secure_getenv("MESHVERBS_LOG");

	if (mode && !strcmp(mode, "off"))
		config->mode = MV_MODE_OFF;
	else if (mode && !strcmp(mode, "observe"))
		config->mode = MV_MODE_OBSERVE;
	else if (mode && !strcmp(mode, "on"))
		config->mode = MV_MODE_ON;
	if (target && target[0])
		snprintf(config->log_target, sizeof(config->log_target), "%s", target);
}

static void configure(struct mesh_root *root)
{
	const char *file = secure_getenv("MESHVERBS_CONF"), *mode = secure_getenv("MESHVERBS");
	struct mv_config again;
	unsigned int wrong;

	snprintf(root->config_file, sizeof(root->config_file), "%s",
		 file && file[0] ? file : MESHVERBS_CONF_DIR "/mesh.conf");
	mv_config_defaults(&root->config);
	wrong = mv_config_load(&root->config, root->config_file, NULL, NULL);
	apply_environment(&root->config);
	mv_log_init(&root->log, root->config.log_target, root->config.log_level);

	/* Only now is it known where complaints go: read once more to hear them. */
	if (wrong) {
		mv_config_defaults(&again);
		mv_config_load(&again, root->config_file, report_config_line, root);
	} else {
		mesh_stage(root, "config", MESH_STAGE_OK, "%s", root->config_file);
	}
	if (mode && strcmp(mode, "on") && strcmp(mode, "off") && strcmp(mode, "observe"))
		mesh_stage(root, "environment", MESH_STAGE_FAILED,
			   "MESHVERBS=%s is none of on, observe, off; ignored", mode);
}

/* One page that a fork's child finds cleared. */
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
	return page;
}

/**
 * mesh_load - everything that happens when the plugin is loaded
 * @lib: the libibverbs to stack into
 *
 * On any failure nothing is hooked and the program runs as without us.
 */
void mesh_load(struct mesh_root *root, const struct mesh_library *lib)
{
	char why[256];

	root->lib = *lib;
	root->process = process_new();
	if (!root->process) {
		mesh_stage(root, "process", MESH_STAGE_FAILED, "no memory that a fork clears: %s",
			   strerrordesc_np(errno));
		return;
	}
	if (mesh_drivers_find(&root->lib, &own_ops, &root->drivers, why, sizeof(why))) {
		root->drivers = NULL;
		mesh_stage(root, "driver-list", MESH_STAGE_REFUSED, "%s: %s", root->lib.path, why);
		return;
	}
	mesh_stage(root, "driver-list", MESH_STAGE_OK, "found in %s", root->lib.path);
	mesh_hook_bases(root);
}

__attribute__((constructor)) static void mesh_init(void)
{
	int saved_errno = errno;
	struct mesh_root *root = &mesh_root;
	struct mesh_library lib;
	char why[640];

	mesh_report_open(root);
	configure(root);
	if (root->config.mode == MV_MODE_OFF) {
		mesh_stage(root, "environment", MESH_STAGE_OFF, "switched off by %s",
			   secure_getenv("MESHVERBS") ? "MESHVERBS=off" : root->config_file);
	} else if (mesh_library_find(&lib, why, sizeof(why))) {
		mesh_stage(root, "libibverbs", MESH_STAGE_REFUSED, "%s", why);
	} else {
		mesh_stage(root, "libibverbs", MESH_STAGE_OK, "%s, private ABI %u", lib.path, lib.abi);
		mesh_load(root, &lib);
	}
	errno = saved_errno;
}
