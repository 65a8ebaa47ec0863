// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "topo_sysfs.h"

/* More than any dump: 10,000 routes take about 1 MiB. */
#define CAPTURE_BYTES_MAX (64U << 20)

/* Return: *@ret_len bytes for free(); NULL: see errno. */
static void *read_file(const char *path, size_t *ret_len)
{
	FILE *file = fopen(path, "re");
	char *buf = NULL, *grown;
	size_t len = 0, size = 0;
	int error = 0;

	if (!file)
		return NULL;
	do {
		if (len == size) {
			size = size ? size * 2 : 65536;
			grown = size <= CAPTURE_BYTES_MAX ? realloc(buf, size) : NULL;
			if (!grown) {
				error = size > CAPTURE_BYTES_MAX ? EFBIG : ENOMEM;
				break;
			}
			buf = grown;
		}
		errno = 0;
		len += fread(buf + len, 1, size - len, file);
		if (ferror(file))
			error = errno ? errno : EIO;
	} while (!error && !feof(file));
	fclose(file);
	if (error) {
		free(buf);
		errno = error;
		return NULL;
	}
	*ret_len = len;
	return buf;
}

/* Writes the error's text to @why. */
static int load_capture(struct host *host, const char *path, char *why, size_t why_size)
{
	bool done;
	size_t len;
	char *buf;
	int rc;

	buf = read_file(path, &len);
	if (!buf) {
		rc = -errno;
		snprintf(why, why_size, "cannot read %s: %s", path, strerror(-rc));
		return rc;
	}
	rc = mv_netlink_parse(&host->topo, buf, len, &done); /* any number of answers */
	free(buf);
	if (rc)
		snprintf(why, why_size, "%s does not hold rtnetlink messages: %s", path,
			 strerror(-rc));
	return rc;
}

static int load_netlink(struct host *host, char *why, size_t why_size)
{
	int rc = mv_netlink_open(&host->netlink);

	if (!rc)
		rc = mv_netlink_fill(&host->netlink, &host->topo);
	if (rc)
		snprintf(why, why_size,
			 "cannot read the network devices from the kernel (rtnetlink): %s",
			 strerror(-rc));
	return rc;
}

void host_no_devices(const char *sysfs, bool have_class, char *buf, size_t size)
{
	if (!have_class)
		snprintf(buf, size,
			 "there is no %s/class/infiniband: the RDMA modules are not loaded; load "
			 "the NIC's, e.g. "
			 "modprobe mlx5_ib, or in a container use the host's /sys",
			 sysfs);
	else
		snprintf(buf, size,
			 "%s/class/infiniband is empty: no RDMA device; load the NIC's module, "
			 "e.g. modprobe mlx5_ib, "
			 "or make a Soft-RoCE one: rdma link add rxe0 type rxe netdev NETDEV",
			 sysfs);
}

int host_read(const struct cli *cli, struct host *host, char *why, size_t why_size)
{
	int rc;

	memset(host, 0, sizeof(*host));
	host->netlink.request_fd = -1;
	host->netlink.event_fd = -1;
	host->captured = cli->netlink_file;
	mv_topo_init(&host->topo);

	/* Netdevs first, because GIDs refer to them. */
	rc = host->captured ? load_capture(host, cli->netlink_file, why, why_size)
			    : load_netlink(host, why, why_size);
	if (rc)
		return rc;
	rc = mv_sysfs_fill(&host->topo, cli->sysfs);
	if (!rc && !host->topo.n_devices)
		rc = -ENODEV;
	if (rc == -ENOENT || rc == -ENODEV)
		host_no_devices(cli->sysfs, rc == -ENODEV, why, why_size);
	else if (rc)
		snprintf(why, why_size, "cannot read %s/class/infiniband: %s", cli->sysfs,
			 strerror(-rc));
	return rc;
}

int host_open(const struct cli *cli, struct host *host)
{
	char why[512];
	int rc = host_read(cli, host, why, sizeof(why));

	if (rc)
		cli_error("%s", why);
	return rc;
}

void host_close(struct host *host)
{
	mv_netlink_close(&host->netlink);
	mv_topo_fini(&host->topo);
}

const struct mv_device *host_device(const struct host *host, const char *name)
{
	const struct mv_device *device = mv_topo_device(&host->topo, name);
	size_t i;

	if (device)
		return device;
	fprintf(stderr, "meshverbs: no RDMA device '%s'; there %s", name,
		host->topo.n_devices == 1 ? "is" : "are");
	for (i = 0; i < host->topo.n_devices; i++)
		fprintf(stderr, "%s %s", i ? "," : "", host->topo.devices[i].name);
	fputc('\n', stderr);
	return NULL;
}

int host_find_routes(struct host *host, const struct mv_netdev *netdev, const union ibv_gid *dgid)
{
	int rc;

	if (host->captured)
		return 0;
	rc = mv_netlink_add_route(&host->netlink, &host->topo, netdev->ifindex, dgid);
	if (rc >= 0)
		return 0;
	cli_error("cannot look up the route out of %s (rtnetlink): %s", netdev->name,
		  strerror(-rc));
	return rc;
}
