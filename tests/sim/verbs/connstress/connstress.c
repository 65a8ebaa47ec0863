// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Random sequences of connecting, moving data, breaking off and tearing down, many at once, between
 * two hosts. Counts every completion: each signaled request exactly once, nothing after the end, no
 * event lost.
 *
 *   connstress SIDE HOST [-n SEQUENCES] [-t THREADS] [-s SEED] [-b FIRST] [-p PORT] [-d DEV0,DEV1]
 * [-g GID-INDEX] [-0 RAIL] [-1 RAIL] [-x WORD]... [-v]
 *
 * SIDE is 0 or 1, HOST where side 0's sockets are; both sides get the same options. -n counts all
 * threads. -0 and -1 leave side 0 or 1 one device only, for a path that works without help. -x
 * leaves something out: srq, events, cq_ex, wr, breaks, bad-keys, rereg. Ends with 0 when all is
 * well, 1 with a message when something is wrong, 3 when a thread is stuck.
 */
#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 64
#define STUCK_S     90

struct options {
	unsigned int side, threads;
	uint64_t sequences, seed, first;
	int port, gid_index;
	struct script_limits limits;
	const char *host, *devs[2];
	bool verbose;
};

static struct options opt = {.threads = 4,
			     .sequences = 100,
			     .seed = 1,
			     .port = 18950,
			     .gid_index = 3,
			     .limits = {.rails = {-1, -1}},
			     .devs = {"mlx5_0", "mlx5_1"}};
static struct device devices[2];
static struct counts counts;
static struct worker workers[MAX_THREADS];

void die(struct worker *w, int err, const char *format, ...)
{
	char text[512], where[256] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (w)
		script_text(&w->script, where, sizeof(where));
	fprintf(stderr, "connstress: side %u, thread %u, sequence %lu (%s), in %s: %s%s%s\n",
		opt.side, w ? w->number : 0, w ? w->sequence : 0, where,
		w ? atomic_load_explicit(&w->doing, memory_order_relaxed) : "start", text,
		err ? ": " : "", err ? strerror(err) : "");
	_exit(1);
}

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: connstress SIDE HOST [-n SEQUENCES] [-t THREADS] [-s SEED] [-b "
			"FIRST] [-p PORT] [-d DEV0,DEV1] "
			"[-g GID-INDEX] [-0 RAIL] [-1 RAIL] [-x WORD]... [-v]\n");
	exit(2);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:t:s:b:p:d:g:0:1:x:v")) != -1) {
		switch (c) {
		case 'n':
			opt.sequences = strtoull(optarg, NULL, 0);
			break;
		case 't':
			opt.threads = (unsigned int)atoi(optarg);
			break;
		case 's':
			opt.seed = strtoull(optarg, NULL, 0);
			break;
		case 'b':
			opt.first = strtoull(optarg, NULL, 0);
			break;
		case 'p':
			opt.port = atoi(optarg);
			break;
		case 'd':
			opt.devs[0] = strtok(optarg, ",");
			opt.devs[1] = strtok(NULL, ",");
			break;
		case 'g':
			opt.gid_index = atoi(optarg);
			break;
		case '0':
			opt.limits.rails[0] = atoi(optarg);
			break;
		case '1':
			opt.limits.rails[1] = atoi(optarg);
			break;
		case 'x':
			if (!script_without(optarg))
				usage();
			opt.limits.without |= script_without(optarg);
			break;
		case 'v':
			opt.verbose = true;
			break;
		default:
			usage();
		}
	}
	if (argc - optind != 2 || !opt.devs[1] || !opt.threads || opt.threads > MAX_THREADS)
		usage();
	opt.side = argv[optind][0] == '1';
	opt.host = argv[optind + 1];
}

static void open_device(struct device *dev, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			dev->ctx = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	if (!dev->ctx)
		die(NULL, errno, "opening %s", name);
	dev->name = name;
	dev->gid_index = opt.gid_index;
	if (ibv_query_gid(dev->ctx, 1, dev->gid_index, &dev->gid))
		die(NULL, errno, "GID %d of %s", dev->gid_index, name);
}

static int listen_on(int port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, 1))
		die(NULL, errno, "listening on port %d", port);
	return fd;
}

