// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs qualify: tests on a device's own port the assumptions of exactly-once. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "host.h"
#include "qualify_files.h"
#include "qualify_run.h"
#include "sysfs.h"
#include "verdicts.h"

#define LOAD_MBIT_DEFAULT 1000
#define LOAD_MBIT_MAX     10000000
#define LOAD_NS           250000000
#define PORTS_MAX         4

struct qualify {
	struct cli *cli;
	const char *peer, *only;
	const char *output; /* file; "-": as JSON on stdout */
	unsigned long max_mbit;
	const char *export, *import; /* files */
	bool dry_run;
	bool gpu;
	bool quiet; /* print the result only */
};

#define GPU_TEXT "a CUDA context and 8 MiB on the first GPU that CUDA shows"

/* ---- progress -------------------------------------------------------------------------------- */

static void say_progress(const struct qualify_order *order, const char *peer, size_t i, size_t n, const char *trial, const char *verdict)
{
	if (!trial) {
		fprintf(stderr, "%s with %s: verbs over its own port, in bursts at its full rate, for less than a minute; 64 MiB of memory%s\n", order->device,
			!strcmp(peer, order->device) ? "itself" : peer, order->gpu ? "; " GPU_TEXT : "");
		return;
	}
	if (!isatty(STDERR_FILENO))
		return;
	if (!verdict)
		fprintf(stderr, "\r\033[K%s [%zu/%zu] %s", order->device, i, n, trial);
	else if (i == n)
		fprintf(stderr, "\r\033[K");
}

/* Sum of words of four bytes, of all ports, both directions. */
static uint64_t read_words(const struct cli *cli, const char *device)
{
	static const char *const names[] = {"port_xmit_data", "port_rcv_data"};
	unsigned long long words, sum = 0;
	char path[PATH_MAX];
	FILE *file;

	for (int port = 1; port <= PORTS_MAX; port++)
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%d/counters/%s", cli->sysfs, device, port, names[i]);
			file = fopen(path, "re");
			if (!file)
				continue;
			if (fscanf(file, "%llu", &words) == 1)
				sum += words;
			fclose(file);
		}
	return sum;
}

static unsigned long mbit_of(uint64_t words)
{
	return (unsigned long)(words * 32 / (LOAD_NS / 1000));
}

/* Load by others. */
struct load {
	unsigned long mbit; /* Mbit/s of the device, both directions */
	char busy[1024]; /* names of other devices that carry more than --max-load, comma-separated; as many as fit */
};

static void add_busy(struct load *load, const char *device)
{
	size_t len = strlen(load->busy);

	/* Not a part of a name: that may be another device's. */
	if (len + strlen(device) + 2 <= sizeof(load->busy))
		snprintf(load->busy + len, sizeof(load->busy) - len, "%s%s", len ? "," : "", device);
}

