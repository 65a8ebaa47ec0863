// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "qualify_run.h"

#define LIMIT_MS   90000 /* all trials take 60 s at most */
#define OUTPUT_MAX (1u << 20)
#define ARGS_MAX   14

struct child {
	const struct qualify_order *order;
	pid_t pid;
	int fd; /* its output; -1: closed */
	char *buf;
	size_t len, at; /* @at: end of the lines that were handled */
	char peer[64], trial[64];
	size_t i, n;
	bool result; /* the rest is the JSON object */
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Runs in the child after fork(): async-signal-safe calls only. */
__attribute__((noreturn)) static void child_exec(int out, const char *program, char *const *argv, char **env)
{
	child_begin();
	dup2(out, STDOUT_FILENO);
	execve(program, argv, env);
	dprintf(STDOUT_FILENO, "error %s cannot be run: %s\n", program, strerror(errno));
	_exit(2);
}

static int start(const struct cli *cli, char *const *argv, struct child *child)
{
	char path[PATH_MAX];
	const char *program = cli_program("meshverbs-qualify", MESHVERBS_QUALIFY, path, sizeof(path));
	static char off[] = "MESHVERBS=off";
	char **env = child_env(cli->sysfs, off);
	int fds[2], err;

	if (!env)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC)) {
		err = -errno;
		free(env);
		return err;
	}
	child->pid = fork();
	err = child->pid < 0 ? -errno : 0;
	if (!child->pid)
		child_exec(fds[1], program, argv, env);
	close(fds[1]);
	free(env);
	if (err) {
		close(fds[0]);
		return err;
	}
	setpgid(child->pid, child->pid);
	child->fd = fds[0];
	return 0;
}

/* ---- its output ----------------------------------------------------------------------------- */

static void tell(struct child *child, const char *trial, const char *verdict)
{
	if (child->order && child->order->progress)
		child->order->progress(child->order, child->peer, child->i, child->n, trial, verdict);
}

static void line(struct child *child, const char *text)
{
	char verdict[16], trial[64];

	if (sscanf(text, "to %63s", child->peer) == 1)
		tell(child, NULL, NULL);
	else if (sscanf(text, "trial %zu %zu %63s", &child->i, &child->n, child->trial) == 3)
		tell(child, child->trial, NULL);
	else if (sscanf(text, "done %63s %15s", trial, verdict) == 2)
		tell(child, trial, verdict);
}

/* Handles whole lines, up to the result. */
static void lines(struct child *child)
{
	char *end;

	while (!child->result && (end = memchr(child->buf + child->at, '\n', child->len - child->at))) {
		*end = '\0';
		if (!strcmp(child->buf + child->at, "result"))
			child->result = true;
		else if (!strncmp(child->buf + child->at, "error ", 6))
			return; /* kept in the buffer */
		else
			line(child, child->buf + child->at);
		child->at = (size_t)(end - child->buf) + 1;
	}
}

static void read_some(struct child *child)
{
	ssize_t n;

	n = read(child->fd, child->buf + child->len, OUTPUT_MAX - child->len);
	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		close(child->fd);
		child->fd = -1;
		return;
	}
	child->len += (size_t)n;
	child->buf[child->len] = '\0';
	if (child->order)
		lines(child);
}

/* Return: wait status; -1: it had to be killed. */
static int see_through(struct child *child)
{
	uint64_t until_ms = now_ms() + LIMIT_MS;
	bool hung = false;
	int status = 0;

	while (child->fd >= 0 && !hung) {
		struct pollfd fd = {.fd = child->fd, .events = POLLIN};
		uint64_t ms = now_ms();

		if (ms >= until_ms || child->len == OUTPUT_MAX)
			hung = true;
		else if (poll(&fd, 1, (int)(until_ms - ms)) > 0)
			read_some(child);
	}
	if (hung)
		kill(-child->pid, SIGKILL);
	if (child->fd >= 0)
		close(child->fd);
	while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
		;
	return hung ? -1 : status;
}

static int run(const struct cli *cli, const struct qualify_order *order, char *const *argv, struct child *child, int *ret_status)
{
	int err;

	*child = (struct child){.order = order, .fd = -1};
	child->buf = malloc(OUTPUT_MAX + 1);
	if (!child->buf)
		return -ENOMEM;
	child->buf[0] = '\0';
	err = start(cli, argv, child);
	if (err)
		free(child->buf);
	else
		*ret_status = see_through(child);
	return err;
}

static int why_not(const struct child *child, int status, char *why, size_t why_size)
{
	const char *during = child->trial[0] ? " during trial " : "";

	if (child->len > child->at && !strncmp(child->buf + child->at, "error ", 6))
		snprintf(why, why_size, "%.*s", (int)strcspn(child->buf + child->at + 6, "\n"), child->buf + child->at + 6);
	else if (status == -1)
		snprintf(why, why_size, "meshverbs-qualify did not end within %d s and was killed%s%s", LIMIT_MS / 1000, during, child->trial);
	else if (WIFSIGNALED(status))
		snprintf(why, why_size, "meshverbs-qualify was killed by signal %d%s%s", WTERMSIG(status), during, child->trial);
	else
		snprintf(why, why_size, "meshverbs-qualify ended with status %d%s%s", WEXITSTATUS(status), during, child->trial);
	return -EIO;
}

int qualify_run(const struct cli *cli, const struct qualify_order *order, struct mv_qualified *ret, char *why, size_t why_size)
{
	char config[PATH_MAX], *argv[ARGS_MAX] = {(char *)"meshverbs-qualify", (char *)"--config", config};
	struct child child;
	int n = 3, status, err;

	cli_config_file(cli, config, sizeof(config));
	if (order->peer) {
		argv[n++] = (char *)"--peer";
		argv[n++] = (char *)order->peer;
	}
	if (order->only) {
		argv[n++] = (char *)"--only";
		argv[n++] = (char *)order->only;
	}
	if (order->avoid) {
		argv[n++] = (char *)"--avoid";
		argv[n++] = (char *)order->avoid;
	}
	if (order->gpu)
		argv[n++] = (char *)"--gpu";
	if (order->rests)
		argv[n++] = (char *)"--rest";
	argv[n++] = (char *)"--";
	argv[n] = (char *)order->device;
	err = run(cli, order, argv, &child, &status);
	if (err) {
		snprintf(why, why_size, "meshverbs-qualify cannot be run: %s", strerror(-err));
		return err;
	}
	if (status || !child.result)
		err = why_not(&child, status, why, why_size);
	else
		err = mv_qualified_parse(child.buf + child.at, child.len - child.at, ret);
	if (!status && child.result && err)
		snprintf(why, why_size, "what meshverbs-qualify said is not a verdict: %s", strerror(-err));
	free(child.buf);
	return err;
}

int qualify_list(const struct cli *cli, char **ret_text, char *why, size_t why_size)
{
	char *const argv[] = {(char *)"meshverbs-qualify", (char *)"--list", NULL};
	struct child child;
	int status, err = run(cli, NULL, argv, &child, &status);

	if (err) {
		snprintf(why, why_size, "meshverbs-qualify cannot be run: %s", strerror(-err));
		return err;
	}
	if (status) {
		err = why_not(&child, status, why, why_size);
		free(child.buf);
		return err;
	}
	*ret_text = child.buf;
	return 0;
}