static int connect_to(const char *host, int port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	char service[16];
	int fd = -1;

	snprintf(service, sizeof(service), "%d", port);
	if (getaddrinfo(host, service, &hints, &found))
		die(NULL, 0, "no host '%s'", host);
	for (int tries = 0; fd < 0 && tries < 1000; tries++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, found->ai_addr, found->ai_addrlen) == 0)
			break;
		close(fd);
		fd = -1;
		usleep(20000);
	}
	freeaddrinfo(found);
	if (fd < 0)
		die(NULL, 0, "side 0 does not listen on port %d", port);
	return fd;
}

static void meet(struct worker *w)
{
	int one = 1, listener;

	if (w->side == 1) {
		w->fd = connect_to(opt.host, opt.port + (int)w->number);
	} else {
		listener = listen_on(opt.port + (int)w->number);
		w->fd = accept(listener, NULL, NULL);
		close(listener);
	}
	if (w->fd < 0)
		die(w, errno, "no connection with the other side");
	setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t n = opt.sequences / opt.threads + (w->number < opt.sequences % opt.threads);

	atomic_store_explicit(&w->doing, "meeting", memory_order_relaxed);
	meet(w);
	w->local = aligned_alloc(4096, LOCAL_BYTES);
	w->target = aligned_alloc(4096, TARGET_BYTES);
	if (!w->local || !w->target)
		die(w, ENOMEM, "memory");
	for (uint64_t i = 0; i < n; i++) {
		w->sequence = opt.first + i;
		script_make(&w->script, opt.seed, w->number, w->sequence, &opt.limits);
		sequence_run(w);
	}
	close(w->fd);
	free(w->local);
	free(w->target);
	atomic_store_explicit(&w->doing, NULL, memory_order_release);
	return NULL;
}

/* Ends the program when a thread has done nothing for too long. */
static void *watch(void *arg)
{
	uint64_t seen[MAX_THREADS] = {};
	int idle[MAX_THREADS] = {};

	(void)arg;
	for (;;) {
		sleep(1);
		for (unsigned int t = 0; t < opt.threads; t++) {
			uint64_t beat =
				atomic_load_explicit(&workers[t].heartbeat, memory_order_relaxed);
			const char *doing =
				atomic_load_explicit(&workers[t].doing, memory_order_acquire);

			idle[t] = !doing || beat != seen[t] ? 0 : idle[t] + 1;
			seen[t] = beat;
			if (idle[t] < STUCK_S)
				continue;
			fprintf(stderr, "connstress: side %u, thread %u is stuck in %s\n", opt.side,
				t, doing);
			_exit(3);
		}
		if (opt.verbose)
			fprintf(stderr, "\rside %u: %lu sequences", opt.side,
				atomic_load(&counts.sequences));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS], watchdog;
	struct timespec begun, ended;

	parse(argc, argv);
	for (int d = 0; d < 2; d++)
		open_device(&devices[d], opt.devs[d]);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (unsigned int t = 0; t < opt.threads; t++) {
		workers[t] = (struct worker){
			.number = t, .side = opt.side, .devs = devices, .counts = &counts};
		if (pthread_create(&threads[t], NULL, work, &workers[t]))
			die(NULL, errno, "thread");
	}
	if (pthread_create(&watchdog, NULL, watch, NULL))
		die(NULL, errno, "thread");
	for (unsigned int t = 0; t < opt.threads; t++)
		pthread_join(threads[t], NULL);
	pthread_cancel(watchdog);
	pthread_join(watchdog, NULL);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	for (int d = 0; d < 2; d++) {
		if (ibv_close_device(devices[d].ctx))
			die(NULL, errno, "close_device");
	}
	printf("connstress: side %u, seed %lu: %lu sequences, %lu connections, %lu broken off, %lu "
	       "requests, of %lu signaled %lu complete, "
	       "%lu flushed, %lu key errors, %lu received, %.1f s\n",
	       opt.side, opt.seed, counts.sequences, counts.connections, counts.broken,
	       counts.posted, counts.signaled, counts.completed, counts.flushed, counts.key_errors,
	       counts.received,
	       (double)(ended.tv_sec - begun.tv_sec) +
		       (double)(ended.tv_nsec - begun.tv_nsec) / 1e9);
	return 0;
}