/* Looks at all devices of the host: another one may become the peer of @device. */
static void look_at_load(const struct qualify *qualify, const char *device, struct load *ret)
{
	const struct timespec pause = {.tv_nsec = LOAD_NS};
	const struct cli *cli = qualify->cli;
	uint64_t before = read_words(cli, device), *others;
	char **names = NULL;
	int n = sysfs_devices(cli->sysfs, &names);

	*ret = (struct load){0};
	others = calloc(n > 0 ? (size_t)n : 1, sizeof(*others));
	for (int i = 0; others && i < n; i++)
		others[i] = read_words(cli, names[i]);
	nanosleep(&pause, NULL);
	ret->mbit = mbit_of(read_words(cli, device) - before);
	for (int i = 0; i < n; i++) {
		if (others && strcmp(names[i], device) != 0 && mbit_of(read_words(cli, names[i]) - others[i]) > qualify->max_mbit)
			add_busy(ret, names[i]);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	free(others);
}

/* ---- results ----------------------------------------------------------------------------------- */

static enum out_tone tone_of(enum mv_trial_verdict verdict)
{
	static const enum out_tone tones[] = {
		[MV_TRIAL_PASS] = OUT_GOOD, [MV_TRIAL_FAIL] = OUT_BAD, [MV_TRIAL_UNSURE] = OUT_WARN, [MV_TRIAL_SKIPPED] = OUT_PLAIN};

	return tones[verdict];
}

static const char *consequence(enum mv_verdict verdict)
{
	switch (verdict) {
	case MV_VERDICT_QUALIFIED:
		return "qualified: what exactly-once rests on holds on this device";
	case MV_VERDICT_FAILED:
		return "failed: connections on this device are not to be moved while they work";
	default:
		return "unsure: nothing failed, but not everything could be tried; run it again when the host is idle";
	}
}

static void show_failures(struct out *out, const struct mv_qualified *q)
{
	out_list(out, "assumptions", "Assumptions that do not hold");
	for (size_t i = 0; i < q->n_trials; i++)
		if (q->trials[i].verdict == MV_TRIAL_FAIL)
			out_item(out, OUT_BAD, "%s: %s", q->trials[i].name, q->trials[i].assumption);
	out_list_end(out);
}

static int show_text(struct cli *cli, const struct mv_qualified *q)
{
	static const enum out_tone tones[] = {[MV_VERDICT_QUALIFIED] = OUT_GOOD, [MV_VERDICT_FAILED] = OUT_BAD, [MV_VERDICT_UNSURE] = OUT_WARN};
	struct out *out = cli_out(cli);

	if (!out)
		return CLI_ERROR;
	out_textf(out, "combination", q->device, OUT_PLAIN, "board %s, firmware %s, kernel %s, library %s", q->key.board_id, q->key.firmware, q->key.kernel,
		  q->key.libmlx5);
	out_list(out, "trials", NULL);
	for (size_t i = 0; i < q->n_trials; i++) {
		const struct mv_qualified_trial *t = &q->trials[i];

		out_row(out);
		out_text(out, "name", "TRIAL", OUT_PLAIN, t->name);
		out_text(out, "verdict", "VERDICT", tone_of(t->verdict), mv_trial_verdict_text(t->verdict));
		out_textf(out, "seconds", "SECONDS", OUT_PLAIN, "%.1f", mv_qualified_figure(t, "seconds", 0));
		out_text(out, "reason", "REASON", OUT_PLAIN, t->reason[0] ? t->reason : NULL);
	}
	out_list_end(out);
	show_failures(out, q);
	out_text(out, "verdict", q->device, tones[q->verdict], consequence(q->verdict));
	return cli_finish(out, CLI_OK);
}

/* @n_before: objects of the list printed so far; -1: a single device */
static int show_json(const struct mv_qualified *q, int n_before)
{
	char *text = mv_qualified_text(q);
	bool failed;

	if (!text) {
		cli_error("no memory");
		return CLI_ERROR;
	}
	failed = (n_before >= 0 && fputs(n_before ? ",\n" : "[\n", stdout) < 0) || fputs(text, stdout) < 0;
	free(text);
	return failed ? CLI_ERROR : CLI_OK;
}

static int show(const struct qualify *qualify, const struct mv_qualified *q, int n_before)
{
	int err;

	if (qualify->output && strcmp(qualify->output, "-") != 0) {
		err = mv_qualified_write(qualify->output, q);
		if (err) {
			cli_error("%s: %s", qualify->output, strerror(-err));
			return CLI_ERROR;
		}
		if (qualify->cli->json)
			return show_json(q, n_before);
	}
	if (qualify->cli->json || qualify->output)
		return qualify->cli->json || !strcmp(qualify->output, "-") ? show_json(q, n_before) : show_text(qualify->cli, q);
	return show_text(qualify->cli, q);
}

/* ---- one device, all devices ------------------------------------------------------------------- */

static int exit_of(enum mv_verdict verdict)
{
	return verdict == MV_VERDICT_QUALIFIED ? CLI_OK : verdict == MV_VERDICT_FAILED ? CLI_ATTENTION : CLI_UNSURE;
}

/* What was not found out with a GPU must not replace what is known without. */
static int keep(const struct qualify *qualify, const struct mv_qualified *q)
{
	if (!qualify->gpu || q->verdict != MV_VERDICT_UNSURE)
		return qualify_keep(qualify->cli, q, qualify->gpu);
	if (!qualify->cli->json)
		cli_error("the verdict on %s is shown, and not kept: with --gpu an unsure one changes nothing", q->device);
	return CLI_OK;
}

static int one(const struct qualify *qualify, const char *device, int *n_shown)
{
	struct qualify_order order = {.device = device,
				      .peer = qualify->peer,
				      .only = qualify->only,
				      .gpu = qualify->gpu,
				      .progress = qualify->quiet ? NULL : say_progress};
	struct mv_qualified *q;
	struct load load;
	char why[640];
	int rc;

	look_at_load(qualify, device, &load);
	if (load.mbit > qualify->max_mbit) {
		cli_error("%s carries %lu Mbit/s of others' traffic, more than %lu (--max-load): nothing was tried", device, load.mbit, qualify->max_mbit);
		return CLI_UNSURE;
	}
	order.rests = load.mbit > 0;
	order.avoid = load.busy[0] ? load.busy : NULL;
	q = calloc(1, sizeof(*q));
	if (!q) {
		cli_error("no memory");
		return CLI_ERROR;
	}
	if (qualify_run(qualify->cli, &order, q, why, sizeof(why))) {
		cli_error("%s: %s", device, why);
		free(q);
		return CLI_ERROR;
	}
	rc = show(qualify, q, *n_shown);
	/* A part of the trials gives no verdict. With a file named, the verdict goes there only. */
	if (rc == CLI_OK && !qualify->only && !qualify->output)
		rc = keep(qualify, q);
	*n_shown += *n_shown >= 0;
	if (rc == CLI_OK)
		rc = exit_of(q->verdict);
	free(q);
	return rc;
}

/* The worse one of two exit statuses. */
static int worse(int a, int b)
{
	static const int order[] = {[CLI_OK] = 0, [CLI_UNSURE] = 1, [CLI_ATTENTION] = 2, [CLI_ERROR] = 3};

	return order[a] > order[b] ? a : b;
}

static int dry_run(const struct qualify *qualify, char **devices, size_t n)
{
	char *text, why[256], *line, *save;
	int err = qualify_list(qualify->cli, &text, why, sizeof(why));

	if (err) {
		cli_error("%s", why);
		return CLI_ERROR;
	}
	printf("Would try, with verbs over the port of each device itself or another device that reaches it, in bursts at its\n"
	       "full rate, for less than a minute each, with 64 MiB of memory, not while others use more than %lu Mbit/s:\n",
	       qualify->max_mbit);
	for (size_t i = 0; i < n; i++)
		printf("  %s\n", devices[i]);
	if (qualify->gpu)
		printf("\nFor each device a process of its own would have " GPU_TEXT ".\n");
	printf("\nTrials:\n");
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *assumption = strchr(line, '\t'), *source = assumption ? strchr(assumption + 1, '\t') : NULL;

		if (!source)
			continue;
		*assumption++ = *source++ = '\0';
		printf("  %s\n      %s\n      (%s)\n", line, assumption, source);
	}
	free(text);
	return fflush(stdout) ? CLI_ERROR : CLI_OK;
}

