// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sysfs.h"

/* First line of a file, without newline. Return: 0 or -errno. */
__attribute__((format(printf, 3, 4))) static int read_line(char *buf, size_t size, const char *fmt,
							   ...)
{
	char path[PATH_MAX];
	va_list args;
	FILE *file;
	int rc = 0;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	if (!fgets(buf, (int)size, file))
		rc = -EIO; /* an unused entry gives EINVAL */
	else
		buf[strcspn(buf, "\n")] = '\0';
	fclose(file);
	return rc;
}

static int is_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int sysfs_devices(const char *root, char ***ret_names)
{
	struct dirent **entries;
	char path[PATH_MAX];
	char **names;
	int i, n;

	snprintf(path, sizeof(path), "%s/class/infiniband", root);
	n = scandir(path, &entries, is_name, versionsort);
	if (n < 0)
		return -errno;
	names = calloc((size_t)n + 1, sizeof(*names));
	for (i = 0; i < n; i++) {
		if (names)
			names[i] = strdup(entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	for (i = 0; names && i < n; i++) {
		if (names[i])
			continue;
		for (i = 0; i < n; i++)
			free(names[i]);
		free(names);
		names = NULL;
	}
	if (!names)
		return -ENOMEM;
	*ret_names = names;
	return n;
}

void sysfs_gid_netdev(const char *root, const char *device, uint8_t port_num, uint32_t index,
		      char *buf, size_t size)
{
	if (read_line(buf, size, "%s/class/infiniband/%s/ports/%u/gid_attrs/ndevs/%u", root, device,
		      port_num, index))
		buf[0] = '\0';
}

/* Kernel driver of the device below the RDMA device, and its provider in rdma-core. */
static const struct {
	const char *kernel;
	const char *provider;
} providers[] = {
	{"mlx5_core", "mlx5"},  {"mlx4_core", "mlx4"},
	{"bnxt_en", "bnxt_re"}, {"ice", "irdma"},
	{"i40e", "irdma"},      {"efa", "efa"},
	{"erdma", "erdma"},     {"mana", "mana"},
	{"hns3", "hns"},        {"hns_roce", "hns"},
	{"cxgb4", "cxgb4"},     {"qede", "qedr"},
	{"be2net", "ocrdma"},   {"vmw_pvrdma", "vmw_pvrdma"},
	{"ib_mthca", "mthca"},  {"hfi1", "hfi1verbs"},
};

static int provider_of_driver(const char *root, const char *device, char *buf, size_t size)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *name;
	ssize_t len;
	size_t i;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/driver", root, device);
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return -ENOENT;
	target[len] = '\0';
	name = strrchr(target, '/');
	name = name ? name + 1 : target;
	for (i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
		if (!strcmp(providers[i].kernel, name)) {
			snprintf(buf, size, "%s", providers[i].provider);
			return 0;
		}
	}
	return -ENOENT;
}

int sysfs_provider(const char *root, const char *device, char *buf, size_t size)
{
	char line[256];

	if (!provider_of_driver(root, device, buf, size))
		return 0;
	/* A software device has no device below it. Anybody can set node_desc; only rxe has "parent". */
	if (!read_line(line, sizeof(line), "%s/class/infiniband/%s/parent", root, device) ||
	    (!read_line(line, sizeof(line), "%s/class/infiniband/%s/node_desc", root, device) &&
	     !strcmp(line, "rxe"))) {
		snprintf(buf, size, "rxe");
		return 0;
	}
	if (!strcmp(line, "Software iWARP stack")) {
		snprintf(buf, size, "siw");
		return 0;
	}
	/* 0x15b3 is Mellanox; their devices before mlx5 have not been supported for years. */
	if (!read_line(line, sizeof(line), "%s/class/infiniband/%s/device/vendor", root, device) &&
	    !strcmp(line, "0x15b3")) {
		snprintf(buf, size, "mlx5");
		return 0;
	}
	return -ENOENT;
}
