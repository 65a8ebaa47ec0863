// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Devices and sockets. */
#include "conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Is entry @index RoCE v2? */
static bool is_v2(const char *name, int index)
{
	char path[256], text[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d", name,
		 index);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	return strncmp(text, "RoCE v2", 7) == 0;
}

static bool is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)gid->raw);
}

/* NCCL's default: the first IPv4 entry of RoCE v2; on InfiniBand the first. */
static int choose_gid(struct dev *dev)
{
	if (dev->port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return 0;
	for (int i = 0; i < dev->port.gid_tbl_len; i++) {
		if (lib.query_gid(dev->ctx, 1, i, &dev->gid) == 0 && is_ipv4(&dev->gid) &&
		    is_v2(dev->name, i))
			return i;
	}
	die(0, "%s has no IPv4 address", dev->name);
}

static bool wanted(const char *names, const char *name)
{
	size_t len = strlen(name);

	if (!names)
		return strncmp(name, "mlx5_", 5) == 0;
	for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == 0))
			return true;
	}
	return false;
}

static void dev_open(struct dev *dev, struct ibv_device *device, int gid_index)
{
	int err;

	snprintf(dev->name, sizeof(dev->name), "%s", lib.get_device_name(device));
	dev->ctx = lib.open_device(device);
	if (!dev->ctx)
		die(errno, "opening %s", dev->name);
	err = lib.query_port(dev->ctx, 1, &dev->port);
	if (err)
		die(err, "port of %s", dev->name);
	dev->gid_index = gid_index >= 0 ? gid_index : choose_gid(dev);
	if (lib.query_gid(dev->ctx, 1, dev->gid_index, &dev->gid))
		die(errno, "GID %d of %s", dev->gid_index, dev->name);
	dev->pd = lib.alloc_pd(dev->ctx);
	if (!dev->pd)
		die(errno, "PD of %s", dev->name);
}

void net_open(struct net *net, const char *names, int qps_per_dev, int gid_index)
{
	struct ibv_device **list = lib.get_device_list(NULL);

	if (!list)
		die(errno, "no device list");
	for (int i = 0; list[i] && net->n_devs < MAX_DEVS; i++) {
		if (wanted(names, lib.get_device_name(list[i])))
			dev_open(&net->devs[net->n_devs++], list[i], gid_index);
	}
	lib.free_device_list(list);
	net->n_qps = net->n_devs * qps_per_dev;
	if (!net->n_devs || net->n_qps > MAX_QPS)
		die(0, "%d devices, %d queue pairs; at most %d", net->n_devs, net->n_qps, MAX_QPS);
}

void net_close(struct net *net)
{
	for (int d = 0; d < net->n_devs; d++) {
		int err = lib.dealloc_pd(net->devs[d].pd);

		if (err)
			die(err, "dealloc_pd of %s", net->devs[d].name);
		err = lib.close_device(net->devs[d].ctx);
		if (err)
			die(err, "close_device of %s", net->devs[d].name);
	}
}

int tcp_listen(int port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, 8))
		die(errno, "listening on port %d", port);
	return fd;
}

int tcp_try_connect(const char *host, int port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	char service[16];
	int fd;

	snprintf(service, sizeof(service), "%d", port);
	if (getaddrinfo(host, service, &hints, &found))
		die(0, "no host '%s'", host);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen)) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	if (fd >= 0)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}
