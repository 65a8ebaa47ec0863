// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Does what NCCL's net_ib does, without a GPU: a ring of ranks, one per host, each sending to the
 * next and receiving from the one before, both connections made by one thread at once, over all
 * devices.
 *
 *   ncclish RANK HOST0 HOST1 ... [-n TRANSFERS] [-s BYTES] [-q QPS-PER-DEVICE] [-d DEV,DEV] [-g
 * GID-INDEX]
 *           [-p PORT] [-r SEED] [-t SECONDS] [-z]
 *
 * -z: queues as NCCL makes them from 2.29.7 on: senders, and what flushes, have no receive queue.
 * HOSTi is where rank i's sockets are. Ends with 0 when every byte of every transfer was right.
 */
#include "xfer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct side to_next, from_prev;
static struct net net;

struct options {
	struct plan plan;
	const char *devs;
	int qps_per_dev, gid_index, port;
	bool lean;
	unsigned int seconds;
};

static void too_late(int number)
{
	static const char text[] = "ncclish: it took too long\n";

	(void)number;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(125);
	_exit(124);
}

static _Noreturn void usage(void)
{
	die(0, "usage: ncclish RANK HOST0 HOST1 ... [-n TRANSFERS] [-s BYTES] [-q QPS-PER-DEVICE] "
	       "[-d DEV,DEV] [-g GID-INDEX] "
	       "[-p PORT] [-r SEED] [-t SECONDS] [-z]");
}

static void parse(int argc, char **argv, struct options *opt)
{
	int c;

	while ((c = getopt(argc, argv, "n:s:q:d:g:p:r:t:z")) != -1) {
		switch (c) {
		case 'n':
			opt->plan.n_transfers = strtoull(optarg, NULL, 0);
			break;
		case 's':
			opt->plan.max_bytes = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'q':
			opt->qps_per_dev = atoi(optarg);
			break;
		case 'd':
			opt->devs = optarg;
			break;
		case 'g':
			opt->gid_index = atoi(optarg);
			break;
		case 'p':
			opt->port = atoi(optarg);
			break;
		case 'r':
			opt->plan.seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			opt->seconds = (unsigned int)atoi(optarg);
			break;
		case 'z':
			opt->lean = true;
			break;
		default:
			usage();
		}
	}
}

static int try_accept(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd >= 0)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* Both connections at once, in this thread: neither may make the other wait. */
static void connect_both(const char *next, const struct options *opt)
{
	struct timespec pause = {.tv_nsec = 1000000};
	int listener = tcp_listen(opt->port), out = -1, in = -1;
	bool out_done = false, in_done = false, between = false;

	while (!out_done || !in_done) {
		if (out < 0) {
			out = tcp_try_connect(next, opt->port);
			if (out >= 0)
				end_init(&to_next.end, out, true);
		}
		if (in < 0) {
			in = try_accept(listener);
			if (in >= 0)
				end_init(&from_prev.end, in, false);
		}
		if (out >= 0)
			out_done = end_progress(&net, &to_next.end);
		if (in >= 0)
			in_done = end_progress(&net, &from_prev.end);
		if (!between && out >= 0 && in >= 0) {
			side_register_between(&to_next);
			side_register_between(&from_prev);
			between = true;
		}
		nanosleep(&pause, NULL);
	}
	close(listener);
}

int main(int argc, char **argv)
{
	struct options opt = {.plan = {.seed = 1, .max_bytes = 65536, .n_transfers = 200},
			      .qps_per_dev = 2,
			      .gid_index = -1,
			      .port = 18900,
			      .seconds = 60};
	int rank, n_ranks;

	parse(argc, argv, &opt);
	n_ranks = argc - optind - 1;
	if (n_ranks < 2)
		usage();
	rank = atoi(argv[optind]);
	signal(SIGALRM, too_late);
	alarm(opt.seconds);
	lib_load();
	net_open(&net, opt.devs, opt.qps_per_dev, opt.gid_index);
	net.lean = opt.lean;
	side_init(&to_next, &net, &opt.plan, (uint32_t)rank);
	side_init(&from_prev, &net, &opt.plan, (uint32_t)((rank + n_ranks - 1) % n_ranks));
	connect_both(argv[optind + 1 + (rank + 1) % n_ranks], &opt);
	while (to_next.finished < opt.plan.n_transfers ||
	       from_prev.finished < opt.plan.n_transfers) {
		send_progress(&to_next);
		recv_progress(&from_prev);
		sched_yield(); /* so does NCCL's proxy */
	}
	end_say_done(&to_next.end); /* to both, before waiting for anybody: it is a ring */
	end_say_done(&from_prev.end);
	end_hear_done(&to_next.end);
	end_hear_done(&from_prev.end);
	end_close(&net, &to_next.end);
	end_close(&net, &from_prev.end);
	side_close(&to_next);
	side_close(&from_prev);
	net_close(&net);
	printf("ncclish: rank %d of %d: %lu transfers out, %lu in with %lu bytes, all right\n",
	       rank, n_ranks, to_next.finished, from_prev.finished, from_prev.bytes);
	return 0;
}
