// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/netlink.h>

#include "host.h"
#include "topo_sysfs.h"

/* More than any host's dump: 10,000 routes take about 1 MiB. */
#define CAPTURE_BYTES_MAX (64U << 20)

/* Return: a malloc()ed buffer of *@ret_len bytes, or NULL with errno set. */
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

/*
 * Several dumps may follow each other in one file, each with its NLMSG_DONE, where the parser would
 * stop: so it is given message after message.
 */
static int parse_capture(struct mv_topo *topo, const char *buf, size_t len)
{
	struct nlmsghdr header;
	size_t offset = 0;
	bool done;
	int rc;

	while (len - offset >= sizeof(header)) {
		memcpy(&header, buf + offset, sizeof(header));
		if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > len - offset)
			return -EBADMSG;
		rc = mv_netlink_parse(topo, buf + offset, header.nlmsg_len, &done);
		if (rc)
			return rc;
		offset += NLMSG_ALIGN(header.nlmsg_len);
		if (offset > len)
			offset = len;
	}
	return offset == len ? 0 : -EBADMSG;
}

static int load_capture(struct host *host, const char *path)
{
	size_t len;
	char *buf;
	int rc;

	buf = read_file(path, &len);
	if (!buf) {
		rc = -errno;
		cli_error("cannot read %s: %s", path, strerror(-rc));
		return rc;
	}
	rc = parse_capture(&host->topo, buf, len);
	free(buf);
	if (rc)
		cli_error("%s does not hold rtnetlink messages: %s", path, strerror(-rc));
	return rc;
}

static int load_netlink(struct host *host)
{
	int rc = mv_netlink_open(&host->netlink);

	if (!rc)
		rc = mv_netlink_fill(&host->netlink, &host->topo);
	if (rc)
		cli_error("cannot read the network devices from the kernel (rtnetlink): %s", strerror(-rc));
	return rc;
}

void host_no_devices(const char *sysfs, bool have_class, char *buf, size_t size)
{
	if (!have_class)
		snprintf(buf, size,
			 "there is no %s/class/infiniband: the RDMA modules are not loaded; load the NIC's, e.g. "
			 "modprobe mlx5_ib, or in a container use the host's /sys",
			 sysfs);
	else
		snprintf(buf, size,
			 "%s/class/infiniband is empty: no RDMA device; load the NIC's module, e.g. modprobe mlx5_ib, "
			 "or make a Soft-RoCE one: rdma link add rxe0 type rxe netdev NETDEV",
			 sysfs);
}

int host_open(const struct cli *cli, struct host *host)
{
	char text[512];
	int rc;

	memset(host, 0, sizeof(*host));
	host->netlink.request_fd = -1;
	host->netlink.event_fd = -1;
	host->captured = cli->netlink_file;
	mv_topo_init(&host->topo);

	/* First the netdevs: GIDs name theirs. */
	rc = host->captured ? load_capture(host, cli->netlink_file) : load_netlink(host);
	if (rc)
		return rc;
	rc = mv_sysfs_fill(&host->topo, cli->sysfs);
	if (!rc && !host->topo.n_devices)
		rc = -ENODEV;
	if (rc == -ENOENT || rc == -ENODEV) {
		host_no_devices(cli->sysfs, rc == -ENODEV, text, sizeof(text));
		cli_error("%s", text);
	} else if (rc) {
		cli_error("cannot read %s/class/infiniband: %s", cli->sysfs, strerror(-rc));
	}
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

static const struct mv_route *find_route(const struct mv_topo *topo, uint32_t ifindex, const union ibv_gid *dgid)
{
	const struct mv_route *route, *best = NULL;
	size_t i;

	for (i = 0; i < topo->n_routes; i++) {
		route = &topo->routes[i];
		if (route->ifindex != ifindex || !mv_gid_in_prefix(dgid, &route->dst, route->dst_len))
			continue;
		if (!best || route->dst_len > best->dst_len ||
		    (route->dst_len == best->dst_len && route->metric < best->metric))
			best = route;
	}
	return best;
}

int host_find_route(struct host *host, const struct mv_netdev *netdev, const union ibv_gid *dgid,
		    const struct mv_route **ret_route)
{
	int rc = 0;

	if (!host->captured)
		rc = mv_netlink_add_route(&host->netlink, &host->topo, netdev->ifindex, dgid);
	if (rc < 0)
		return rc;
	*ret_route = find_route(&host->topo, netdev->ifindex, dgid);
	return 0;
}
