/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A look at the devices of this host: board, firmware, kernel, what the ports have counted, the verdict on file. */
#include "qualify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "verdicts.h"

#define LINKER_CACHE "/etc/ld.so.cache"

/* Reads a sysfs file of one line. Return: whether the file is there, and not empty. */
static bool read_line(const char *path, char *ret, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	if (fd >= 0)
		close(fd);
	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	return n > 0 && ret[0];
}

static uint64_t read_count(const char *sysfs, const char *device, unsigned int port, const char *name)
{
	char path[256], text[32];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%u/counters/%s", sysfs, device, port, name);
	return read_line(path, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

/* Return: whether the device is an mlx5 device. No other device has a verdict. */
static bool read_key(const char *sysfs, const char *device, struct mv_qualified_key *ret)
{
	struct utsname system;
	char path[256], vendor[16];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/vendor", sysfs, device);
	if (!read_line(path, vendor, sizeof(vendor)) || strcmp(vendor, "0x15b3"))
		return false;
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/board_id", sysfs, device);
	if (!read_line(path, ret->board_id, sizeof(ret->board_id)))
		strcpy(ret->board_id, "unknown");
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/fw_ver", sysfs, device);
	if (!read_line(path, ret->firmware, sizeof(ret->firmware)))
		strcpy(ret->firmware, "unknown");
	uname(&system);
	snprintf(ret->kernel, sizeof(ret->kernel), "%s", system.release);
	return true;
}

static void look_at(struct md_qualify_look *look, struct md_qualify_look_device *device, struct mv_qualified *verdict)
{
	memset(&device->key, 0, sizeof(device->key));
	device->words = 0;
	device->err = -ENODEV;
	snprintf(device->why, sizeof(device->why), "no mlx5 device");
	if (!read_key(look->sysfs, device->name, &device->key))
		return;
	for (unsigned int port = 1; port < 32; port++)
		if (device->ports & (1u << port))
			device->words += read_count(look->sysfs, device->name, port, "port_xmit_data") +
					 read_count(look->sysfs, device->name, port, "port_rcv_data");
	snprintf(device->why, sizeof(device->why), "no libmlx5 is found on this host");
	if (!look->libmlx5[0])
		return;
	strcpy(device->key.libmlx5, look->libmlx5);
	device->err = mv_verdicts_load(look->dir_fd, &device->key, verdict, device->why);
}

void md_qualify_look_run(struct md_job *job)
{
	struct md_qualify_look *look = md_job_of(job, struct md_qualify_look, job);
	struct stat st;

	for (size_t i = 0; i < look->n; i++)
		look_at(look, &look->devices[i], &look->verdicts[i]);
	look->cache_time = (struct timespec){0};
	if (!stat(LINKER_CACHE, &st))
		look->cache_time = st.st_mtim;
}
