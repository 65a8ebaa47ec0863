/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "qualify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "agent_log.h"
#include "verdicts.h"

#define LOOK_NS	   (5 * MD_S) /* from one look at devices to the next */
#define USED_NS	   (MD_S / 4) /* the same while a qualification runs: a program may need the device */
#define LIBRARY_NS (600 * MD_S)
#define HELPER_NS  (20 * MD_S)
#define SELF	   "/proc/self/exe"
#define SOCKET	   "/run/meshverbs-qualify.socket"

/* ---- results ----------------------------------------------------------------------------------- */

static struct md_agent *agent_of(struct md_qualify *q)
{
	return (struct md_agent *)(void *)((char *)q - offsetof(struct md_agent, qualify));
}

static struct md_qualify_device *find_device(struct md_qualify *q, const char *name)
{
	for (size_t i = 0; i < q->n; i++)
		if (!strcmp(q->devices[i].name, name))
			return &q->devices[i];
	return NULL;
}

static void log_change(const struct md_qualify_device *device)
{
	switch (device->state) {
	case MD_QUALIFY_QUALIFIED:
		md_log(MD_INFO, "%s has qualified: connections at work may leave it, and move to it", device->name);
		break;
	case MD_QUALIFY_FAILED:
		md_log(MD_WARNING, "%s has not qualified, connections at work stay on it: %s: %s: %s", device->name,
		       device->trial, device->assumption, device->reason);
		break;
	case MD_QUALIFY_REFUSED:
		md_log(MD_WARNING, "%s: the verdict on it is not believed: %s", device->name, device->why);
		break;
	default:
		md_log(MD_INFO, "%s: %s", device->name,
		       device->state == MD_QUALIFY_NONE ? "no verdict on whether it qualifies" : "whether it qualifies is not certain");
		break;
	}
}

/* Return: true: processes have to be told. */
static bool take_device(struct md_qualify *q, const struct md_qualify_look_device *seen, const struct mv_qualified *verdict)
{
	struct md_qualify_device *device = find_device(q, seen->name);
	enum md_qualify_state before;

	if (!device)
		return false;
	before = device->state;
	if (seen->err == -ENODEV) {
		device->key = seen->key;
		device->state = MD_QUALIFY_UNKNOWN;
		snprintf(device->why, sizeof(device->why), "%s", seen->why);
	} else {
		md_qualify_found(device, &seen->key);
		md_qualify_counted(device, seen->words);
		md_qualify_decided(device, seen->err, verdict, seen->why);
		if (device->state != before)
			log_change(device);
	}
	return (device->state == MD_QUALIFY_QUALIFIED) != (before == MD_QUALIFY_QUALIFIED);
}

static void drop_gone(struct md_qualify *q)
{
	for (size_t i = 0; i < q->n;) {
		size_t l;

		for (l = 0; l < q->look.n && strcmp(q->look.devices[l].name, q->devices[i].name); l++)
			;
		if (l < q->look.n || &q->devices[i] == q->running) {
			i++;
			continue;
		}
		q->n--;
		if (q->running == &q->devices[q->n])
			q->running = &q->devices[i];
		q->devices[i] = q->devices[q->n];
	}
}

static void consider(struct md_qualify *q);

static void look_done(struct md_job *job)
{
	struct md_qualify_look *look = md_job_of(job, struct md_qualify_look, job);
	struct md_qualify *q = (struct md_qualify *)(void *)((char *)look - offsetof(struct md_qualify, look));
	bool changed = false;

	drop_gone(q);
	for (size_t i = 0; i < look->n; i++) {
		if (!find_device(q, look->devices[i].name) && q->n < MD_RAILS_MAX) {
			q->devices[q->n] = (struct md_qualify_device){0};
			strcpy(q->devices[q->n++].name, look->devices[i].name);
		}
		changed |= take_device(q, &look->devices[i], &look->verdicts[i]);
	}
	if (changed)
		md_due_directory(agent_of(q), false);
	consider(q);
}

