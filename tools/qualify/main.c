// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * meshverbs-qualify [--peer DEVICE] [--avoid DEVICE,...] [--only TRIAL,...] [--config MESH.CONF] [--rest] [--gpu]
 *                   [--node N] DEVICE
 *
 * Tries out what exactly-once rests on, for `meshverbs qualify`, which says to people what this finds. A program of its
 * own, so that whatever happens to it is a finding. --gpu: memory of a GPU, too. --node: memory of that NUMA node, in
 * place of another node that is found; for tests. On stdout:
 *
 *   to DEVICE              the port that takes part
 *   trial I N NAME         before each
 *   done NAME VERDICT
 *   result                 and the JSON object behind it
 *   error TEXT             or this
 *
 * meshverbs-qualify --list: the trials, one a line: name, assumption, source, with tabs between.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "numa.h"
#include "trial.h"

#define TRIES    3
#define TRIAL_NS 4500000000ull /* a slow device must not use up the time of later trials */
#define ALL_NS   55000000000ull

static const struct q_trial *const trials[] = {
	&trial_walker,	&trial_psns,	&trial_prefix, &trial_packets, &trial_reads_counted, &trial_atomics, &trial_final,     &trial_holes, &trial_landing,
	&trial_reads,	&trial_flush,	&trial_flush_order, &trial_srq,	&trial_srq_drain,     &trial_two_ports, &trial_twin, &trial_times,
};

#define N_TRIALS (sizeof(trials) / sizeof(trials[0]))

/* ---- the key ----------------------------------------------------------------------------------- */

static void read_line(const char *device, const char *file, char *ret, size_t size)
{
	char path[512], text[64] = "";
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s", device, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	if (text[0])
		snprintf(ret, size, "%s", text);
}

static void find_key(const struct q_bench *b, struct mv_qualified_key *key)
{
	struct ibv_device_attr attr;
	struct utsname uts;

	*key = (struct mv_qualified_key){.board_id = "unknown", .firmware = "unknown", .kernel = "unknown", .libmlx5 = "unknown"};
	read_line(b->dut.device, "board_id", key->board_id, sizeof(key->board_id));
	if (!ibv_query_device(b->dut.ctx, &attr) && attr.fw_ver[0])
		snprintf(key->firmware, sizeof(key->firmware), "%.63s", attr.fw_ver);
	if (!uname(&uts))
		snprintf(key->kernel, sizeof(key->kernel), "%.64s", uts.release);
	mv_build_id((const void *)(uintptr_t)b->dut.ctx->ops.poll_cq, key->libmlx5);
}

/* ---- running ----------------------------------------------------------------------------------- */

static bool is_wanted(const char *only, const char *name)
{
	return !only || q_is_listed(only, name);
}

static void run_once(struct q_bench *b, const struct q_trial *trial, uint64_t end_ns, struct mv_qualified_trial *t)
{
	memset(t, 0, sizeof(*t));
	snprintf(t->name, sizeof(t->name), "%s", trial->name);
	snprintf(t->assumption, sizeof(t->assumption), "%s", trial->assumption);
	snprintf(t->source, sizeof(t->source), "%s", trial->source);
	q_begin(b, TRIAL_NS, end_ns, ALL_NS);
	t->verdict = q_has_time(b) ? trial->run(b, t) : q_unsure(t, "no time was left for it");
}

static void run_trial(struct q_bench *b, const struct q_trial *trial, uint64_t end_ns, struct mv_qualified_trial *t)
{
	uint64_t began_ns = q_now_ns();
	int tries = 0;

	do
		run_once(b, trial, end_ns, t);
	while (++tries < TRIES && t->verdict == MV_TRIAL_UNSURE && q_now_ns() - began_ns < TRIAL_NS);
	if (tries > 1)
		q_figure(t, "tries", tries);
	q_figure(t, "seconds", (double)((q_now_ns() - began_ns) / 1000000) / 1e3);
}

