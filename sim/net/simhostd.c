// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The daemon of one simulated host; started by the launcher inside the host's namespaces, ends on
 * SIGTERM. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "server.h"
#include "control.h"
#include "host.h"

#define COUNTERS_MS 100

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int serve(struct host *h, int control, int signals)
{
	struct pollfd fds[] = {{.fd = h->net.fd, .events = POLLIN},
			       {.fd = control, .events = POLLIN},
			       {.fd = signals, .events = POLLIN},
			       {.fd = cm_server_fd(h->cm), .events = POLLIN}};
	long long show_at = 0;
	int err = 0, wait = COUNTERS_MS;

	while (!err && !fds[2].revents) {
		if (poll(fds, 4, wait) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents)
			err = netmon_read(&h->net);
		if (!err && fds[1].revents)
			err = control_accept(h, control);
		wait = cm_server_run(h->cm);
		if (now_ms() >= show_at) {
			host_show_counters(h);
			show_at = now_ms() + COUNTERS_MS;
		}
		if (wait < 0 || wait > show_at - now_ms())
			wait = show_at > now_ms() ? (int)(show_at - now_ms()) : 0;
	}
	return err;
}

/* The launcher waits for this line; the pipe it comes through ends with the launcher. */
static int say_ready(void)
{
	if (puts("ready") == EOF || fflush(stdout))
		return -errno;
	return freopen("/dev/null", "w", stdout) ? 0 : -errno;
}

int main(int argc, char **argv)
{
	struct host *h = calloc(1, sizeof(*h));
	int control = -1, signals, err;

	if (argc != 2 || !h) {
		fprintf(stderr, "usage: simhostd CONFIG\n");
		free(h);
		return 2;
	}
	h->state_fd = h->net.fd = -1;
	err = config_read(&h->config, argv[1]);
	if (err)
		goto err_free;
	signals = open_signals();
	err = host_open(h);
	if (err)
		goto err_close;
	err = cm_server_open(h, &h->cm);
	if (!err) {
		control = control_listen(h->config.socket_path);
		err = control < 0 ? control : say_ready();
	}
	if (!err)
		err = serve(h, control, signals);
	if (err)
		fprintf(stderr, "simhostd: %s\n", strerror(-err));
	unlink(h->config.socket_path);
	if (control >= 0)
		close(control);
	cm_server_close(h->cm);
err_close:
	host_close(h);
	close(signals);
err_free:
	free(h);
	return err ? 1 : 0;
}
