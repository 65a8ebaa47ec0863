// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent_log.h"
#include "realagent.h"
#include "tmpdir.h"

struct md_clients clients;
static struct tmpdir dir;

static void on_gone(void *arg, struct md_client *client)
{
	(void)arg;
	(void)client;
}

static const struct md_client_ops ops = {.gone = on_gone};

const char *realagent_start(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	md_log_init(MD_ERROR);
	tmpdir_make(&dir);
	memset(&clients, 0, sizeof(clients));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", tmpdir_at(&dir, "agent"));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_true(sd_event_new(&clients.event) >= 0);
	clients.ops = &ops;
	clients.trusts = true;
	clients.max = 8;
	assert_int_equal(md_clients_start(&clients, fd), 0);
	return dir.path;
}

void realagent_run(void)
{
	while (sd_event_run(clients.event, 0) > 0)
		;
}

void realagent_stop(void)
{
	md_clients_stop(&clients);
	sd_event_unref(clients.event);
	tmpdir_remove(&dir);
}