static void run_all(struct q_bench *b, const char *only, struct mv_qualified *q)
{
	uint64_t began_ns = q_now_ns();
	size_t n = 0, i = 0;

	for (size_t k = 0; k < N_TRIALS; k++)
		n += is_wanted(only, trials[k]->name);
	for (size_t k = 0; k < N_TRIALS; k++) {
		if (!is_wanted(only, trials[k]->name))
			continue;
		printf("trial %zu %zu %s\n", ++i, n, trials[k]->name);
		run_trial(b, trials[k], began_ns + ALL_NS, &q->trials[q->n_trials]);
		printf("done %s %s\n", trials[k]->name, mv_trial_verdict_text(q->trials[q->n_trials].verdict));
		q->n_trials++;
	}
	q->seconds = (double)((q_now_ns() - began_ns) / 1000000) / 1e3;
	q->time_s = (uint64_t)time(NULL);
	q->verdict = mv_qualified_decide(q->trials, q->n_trials);
}

/* What the command line says. */
struct order {
	const char *device, *peer, *only; /* @peer, @only: NULL: not named */
	int node; /* NUMA node; -1: another one than this process's is found */
	bool gpu;
};

/* Opens the GPU, if it is asked for. All devices that take part have to register its memory. */
static int find_kinds(struct q_bench *b, const struct order *order, struct q_gpu **ret_gpu, char *why, size_t why_size)
{
	struct q_port *ports[] = {&b->dut, &b->away, &b->second};
	int node = order->node, err = 0;

	if (node < 0)
		node = numa_other_node("/sys", order->device, numa_node_of(&err));
	*ret_gpu = NULL;
	if (order->gpu)
		err = q_gpu_open(ret_gpu, why, why_size);
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]) && *ret_gpu && !err; i++)
		if (ports[i]->ctx)
			err = q_gpu_check(*ret_gpu, ports[i], why, why_size);
	if (!err)
		q_kinds(b, node, *ret_gpu);
	return err;
}

static int qualify(struct q_bench *b, const struct order *order)
{
	static struct mv_qualified q;
	char why[640] = "", *text;
	struct q_gpu *gpu = NULL;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	b->random = ((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec) | 1;
	if (q_bench_open(b, order->device, order->peer, why, sizeof(why))) {
		printf("error %s\n", why);
		return 2;
	}
	printf("to %s\n", b->peer->device);
	if (find_kinds(b, order, &gpu, why, sizeof(why))) {
		printf("error %s\n", why);
		q_gpu_close(gpu);
		q_bench_close(b);
		return 2;
	}
	snprintf(q.device, sizeof(q.device), "%s", order->device);
	find_key(b, &q.key);
	run_all(b, order->only, &q);
	q_gpu_close(gpu);
	q_bench_close(b);
	text = mv_qualified_text(&q);
	if (!text) {
		printf("error no memory\n");
		return 2;
	}
	printf("result\n%s", text);
	free(text);
	return 0;
}

static int list(void)
{
	for (size_t i = 0; i < N_TRIALS; i++)
		printf("%s\t%s\t%s\n", trials[i]->name, trials[i]->assumption, trials[i]->source);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"peer", required_argument, NULL, 'p'}, {"avoid", required_argument, NULL, 'a'},
					      {"only", required_argument, NULL, 'o'}, {"list", no_argument, NULL, 'l'},
					      {"config", required_argument, NULL, 'c'}, {"rest", no_argument, NULL, 'r'},
					      {"gpu", no_argument, NULL, 'g'}, {"node", required_argument, NULL, 'n'}, {0}};
	static struct mv_config config;
	struct q_bench b = {.exclude = &config.exclude};
	struct order order = {.node = -1};
	int opt;

	_Static_assert(N_TRIALS <= MV_QUALIFIED_TRIALS, "trials of a verdict");
	/* Line buffering, so that lines before a crash are seen. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	mv_config_defaults(&config);
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'p')
			order.peer = optarg;
		else if (opt == 'a')
			b.avoid = optarg;
		else if (opt == 'o')
			order.only = optarg;
		else if (opt == 'l')
			return list();
		else if (opt == 'r')
			b.rests = true;
		else if (opt == 'g')
			order.gpu = true;
		else if (opt == 'n')
			order.node = atoi(optarg);
		else if (opt == 'c')
			mv_config_load(&config, optarg, NULL, NULL); /* bad lines are ignored, as in programs */
		else
			return 2;
	}
	if (optind + 1 != argc)
		return 2;
	order.device = argv[optind];
	return qualify(&b, &order);
}
