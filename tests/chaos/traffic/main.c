// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

_Atomic bool traffic_stop;

static const char usage[] =
	"usage: chaos-traffic [OPTIONS] [HOST]\n"
	"\n"
	"Keeps work requests in flight between two hosts, in both directions, and demands of every "
	"single one what verbs\n"
	"promise. Without HOST it waits for the other end. It goes on for so many seconds, or "
	"until its standard input ends.\n"
	"\n"
	"  -d DEVICE    (default: mlx5_0)\n"
	"  -p PORT      TCP port (18600)\n"
	"  -t N         threads (1), each with CQs of its own\n"
	"  -q N         queue pairs of each thread (1)\n"
	"  -o KIND,...  of send send_imm write write_imm private read add swap (all)\n"
	"  -r N         operations per second, queue pair and direction (1000)\n"
	"  -s SEED      (1)\n"
	"  -D SECONDS   (0: until standard input ends)\n"
	"  -T N         timeout as in ibv_modify_qp (14)\n"
	"  -R N         retry_cnt (7)\n"
	"  -i MS        what it sleeps between two looks at everything (1)\n"
	"  -w SECONDS   without progress until it is stuck (20)\n"
	"  -m BYTES     path MTU (1024)\n"
	"  -a           each thread has an IPv4 address of its own\n"
	"  -W           post by ibv_wr_*()\n"
	"  -E           extended CQs\n"
	"  -C           CQs with room for signaled work requests only\n"
	"  -N           so few receives that the other end has to wait\n"
	"  -b           short send queues, filled to the brim\n"
	"  -P FILE      count there, 64 bits for each queue pair: successful completions of all, then posted work requests of all\n"
	"  -e           completion events\n"
	"  -S           shared receive queues\n"
	"  -1           one CQ for sends and receives\n"
	"  -2           a thread more for each CQ, which polls it as well; not with -S\n"
	"  -x           queue pairs that failed are replaced\n"
	"  -k           the other end may be killed\n"
	"  -M           all memory is of dma-bufs, whose descriptors are closed: for simulated HCAs, as these are memfds\n"
	"  -Q           ask for the state of queue pairs all the time: ERR comes after the first error\n"
	"\n"
	"Exit status: 0 all was right; 1 something was not; 3 stuck; 5 right, but work requests "
	"failed.\n";

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

__attribute__((format(printf, 3, 0))) static void print(const struct link_qp *q, const char *mark,
							const char *format, va_list args)
{
	char text[1024];
	int n = 0;

	if (q)
		n = snprintf(text, sizeof(text),
			     "%s%.3f thread %u, queue pair %u.%u (0x%x): ", mark,
			     (double)now_ns() / 1e6, q->thread->number, q->index, q->epoch,
			     q->qp ? q->qp->qp_num : 0);
	else
		n = snprintf(text, sizeof(text), "%s%.3f ", mark, (double)now_ns() / 1e6);
	vsnprintf(text + n, sizeof(text) - (size_t)n, format, args);
	flockfile(stdout);
	puts(text);
	fflush(stdout);
	funlockfile(stdout);
}

void say(const struct link_qp *q, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(q, "", format, args);
	va_end(args);
}

static void tell_history(const struct link_qp *q)
{
	uint32_t i = q->history.n > N_HISTORY ? q->history.n - N_HISTORY : 0, number;
	const struct record *record;

	for (; i < q->history.n; i++)
		say(q, "came at %.3f: %s %u, %s", (double)q->history.last[i % N_HISTORY].ns / 1e6,
		    q->history.last[i % N_HISTORY].wr_id & RECV_WR ? "receive" : "work request",
		    (uint32_t)q->history.last[i % N_HISTORY].wr_id,
		    ibv_wc_status_str(q->history.last[i % N_HISTORY].status));
	for (number = q->sends.n_completed; number != q->sends.n_posted; number++) {
		record = &q->sends.records[number % N_RECORDS];
		say(q, "outstanding: work request %u, %s%s", number,
		    record->type == REC_OP ? script_kind_name(record->op.kind) : "ack or fin",
		    record->signaled ? ", signaled" : "");
	}
}

