// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs qps: the connections whose path the agent has something to do with, as it tells them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <json-c/json.h>

#include "cli.h"

#define ANSWER_BYTES_MAX (64u << 20)
#define ANSWER_TIMEOUT_S 10
#define REQUEST          "{\"get\":\"qps\"}\n"

/* ---- the agent's control socket ----------------------------------------------------------------
 */

static int connect_control(const char *run_dir)
{
	const struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, rc;

	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", run_dir) >=
	    sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) ||
	    connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

static int send_request(int fd)
{
	size_t at = 0, len = strlen(REQUEST);

	while (at < len) {
		ssize_t n = send(fd, REQUEST + at, len - at, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Reads up to the end. Return: 0 with a malloc()ed buffer. */
static int read_answer(int fd, char **ret_text, size_t *ret_len)
{
	size_t len = 0, size = 0;
	char *text = NULL, *grown;
	ssize_t n = 1;
	int rc = 0;

	while (!rc && n) {
		if (len == size) {
			size = size ? 2 * size : 65536;
			grown = size <= ANSWER_BYTES_MAX ? realloc(text, size) : NULL;
			rc = grown ? 0 : size <= ANSWER_BYTES_MAX ? -ENOMEM : -EFBIG;
			text = grown ? grown : text;
			continue;
		}
		n = recv(fd, text + len, size - len, 0);
		if (n < 0 && errno != EINTR)
			rc = -errno;
		len += n > 0 ? (size_t)n : 0;
	}
	if (rc) {
		free(text);
		return rc;
	}
	*ret_text = text;
	*ret_len = len;
	return 0;
}

static int parse_answer(const char *text, size_t len, struct json_object **ret)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *answer, *qps;

	if (!tokener)
		return -ENOMEM;
	answer = json_tokener_parse_ex(tokener, text, (int)len);
	json_tokener_free(tokener);
	if (!json_object_object_get_ex(answer, "qps", &qps) ||
	    !json_object_is_type(qps, json_type_array)) {
		json_object_put(answer);
		return -EBADMSG;
	}
	*ret = answer;
	return 0;
}

static int ask(const char *run_dir, struct json_object **ret)
{
	int fd = connect_control(run_dir), rc;
	char *text = NULL;
	size_t len = 0;

	if (fd < 0)
		return fd;
	rc = send_request(fd);
	if (!rc)
		rc = read_answer(fd, &text, &len);
	close(fd);
	if (!rc)
		rc = parse_answer(text, len, ret);
	free(text);
	return rc;
}

static void say_error(const char *run_dir, int err)
{
	switch (err) {
	case -ENOENT:
	case -ECONNREFUSED:
		cli_error("no agent answers at %s/control: start meshverbsd, or name its directory "
			  "with --run-dir",
			  run_dir);
		break;
	case -EAGAIN:
		cli_error("the agent at %s/control has not answered within %d s", run_dir,
			  ANSWER_TIMEOUT_S);
		break;
	case -EBADMSG:
		cli_error("the agent at %s/control gave an answer without queue pairs: it is of "
			  "another version",
			  run_dir);
		break;
	default:
		cli_error("cannot ask the agent at %s/control: %s", run_dir, strerror(-err));
	}
}

/* ---- what it says ------------------------------------------------------------------------------
 */

/* NULL when it is not there, or is not what it should be. */
static const char *text_of(struct json_object *object, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, json_type_string) || !json_object_get_string_len(value))
		return NULL;
	return json_object_get_string(value);
}

static void show_text(struct out *out, const char *key, const char *label,
		      struct json_object *object)
{
	out_text(out, key, label, OUT_PLAIN, text_of(object, key));
}

static void show_number(struct out *out, const char *key, const char *label,
			struct json_object *object)
{
	struct json_object *value;

	if (json_object_object_get_ex(object, key, &value) &&
	    json_object_is_type(value, json_type_int) && json_object_get_int64(value) >= 0)
		out_uint(out, key, label, (uint64_t)json_object_get_int64(value));
	else
		out_text(out, key, label, OUT_PLAIN, NULL);
}

static enum out_tone state_tone(const char *state)
{
	return state && !strcmp(state, "moved") ? OUT_GOOD : OUT_PLAIN;
}

static void show_qp(struct out *out, struct json_object *qp)
{
	struct json_object *status = NULL;
	const char *state;

	json_object_object_get_ex(qp, "status", &status);
	if (!json_object_is_type(status, json_type_object))
		status = NULL;
	state = text_of(status, "state");
	out_row(out);
	show_number(out, "pid", "PID", qp);
	show_text(out, "comm", "PROGRAM", qp);
	show_number(out, "uid", NULL, qp);
	show_text(out, "device", "DEV", qp);
	show_number(out, "qpn", "QPN", qp);
	show_text(out, "gid", "GID", status);
	show_text(out, "peer_host", "PEER", status);
	show_text(out, "peer_gid", "PEER GID", status);
	show_number(out, "peer_qpn", "PEER QPN", status);
	out_text(out, "state", "STATE", state_tone(state), state);
	show_text(out, "negotiation", NULL, status);
	show_text(out, "rail", "USES", status);
	show_text(out, "rail_gid", "FROM", status);
	show_text(out, "rail_peer_gid", "TO", status);
	show_text(out, "reason", "BECAUSE", status);
}

static int show(struct out *out, struct json_object *answer)
{
	struct json_object *qps;
	size_t i;

	json_object_object_get_ex(answer, "qps", &qps);
	out_list(out, "qps", NULL);
	for (i = 0; i < json_object_array_length(qps); i++)
		show_qp(out, json_object_array_get_idx(qps, i));
	out_list_end(out);
	return cli_finish(out, CLI_OK);
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct json_object *answer = NULL;
	struct out *out;
	int rc;

	if (cli_option(cli, &cmd_qps, argc, argv, "+:jh", options, &rc) == -2)
		return rc;
	if (optind < argc)
		return cli_usage(&cmd_qps, "'%s' is not expected", argv[optind]);
	rc = ask(cli->run_dir, &answer);
	if (rc) {
		say_error(cli->run_dir, rc);
		return CLI_ERROR;
	}
	out = cli_out(cli);
	rc = out ? show(out, answer) : CLI_ERROR;
	json_object_put(answer);
	return rc;
}

const struct cli_command cmd_qps = {
	.name = "qps",
	.args = "[-j]",
	.summary = "connections that ask for another path or use one, and why",
	.help = "Asks the agent for the queue pairs that programs have told it about: those whose "
		"own path the\n"
		"directory calls in question, and those that use another one, with the way they "
		"go. One sees one's\n"
		"own; root and the agent's user see all.\n\n"
		"  -j, --json   print JSON\n\n"
		"Exit status: 0; 2 wrong usage, or no agent.",
	.run = run,
};