static int all(const struct qualify *qualify, char **devices, size_t n)
{
	int rc = CLI_OK, n_shown = n == 1 ? -1 : 0;

	if (qualify->dry_run)
		return dry_run(qualify, devices, n);
	for (size_t i = 0; i < n; i++)
		rc = worse(rc, one(qualify, devices[i], &n_shown));
	if (qualify->cli->json && n_shown >= 0)
		puts(n_shown ? "]" : "[\n]");
	return fflush(stdout) ? CLI_ERROR : rc;
}

/* All RDMA devices of the host. */
static int every(const struct qualify *qualify)
{
	char **names = NULL, why[256];
	int n = sysfs_devices(qualify->cli->sysfs, &names), rc;

	if (n <= 0) {
		host_no_devices(qualify->cli->sysfs, n == 0, why, sizeof(why));
		cli_error("%s", why);
		return CLI_ERROR;
	}
	if (qualify->output && n > 1)
		rc = cli_usage(&cmd_qualify, "--output is of one device; this host has %d: name one", n);
	else
		rc = all(qualify, names, (size_t)n);
	while (n--)
		free(names[n]);
	free(names);
	return rc;
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{"peer", required_argument, NULL, 'p'},	   {"only", required_argument, NULL, 'o'}, {"max-load", required_argument, NULL, 'm'},
		{"output", required_argument, NULL, 'O'},  {"dry-run", no_argument, NULL, 'n'},	   {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},	   {"export", required_argument, NULL, 'E'},
		{"import", required_argument, NULL, 'I'}, {"gpu", no_argument, NULL, 'g'},	   {NULL, 0, NULL, 0},
	};
	struct qualify qualify = {.cli = cli, .max_mbit = LOAD_MBIT_DEFAULT};
	int opt, rc;

	while ((opt = cli_option(cli, &cmd_qualify, argc, argv, ":njh", options, &rc)) != -1) {
		switch (opt) {
		case -2:
			return rc;
		case 'p':
			qualify.peer = optarg;
			break;
		case 'o':
			qualify.only = optarg;
			break;
		case 'O':
			qualify.output = optarg;
			break;
		case 'n':
			qualify.dry_run = true;
			break;
		case 'g':
			qualify.gpu = true;
			break;
		case 'E':
			qualify.export = optarg;
			break;
		case 'I':
			qualify.import = optarg;
			break;
		default:
			if (cli_uint(optarg, LOAD_MBIT_MAX, &qualify.max_mbit))
				return cli_usage(&cmd_qualify, "--max-load '%s' is not a number of Mbit/s", optarg);
		}
	}
	if ((qualify.export || qualify.import) && (optind < argc || (qualify.export && qualify.import)))
		return cli_usage(&cmd_qualify, "--export and --import stand alone");
	if (qualify.export)
		return qualify_export(cli, qualify.export);
	if (qualify.import)
		return qualify_import(cli, qualify.import);
	qualify.quiet = cli->json || (qualify.output && !isatty(STDERR_FILENO));
	if (optind == argc)
		return every(&qualify);
	if (qualify.output && argc - optind > 1)
		return cli_usage(&cmd_qualify, "--output is of one device");
	return all(&qualify, argv + optind, (size_t)(argc - optind));
}