void violated(const struct link_qp *q, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(q, "VIOLATION: ", format, args);
	va_end(args);
	if (q)
		tell_history(q);
	_exit(VIOLATION);
}

void cannot(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(NULL, "chaos-traffic: ", format, args);
	va_end(args);
	_exit(USAGE);
}

static enum ibv_mtu mtu_of(unsigned int bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && 128u << mtu < bytes)
		mtu++;
	return mtu;
}

static _Atomic uint64_t *share_progress(const char *path, size_t n)
{
	size_t bytes = n * sizeof(uint64_t);
	int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
	void *page;

	if (path && (fd < 0 || ftruncate(fd, (off_t)bytes)))
		cannot("%s: %s", path, strerror(errno));
	page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	if (page == MAP_FAILED)
		cannot("memory: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return page;
}

static struct options parse(int argc, char **argv)
{
	struct options o = {.device = "mlx5_0",
			    .port = 18600,
			    .n_threads = 1,
			    .n_qps = 1,
			    .rate = 1000,
			    .seed = 1,
			    .kinds = (1u << OP_KINDS) - 1,
			    .stuck_seconds = 20,
			    .mtu = IBV_MTU_1024,
			    .timeout = 14,
			    .tick_ms = 1,
			    .retry_cnt = 7};
	const char *progress = NULL;
	int c;

	while ((c = getopt(argc, argv, "d:p:t:q:o:r:s:D:T:R:i:w:m:P:aWECNbeS12xkQMh")) >= 0) {
		switch (c) {
		case 'd':
			o.device = optarg;
			break;
		case 'p':
			o.port = (unsigned int)atoi(optarg);
			break;
		case 't':
			o.n_threads = (unsigned int)atoi(optarg);
			break;
		case 'q':
			o.n_qps = (unsigned int)atoi(optarg);
			break;
		case 'o':
			o.kinds = script_kinds(optarg);
			break;
		case 'r':
			o.rate = (unsigned int)atoi(optarg);
			break;
		case 's':
			o.seed = strtoull(optarg, NULL, 0);
			break;
		case 'D':
			o.seconds = atof(optarg);
			break;
		case 'T':
			o.timeout = (unsigned int)atoi(optarg);
			break;
		case 'R':
			o.retry_cnt = (unsigned int)atoi(optarg);
			break;
		case 'i':
			o.tick_ms = atoi(optarg);
			break;
		case 'w':
			o.stuck_seconds = atof(optarg);
			break;
		case 'm':
			o.mtu = mtu_of((unsigned int)atoi(optarg));
			break;
		case 'P':
			progress = optarg;
			break;
		case 'a':
			o.own_gids = true;
			break;
		case 'W':
			o.builders = true;
			break;
		case 'E':
			o.extended = true;
			break;
		case 'C':
			o.small_cq = true;
			break;
		case 'N':
			o.few_recvs = true;
			break;
		case 'b':
			o.brim = true;
			break;
		case 'e':
			o.events = true;
			break;
		case 'S':
			o.srq = true;
			break;
		case '1':
			o.one_cq = true;
			break;
		case '2':
			o.pollers = true;
			break;
		case 'x':
			o.replace = true;
			break;
		case 'k':
			o.peer_may_die = true;
			break;
		case 'Q':
			o.ask = true;
			break;
		case 'M':
			o.dmabuf = true;
			break;
		default:
			o.kinds = 0;
			break;
		}
	}
	if (!o.kinds || !o.n_threads || !o.n_qps || !o.rate || argc > optind + 1 || (o.pollers && o.srq)) {
		fputs(usage, stderr);
		exit(USAGE);
	}
	o.host = argv[optind];
	o.progress = share_progress(progress, (size_t)2 * o.n_threads * o.n_qps);
	o.posted = o.progress + (size_t)o.n_threads * o.n_qps;
	return o;
}

/* One connection for each thread, the first one first. */
static void connect_threads(const struct options *o, struct thread *threads)
{
	struct addrinfo hints = {.ai_family = AF_INET,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = o->host ? 0 : AI_PASSIVE},
			*found;
	int one = 1, listener = -1;
	unsigned int i, tries;
	char port[16];

	snprintf(port, sizeof(port), "%u", o->port);
	if (getaddrinfo(o->host, port, &hints, &found))
		cannot("no host %s", o->host);
	if (!o->host) {
		listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(listener, found->ai_addr, found->ai_addrlen) || listen(listener, 64))
			cannot("port %s: %s", port, strerror(errno));
	}
	for (i = 0; i < o->n_threads; i++) {
		threads[i].fd = -1;
		if (!o->host)
			threads[i].fd = accept(listener, NULL, NULL);
		for (tries = 0; o->host && tries < 1000; tries++, usleep(10000)) {
			threads[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
			if (!connect(threads[i].fd, found->ai_addr, found->ai_addrlen))
				break;
			close(threads[i].fd);
			threads[i].fd = -1;
		}
		if (threads[i].fd < 0)
			cannot("no connection: %s", strerror(errno));
		setsockopt(threads[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	if (listener >= 0)
		close(listener);
	freeaddrinfo(found);
}

static void *watch_input(void *arg)
{
	const struct options *o = arg;
	struct pollfd fd = {.fd = 0, .events = POLLIN};
	uint64_t until = now_ns() + (uint64_t)(o->seconds * 1e9);
	char buf[64];

	if (o->seconds > 0) {
		while (now_ns() < until)
			usleep(10000);
	} else {
		while (poll(&fd, 1, -1) >= 0 && read(0, buf, sizeof(buf)) > 0)
			;
	}
	traffic_stop = true;
	return NULL;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct thread *threads = calloc(o.n_threads, sizeof(*threads));
	pthread_t *ids = calloc(o.n_threads, sizeof(*ids)), watcher;
	struct totals sum = {0};
	unsigned int i, s;

	if (!threads || !ids)
		cannot("no memory");
	connect_threads(&o, threads);
	if (!pthread_create(&watcher, NULL, watch_input, &o))
		pthread_detach(watcher);
	for (i = 0; i < o.n_threads; i++) {
		threads[i].opt = &o;
		threads[i].number = i;
		threads[i].side = !!o.host;
		if (pthread_create(&ids[i], NULL, thread_run, &threads[i]))
			cannot("no thread");
	}
	say(NULL, "running");
	for (i = 0; i < o.n_threads; i++) {
		pthread_join(ids[i], NULL);
		sum.ops += threads[i].totals.ops;
		sum.received += threads[i].totals.received;
		sum.broken += threads[i].totals.broken;
		sum.replaced += threads[i].totals.replaced;
		for (s = 0; s < 32; s++)
			sum.errors[s] += threads[i].totals.errors[s];
		if (threads[i].totals.longest_gap_ns > sum.longest_gap_ns)
			sum.longest_gap_ns = threads[i].totals.longest_gap_ns;
	}
	say(NULL,
	    "done: %lu operations completed, %lu messages received, longest pause %.3f ms, %lu "
	    "queue pairs failed, %lu replaced",
	    sum.ops, sum.received, (double)sum.longest_gap_ns / 1e6, sum.broken, sum.replaced);
	for (s = 0; s < 32; s++)
		if (sum.errors[s])
			say(NULL, "first errors: %s: %lu", ibv_wc_status_str((enum ibv_wc_status)s),
			    sum.errors[s]);
	free(threads);
	free(ids);
	return sum.broken ? SURFACED : CLEAN;
}
