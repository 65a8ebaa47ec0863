/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#define NAME6 "udp6"
#define NAME4 "udp4"

void md_stored_take(int *ret_fd6, int *ret_fd4)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names);

	*ret_fd6 = *ret_fd4 = -1;
	for (int i = 0; i < n; i++) {
		int fd = SD_LISTEN_FDS_START + i;
		int *ret = !strcmp(names[i], NAME6) ? ret_fd6 : !strcmp(names[i], NAME4) ? ret_fd4 : NULL;

		if (ret && *ret < 0)
			*ret = fd;
		else
			close(fd);
		free(names[i]);
	}
	free(names);
}

/* FDPOLL=0: the service manager keeps a socket with a pending error. */
static void keep(int fd, const char *name)
{
	char text[64];

	if (fd < 0)
		return;
	snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name);
	sd_pid_notify_with_fds(0, 0, text, &fd, 1);
}

void md_stored_keep(const struct md_udp *udp)
{
	keep(udp->fd6, NAME6);
	keep(udp->fd4, NAME4);
}