const struct cli_command cmd_qualify = {
	.name = "qualify",
	.args = "[DEV...] [-n] [--output FILE] [--peer DEV] [--only TRIAL,...] [--gpu] [--max-load MBIT] [-j] | --export FILE | --import FILE",
	.summary = "try out whether RDMA devices keep what exactly-once rests on",
	.help = "Runs real verbs between ports of this host, with meshverbs off, and checks each thing that moving a\n"
		"connection at work relies on: what rq_psn says of a queue pair in ERR, that nothing lands afterwards,\n"
		"which work requests are flushed, what is in libmlx5's rings. Without DEV all RDMA devices, one after\n"
		"the other. Says what it will do before it does it; a device takes less than a minute.\n\n"
		"  -n, --dry-run        only say what would be tried, and on what\n"
		"      --output FILE    write the verdict to FILE as JSON ('-': to stdout); of one device\n"
		"      --peer DEV       the other end: this device, not one that is found, nor the device itself\n"
		"      --only TRIAL,... only these trials\n"
		"      --gpu            memory of the first GPU, too: takes a CUDA context on it\n"
		"      --max-load MBIT  not while the device carries more of others' traffic (1000)\n"
		"  -j, --json           print JSON: of one device an object, of several a list\n"
		"      --export FILE    write all verdicts that this host keeps to FILE ('-': stdout)\n"
		"      --import FILE    keep those of such a file; who may write there is believed\n\n"
		"Root's verdicts are kept in " MV_VERDICTS_PATH ", unless --output or --only is given: they decide\n"
		"where connections at work move with survive = auto.\n\n"
		"Exit status: 0 qualified; 1 a trial failed; 3 unsure: nothing failed, but something could not be tried\n"
		"or was disturbed; 2 wrong usage, or it could not be run. Of several devices the worst.",
	.run = run,
};