/* Lists each device once, with a mask of its ports that are up. */
static void fill_look(struct md_qualify *q)
{
	const struct md_agent *agent = agent_of(q);
	const struct md_desc *desc = agent->watch.view->desc;
	struct md_qualify_look *look = &q->look;

	look->n = 0;
	for (uint32_t r = 0; r < desc->n_rails; r++) {
		const struct mv_dir_rail *rail = &desc->rails[r];
		size_t i;

		if (mv_config_list_match(&agent->options->config.exclude, rail->device))
			continue;
		for (i = 0; i < look->n && strcmp(look->devices[i].name, rail->device); i++)
			;
		if (i == look->n) {
			look->devices[i] = (struct md_qualify_look_device){0};
			strcpy(look->devices[look->n++].name, rail->device);
		}
		if ((rail->flags & MV_RAIL_UP) && rail->port < 32)
			look->devices[i].ports |= 1u << rail->port;
	}
	strcpy(look->libmlx5, q->libmlx5);
}

static void give_look(struct md_qualify *q)
{
	if (q->look.job.out)
		return;
	fill_look(q);
	md_jobs_give(&agent_of(q)->jobs, &q->look.job);
}

/* ---- are devices in use? ---------------------------------------------------------------------- */

/* Return: text for people; NULL: nobody uses the device. */
static const char *who_uses(struct md_qualify *q, const char *device, pid_t ours)
{
	struct md_agent *agent = agent_of(q);
	int foreign = md_resqp_foreign(&agent->clients.questions.resqp, device, ours, md_now());
	const struct md_qp *qp;

	for (qp = agent->clients.qps.by_key; qp; qp = qp->hh.next)
		if (!strcmp(qp->key.device, device))
			return "programs have queue pairs";
	if (foreign > 0)
		return "programs or the kernel have queue pairs";
	/* Simulated devices are unknown to the kernel. */
	return foreign < 0 && !agent->options->trusts ? "the kernel does not say who uses the devices" : NULL;
}

static const char *who_uses_any(struct md_qualify *q)
{
	const char *who = NULL;

	for (size_t i = 0; i < q->n && !who; i++)
		who = who_uses(q, q->devices[i].name, q->run.session);
	return who;
}

static const char *why_wait(struct md_qualify *q)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->devices[i].state != MD_QUALIFY_UNKNOWN && !q->devices[i].still)
			return "data passes the ports";
	return who_uses_any(q);
}

