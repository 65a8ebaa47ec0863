// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sysfs_out.h"

/* Same file system as everything below /sys/class, so that rename(2) works; hidden from a plain ls.
 */
#define SCRATCH "/sys/.simhostd"

/*
 * Opening an attribute of an empty GID entry works, reading it gives EINVAL. A file of a tmpfs
 * cannot do that, but the speed of the loopback netdev does exactly that, in every network
 * namespace.
 */
#define READS_EINVAL "/sys/devices/virtual/net/lo/speed"

static void port_path(char out[PATH_MAX], const char *dev, const char *name)
{
	snprintf(out, PATH_MAX, "/sys/class/infiniband/%s/ports/1/%s", dev, name);
}

__attribute__((format(printf, 3, 4))) static int put(const char *dev, const char *name,
						     const char *fmt, ...)
{
	char path[PATH_MAX], text[256];
	va_list args;
	ssize_t done;
	int fd, len;

	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fd = open(SCRATCH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	if (fd < 0)
		return -errno;
	done = write(fd, text, (size_t)len);
	close(fd);
	port_path(path, dev, name);
	return done == len && !rename(SCRATCH, path) ? 0 : -errno;
}

static int put_invalid(const char *dev, const char *name)
{
	char path[PATH_MAX];

	port_path(path, dev, name);
	return !symlink(READS_EINVAL, SCRATCH) && !rename(SCRATCH, path) ? 0 : -errno;
}

static const char *type_name(uint8_t type)
{
	return type == SIM_GID_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1";
}

int sysfs_port_gid(const char *dev, uint32_t i, const struct sim_gid *g, const char *netdev)
{
	char gids[32], types[40], ndevs[40], text[40];
	int err;

	snprintf(gids, sizeof(gids), "gids/%" PRIu32, i);
	snprintf(types, sizeof(types), "gid_attrs/types/%" PRIu32, i);
	snprintf(ndevs, sizeof(ndevs), "gid_attrs/ndevs/%" PRIu32, i);
	for (int k = 0; k < 8; k++)
		snprintf(text + 5 * k, sizeof(text) - 5 * (size_t)k, "%02x%02x%s", g->raw[2 * k],
			 g->raw[2 * k + 1], k < 7 ? ":" : "");
	err = put(dev, gids, "%s\n", text);
	if (!err)
		err = g->type == SIM_GID_NONE ? put_invalid(dev, types)
					      : put(dev, types, "%s\n", type_name(g->type));
	if (!err)
		err = netdev[0] ? put(dev, ndevs, "%s\n", netdev) : put_invalid(dev, ndevs);
	return err;
}

static const char *state_text(uint8_t state)
{
	static const char *const names[] = {"0: NOP", "1: DOWN", "2: INIT", "3: ARMED",
					    "4: ACTIVE"};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : names[0];
}

static const char *phys_state_text(uint8_t state)
{
	static const char *const names[] = {"0: <unknown>",
					    "1: Sleep",
					    "2: Polling",
					    "3: Disabled",
					    "4: PortConfigurationTraining",
					    "5: LinkUp"};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : names[0];
}

/* Tenths of Gbit/s per lane and the name of the speed; numbers of ibv_port_attr.active_speed. */
static const struct {
	uint8_t speed;
	unsigned int lane;
	const char *name;
} speeds[] = {{1, 25, "SDR"},   {2, 50, "DDR"},   {4, 100, "QDR"},   {16, 140, "FDR"},
	      {32, 250, "EDR"}, {64, 500, "HDR"}, {128, 1000, "NDR"}};

static int put_rate(const char *dev, const struct sim_port *p)
{
	unsigned int width = p->active_width == 1   ? 1
			     : p->active_width == 2 ? 4
			     : p->active_width == 4 ? 8
						    : 12;

	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		unsigned int rate = speeds[i].lane * width;

		if (speeds[i].speed == p->active_speed)
			return put(dev, "rate", "%u%s Gb/sec (%uX %s)\n", rate / 10,
				   rate % 10 ? ".5" : "", width, speeds[i].name);
	}
	return put(dev, "rate", "0 Gb/sec (%uX)\n", width);
}

int sysfs_port_state(const char *dev, const struct sim_port *p)
{
	int err = put(dev, "state", "%s\n", state_text(p->state));

	if (!err)
		err = put(dev, "phys_state", "%s\n", phys_state_text(p->phys_state));
	return err ? err : put_rate(dev, p);
}

/* All entries of an empty table look alike: one file with many names is quicker than many files. */
static int repeat(const char *dev, const char *dir, uint32_t n)
{
	char first[PATH_MAX], name[64], path[PATH_MAX];

	snprintf(name, sizeof(name), "%s/0", dir);
	port_path(first, dev, name);
	for (uint32_t i = 1; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%" PRIu32, dir, i);
		port_path(path, dev, name);
		if (linkat(AT_FDCWD, first, AT_FDCWD, path, 0))
			return -errno;
	}
	return 0;
}

int sysfs_port_init(const char *dev, const struct sim_port *p)
{
	static const struct sim_gid none;
	int err = sysfs_port_state(dev, p);

	if (!err)
		err = sysfs_port_gid(dev, 0, &none, "");
	if (!err)
		err = repeat(dev, "gids", p->n_gids);
	if (!err)
		err = repeat(dev, "gid_attrs/types", p->n_gids);
	return err ? err : repeat(dev, "gid_attrs/ndevs", p->n_gids);
}

int sysfs_port_counter(const char *dev, const char *name, uint64_t value)
{
	return put(dev, name, "%" PRIu64 "\n", value);
}

void sysfs_netdev_new(const char *netdev)
{
	char path[64], target[64];

	snprintf(path, sizeof(path), "/sys/class/net/%s", netdev);
	snprintf(target, sizeof(target), "../../devices/virtual/net/%s", netdev);
	if (symlink(target, path) && errno != EEXIST)
		fprintf(stderr, "simhostd: %s: %s\n", path, strerror(errno));
}

void sysfs_netdev_gone(const char *netdev)
{
	char path[64], target[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/class/net/%s", netdev);
	n = readlink(path, target, sizeof(target));
	if (n > 0 && !strncmp(target, "../../devices/virtual/", 22))
		unlink(path);
}
