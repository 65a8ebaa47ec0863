// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <json-c/json.h>

#include "agentask.h"

#define ANSWER_BYTES_MAX (64u << 20)
#define ANSWER_TIMEOUT_S 10

static int connect_control_in(const char *dir)
{
	const struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, rc;

	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", dir) >=
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

static int connect_control(const struct cli *cli)
{
	int fd = connect_control_in(cli->control_dir), old;

	if (fd != -ENOENT && fd != -ECONNREFUSED)
		return fd;
	/* Older agents listened in RUN_DIR. */
	old = connect_control_in(cli->run_dir);
	if (old < 0)
		return fd;
	close(old);
	return -EPROTONOSUPPORT;
}

static int send_line(int fd, const char *line)
{
	size_t at = 0, len = strlen(line);

	while (at < len) {
		ssize_t n = send(fd, line + at, len - at, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Reads to the end. Return: 0; -errno. *@ret_text: for free(). */
static int read_answer(int fd, char **ret_text, size_t *ret_len)
{
	size_t len = 0, size = 0;
	char *text = NULL, *grown;
	ssize_t n = 1;
	int rc = 0;

	while (!rc && n) {
		if (len + 1 >= size) { /* one byte for the NUL */
			size = size ? 2 * size : 65536;
			grown = size <= ANSWER_BYTES_MAX ? realloc(text, size) : NULL;
			rc = grown ? 0 : size <= ANSWER_BYTES_MAX ? -ENOMEM : -EFBIG;
			text = grown ? grown : text;
			continue;
		}
		n = recv(fd, text + len, size - len - 1, 0);
		if (n < 0 && errno != EINTR)
			rc = -errno;
		len += n > 0 ? (size_t)n : 0;
	}
	if (rc) {
		free(text);
		return rc;
	}
	text[len] = '\0';
	*ret_text = text;
	*ret_len = len;
	return 0;
}

static int talk(const struct cli *cli, const char *line, char **ret_text, size_t *ret_len)
{
	int fd = connect_control(cli), rc;

	if (fd < 0)
		return fd;
	rc = send_line(fd, line);
	if (!rc)
		rc = read_answer(fd, ret_text, ret_len);
	close(fd);
	return rc;
}

int agent_ask_text(const struct cli *cli, const char *what, char **ret_text, size_t *ret_len)
{
	char line[64];

	snprintf(line, sizeof(line), "{\"get\":\"%s\"}\n", what);
	return talk(cli, line, ret_text, ret_len);
}

static int parse_answer(const char *text, size_t len, const char *member, int type,
			struct json_object **ret)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *answer;

	if (!tokener)
		return -ENOMEM;
	answer = json_tokener_parse_ex(tokener, text, (int)len);
	json_tokener_free(tokener);
	if (!agent_member(answer, member, type)) {
		json_object_put(answer);
		return -EBADMSG;
	}
	*ret = answer;
	return 0;
}

int agent_ask(const struct cli *cli, const char *what, const char *member, int type,
	      struct json_object **ret)
{
	char *text = NULL;
	size_t len = 0;
	int rc = agent_ask_text(cli, what, &text, &len);

	if (!rc)
		rc = parse_answer(text, len, member, type, ret);
	free(text);
	return rc;
}

int agent_order(const struct cli *cli, struct json_object *order, const char *member, int type, struct json_object **ret)
{
	struct json_object *answer = NULL;
	char *line = NULL, *text = NULL;
	size_t len = 0;
	int rc = -ENOMEM;

	if (!order || asprintf(&line, "%s\n", json_object_to_json_string_ext(order, JSON_C_TO_STRING_PLAIN)) < 0)
		line = NULL;
	json_object_put(order);
	if (line)
		rc = talk(cli, line, &text, &len);
	if (!rc) {
		answer = json_tokener_parse(text);
		/* Either member shows that the agent understood the order. */
		rc = agent_member(answer, member, type) || agent_text(answer, "error") ? 0 : -EBADMSG;
	}
	free(line);
	free(text);
	if (rc)
		json_object_put(answer);
	else
		*ret = answer;
	return rc;
}

void agent_ask_error(const struct cli *cli, int err, const char *expected)
{
	const char *dir = cli->control_dir;

	switch (err) {
	case -EPROTONOSUPPORT:
		cli_error("the agent that runs is older than this command: it answers at %s/control and not at %s/control; "
			  "systemctl restart meshverbsd",
			  cli->run_dir, dir);
		break;
	case -ENOENT:
	case -ECONNREFUSED:
		cli_error("no agent answers at %s/control: start meshverbsd, or name its directory "
			  "with --run-dir or --control-dir",
			  dir);
		break;
	case -EAGAIN:
		cli_error("the agent at %s/control has not answered within %d s", dir,
			  ANSWER_TIMEOUT_S);
		break;
	case -EBADMSG:
		cli_error("the agent at %s/control gave an answer without %s: it is of "
			  "another version",
			  dir, expected);
		break;
	default:
		cli_error("cannot ask the agent at %s/control: %s", dir, strerror(-err));
	}
}

struct json_object *agent_member(struct json_object *object, const char *key, int type)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
	    !json_object_is_type(value, (enum json_type)type))
		return NULL;
	return value;
}

const char *agent_text(struct json_object *object, const char *key)
{
	struct json_object *value = agent_member(object, key, json_type_string);

	return value && json_object_get_string_len(value) ? json_object_get_string(value) : NULL;
}

bool agent_flag(struct json_object *object, const char *key)
{
	return json_object_get_boolean(agent_member(object, key, json_type_boolean));
}

long long agent_number(struct json_object *object, const char *key, long long otherwise)
{
	struct json_object *value = agent_member(object, key, json_type_int);

	return value ? json_object_get_int64(value) : otherwise;
}