static bool is_up(const struct md_qualify *q, const char *device)
{
	for (size_t i = 0; i < q->look.n; i++)
		if (!strcmp(q->look.devices[i].name, device))
			return q->look.devices[i].ports;
	return false;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void ended(struct md_qualify *q, enum md_qualify_end end, const char *why)
{
	struct md_qualify_device *device = q->running;

	/* Devices with equal keys (model, firmware, kernel, libmlx5) share a verdict. */
	for (size_t i = 0; i < q->n; i++)
		if (mv_qualified_same_key(&q->devices[i].key, &device->key))
			md_qualify_ended(&q->devices[i], end, why, md_now());
	q->running = NULL;
	q->n_interrupted += end == MD_QUALIFY_INTERRUPTED;
	if (end == MD_QUALIFY_INTERRUPTED)
		md_log(MD_INFO, "%s: a program has come: whether it qualifies is found out later", device->name);
	else if (end == MD_QUALIFY_CANNOT)
		md_log(MD_WARNING, "%s: whether it qualifies cannot be found out: %s", device->name, why);
	give_look(q);
}

/* Stores the verdict of a run, if it is about this host's present state. Return: NULL; otherwise the reason for which it is refused. */
static const char *take_verdict(struct md_qualify *q, const char *text, size_t len)
{
	struct mv_qualified *verdict = calloc(1, sizeof(*verdict));
	const char *why = NULL;

	if (!verdict)
		return "no memory";
	if (mv_qualified_parse(text, len, verdict))
		why = "it said nothing that can be read";
	else if (strcmp(verdict->device, q->running->name) || !mv_qualified_same_key(&verdict->key, &q->running->key))
		why = "it was about another device, firmware, kernel or libmlx5";
	else if (mv_verdicts_store(q->dir_fd, verdict))
		why = "its verdict could not be written";
	free(verdict);
	return why;
}

/* Skips the line that learn_session() reads. */
static void skip_session(const char **text, size_t *len)
{
	const char *end = *len ? memchr(*text, '\n', *len) : NULL;

	if (!end || strncmp(*text, "session ", 8))
		return;
	*len -= (size_t)(end + 1 - *text);
	*text = end + 1;
}

static void run_done(struct md_qualify_run *run, const char *text, size_t len, int status)
{
	struct md_qualify *q = (struct md_qualify *)(void *)((char *)run - offsetof(struct md_qualify, run));
	const char *why;

	skip_session(&text, &len);
	if (run->ended) {
		ended(q, q->waits ? MD_QUALIFY_INTERRUPTED : MD_QUALIFY_CANNOT, "it took too long");
		return;
	}
	why = len ? take_verdict(q, text, len) : status == 127 ? "`meshverbs qualify` cannot be run" : "`meshverbs qualify` said nothing";
	ended(q, why ? MD_QUALIFY_CANNOT : MD_QUALIFY_DECIDED, why);
}

static int start_run(struct md_qualify *q, const char *device)
{
	const char *program = secure_getenv("MESHVERBS_TEST_QUALIFY");
	const char *argv[] = {SELF, "--qualify-helper", "run", program ? program : agent_of(q)->options->tool, device, NULL};
	int err = program ? -ENOENT : md_qualify_run_service(&q->run, SOCKET, device, MD_QUALIFY_LIMIT_NS);

	return err == -ENOENT || err == -ECONNREFUSED ? md_qualify_run_child(&q->run, argv, MD_QUALIFY_LIMIT_NS) : err;
}

static void begin_run(struct md_qualify *q, struct md_qualify_device *device)
{
	int err;

	md_log(MD_INFO, "%s: finds out whether it qualifies", device->name);
	q->running = device;
	q->n_runs++;
	err = start_run(q, device->name);
	if (err)
		ended(q, MD_QUALIFY_CANNOT, md_strerror(err));
}

/* Chooses the next device to qualify, and starts it. */
static void consider(struct md_qualify *q)
{
	const struct mv_config *config = &agent_of(q)->options->config;
	uint64_t now_ns = md_now();

	if (q->running)
		return; /* @waits keeps the reason of an interruption until the run has ended */
	q->waits = md_qualify_why_not(config);
	if (q->waits || config->qualify != MV_QUALIFY_AUTO)
		return;
	for (size_t i = 0; i < q->n; i++) {
		if (!md_qualify_is_due(&q->devices[i], now_ns) || !is_up(q, q->devices[i].name))
			continue;
		q->waits = why_wait(q);
		if (!q->waits)
			begin_run(q, &q->devices[i]);
		return;
	}
}

static void library_done(struct md_qualify_run *run, const char *text, size_t len, int status)
{
	struct md_qualify *q = (struct md_qualify *)(void *)((char *)run - offsetof(struct md_qualify, library));

	q->library_ns = md_now() + LIBRARY_NS;
	q->libmlx5[0] = '\0';
	if (!status && len && len <= sizeof(q->libmlx5) && text[len - 1] == '\n')
		snprintf(q->libmlx5, sizeof(q->libmlx5), "%.*s", (int)(len - 1), text);
	give_look(q);
}

static void find_library(struct md_qualify *q)
{
	static const char *const argv[] = {SELF, "--qualify-helper", "library", NULL};

	q->library_time = q->look.cache_time;
	q->library_ns = md_now() + LIBRARY_NS;
	if (md_qualify_run_child(&q->library, argv, HELPER_NS))
		q->libmlx5[0] = '\0';
}

/* ---- time ------------------------------------------------------------------------------------ */

static bool library_is_old(const struct md_qualify *q)
{
	return md_now() >= q->library_ns || q->library_time.tv_sec != q->look.cache_time.tv_sec ||
	       q->library_time.tv_nsec != q->look.cache_time.tv_nsec;
}

/* The run names its session in its first line. Queue pairs of that session are its own, not those of a program. */
static void learn_session(struct md_qualify_run *run)
{
	char line[32];

	if (run->session || !run->len || strncmp(run->text, "session ", 8) || !memchr(run->text, '\n', run->len))
		return;
	snprintf(line, sizeof(line), "%.*s", (int)(run->len < sizeof(line) - 1 ? run->len : sizeof(line) - 1), run->text);
	run->session = (pid_t)strtol(line + 8, NULL, 10);
}

static void watch_run(struct md_qualify *q)
{
	learn_session(&q->run);
	if (!q->run.session)
		return;
	q->waits = who_uses_any(q);
	if (q->waits)
		md_qualify_run_end(&q->run);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *arg)
{
	struct md_qualify *q = arg;

	(void)usec;
	if (q->running && !q->run.ended)
		watch_run(q);
	if (!q->running && !md_qualify_runs(&q->library) && library_is_old(q))
		find_library(q);
	if (!q->running)
		give_look(q);
	sd_event_source_set_time_relative(source, (q->running ? USED_NS : LOOK_NS) / 1000);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

static int open_folder(struct md_qualify *q, const char *state_dir)
{
	char path[512], why[MV_VERDICTS_WHY] = "";
	int fd;

	if (!state_dir) {
		md_log(MD_WARNING, "no device qualifies: without --state-dir there are no verdicts");
		return -ENOENT;
	}
	snprintf(path, sizeof(path), "%s/" MV_VERDICTS_DIR, state_dir);
	fd = mv_verdicts_open(path, 1, why);
	if (fd < 0) {
		md_log(MD_WARNING, "no device qualifies: %s: %s", path, why);
		return fd;
	}
	q->dir_fd = fd;
	return 0;
}

void md_qualify_start(struct md_agent *agent)
{
	const struct mv_config *config = &agent->options->config;
	struct md_qualify *q = &agent->qualify;

	if (config->survive != MV_SURVIVE_AUTO || config->qualify == MV_QUALIFY_NEVER || open_folder(q, agent->options->state_dir))
		return;
	q->look.verdicts = calloc(MD_RAILS_MAX, sizeof(*q->look.verdicts));
	q->look.job = (struct md_job){.run = md_qualify_look_run, .done = look_done};
	q->look.sysfs = agent->options->sysfs;
	q->look.dir_fd = q->dir_fd;
	q->run.event = q->library.event = agent->event;
	q->run.done = run_done;
	q->library.done = library_done;
	if (!q->look.verdicts ||
	    sd_event_add_time_relative(agent->event, &q->timer, CLOCK_BOOTTIME, 0, MD_TIMER_US, on_timer, q) < 0) {
		md_log(MD_WARNING, "no device qualifies: no memory");
		return;
	}
	q->on = true;
}

void md_qualify_halt(struct md_agent *agent)
{
	struct md_qualify *q = &agent->qualify;

	q->timer = sd_event_source_disable_unref(q->timer);
	md_qualify_run_stop(&q->run);
	md_qualify_run_stop(&q->library);
}

void md_qualify_stop(struct md_agent *agent)
{
	struct md_qualify *q = &agent->qualify;

	free(q->look.verdicts);
	q->look.verdicts = NULL;
	if (q->dir_fd >= 0)
		close(q->dir_fd);
	q->dir_fd = -1;
}

uint32_t md_qualify_library(const struct md_qualify *q, const char *device)
{
	for (size_t i = 0; q->on && i < q->n; i++)
		if (!strcmp(q->devices[i].name, device) && q->devices[i].state == MD_QUALIFY_QUALIFIED)
			return mv_directory_library(q->devices[i].key.libmlx5);
	return 0;
}
