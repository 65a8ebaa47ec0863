/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>
#include <json-c/json_visit.h>

#include "agent_log.h"
#include "utf8.h"

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * MD_S + (uint64_t)now.tv_nsec;
}

static struct md_control *leaving_control(struct md_job *job)
{
	return md_job_of(job, struct md_control, leaving);
}

/* Runs in a closer's thread. */
static void close_all(struct md_job *job)
{
	struct md_control *control = leaving_control(job);

	for (size_t i = 0; i < control->n_strays; i++)
		close(control->strays[i]);
	close(control->fd);
}

static void forget(struct md_control *control)
{
	if (control->refused)
		control->controls->n_refused--;
	else
		control->controls->n--;
	free(control);
}

static void on_closed(struct md_job *job)
{
	struct md_control *control = leaving_control(job);
	struct md_controls *controls = control->controls;

	LIST_REMOVE(control, of_leaving);
	forget(control);
	if (!controls->full || controls->n_refused >= MD_REFUSED_MAX)
		return;
	controls->full = false;
	sd_event_source_set_enabled(controls->source, SD_EVENT_ON);
}

/* After SHUT_RD nothing can arrive, so the check is final. The peer can still read the answer. */
static bool is_empty(int fd)
{
	int n;

	return !shutdown(fd, SHUT_RD) && !ioctl(fd, FIONREAD, &n) && !n;
}

/* Unread data may contain file descriptors, and closing these may block. */
static void leave(struct md_control *control)
{
	struct md_controls *controls = control->controls;

	if (!control->n_strays && is_empty(control->fd)) {
		close(control->fd);
		forget(control);
		return;
	}
	shutdown(control->fd, SHUT_RDWR);
	control->leaving = (struct md_job){.run = close_all, .done = on_closed};
	LIST_INSERT_HEAD(&controls->leaving, control, of_leaving);
	md_jobs_give(control->n_strays ? controls->strays_closer : controls->closer, &control->leaving);
	if (controls->n_refused < MD_REFUSED_MAX)
		return;
	controls->full = true;
	sd_event_source_set_enabled(controls->source, SD_EVENT_OFF);
}

static void close_control(struct md_control *control)
{
	control->controls->answers_bytes -= control->answer_len;
	LIST_REMOVE(control, list);
	sd_event_source_disable_unref(control->source);
	sd_event_source_disable_unref(control->timer);
	free(control->answer);
	leave(control);
}

/* json-c takes numbers that JSON does not have (NaN, 1.), and prints them as they came. @arg: a bool, set where there is a fraction */
static int look_for_fraction(struct json_object *object, int flags, struct json_object *parent, const char *key, size_t *index, void *arg)
{
	(void)flags;
	(void)parent;
	(void)key;
	(void)index;
	if (!json_object_is_type(object, json_type_double))
		return JSON_C_VISIT_RETURN_CONTINUE;
	*(bool *)arg = true;
	return JSON_C_VISIT_RETURN_STOP;
}

/* json-c's own checks depend on its version: with JSON_TOKENER_STRICT, 0.18 refuses all that is not ASCII. */
static bool is_printable(const char *text, size_t len)
{
	const uint8_t *at = (const uint8_t *)text, *end = at + len;
	size_t n = 1;

	for (; at < end && n; at += n)
		n = mv_utf8_len(at, (size_t)(end - at));
	return n;
}

static char *print_object(struct json_object *object, size_t most)
{
	bool has_fraction = false;
	const char *text;

	json_c_visit(object, 0, look_for_fraction, &has_fraction);
	if (has_fraction)
		return NULL;
	text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	/* Escapes of text become characters: \u009b is one that a terminal obeys. */
	return text && strlen(text) <= most && is_printable(text, strlen(text)) ? strdup(text) : NULL;
}

char *md_control_object(const char *text, size_t len)
{
	struct json_tokener *tokener;
	struct json_object *object;
	char *ret = NULL;

	tokener = is_printable(text, len) ? json_tokener_new_ex(8) : NULL;
	if (!tokener)
		return NULL;
	object = json_tokener_parse_ex(tokener, text, (int)len);
	if (object && json_object_is_type(object, json_type_object) && json_tokener_get_parse_end(tokener) == len)
		ret = print_object(object, len);
	json_object_put(object);
	json_tokener_free(tokener);
	return ret;
}

int md_control_parse(const char *line, size_t len, char *ret, size_t size)
{
	struct json_tokener *tokener = json_tokener_new_ex(4);
	struct json_object *root, *get;
	int err = -EBADMSG;

	if (!tokener)
		return -ENOMEM;
	root = json_tokener_parse_ex(tokener, line, (int)len);
	if (root && json_object_object_get_ex(root, "get", &get) &&
	    json_object_is_type(get, json_type_string) &&
	    (size_t)json_object_get_string_len(get) < size) {
		snprintf(ret, size, "%s", json_object_get_string(get));
		err = 0;
	}
	json_object_put(root);
	json_tokener_free(tokener);
	return err;
}

static const struct {
	const char *name;
	bool device, host, key; /* needed members */
} verbs[] = {
	[MD_DRAIN] = {"drain", .device = true},	     [MD_UNDRAIN] = {"undrain", .device = true},
	[MD_KEY_PIN] = {"key-pin", .host = true, .key = true}, [MD_KEY_FORGET] = {"key-forget", .host = true},
	[MD_KEY_REVOKE] = {"key-revoke", .host = true}, [MD_KEY_RESTORE] = {"key-restore", .host = true},
	[MD_KEY_ROTATE] = {.name = "key-rotate"},
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* A member with a text. Return: 0; -EBADMSG: no text, empty, too long, or missing although @needed. */
static int read_text(struct json_object *root, const char *member, bool needed, char *ret, size_t size)
{
	struct json_object *value;
	const char *text;
	size_t len;

	if (!json_object_object_get_ex(root, member, &value))
		return needed ? -EBADMSG : 0;
	if (!json_object_is_type(value, json_type_string))
		return -EBADMSG;
	text = json_object_get_string(value);
	len = strlen(text);
	/* A NUL would cut the name. */
	if (!len || len >= size || len != (size_t)json_object_get_string_len(value))
		return -EBADMSG;
	memcpy(ret, text, len + 1);
	return 0;
}

static int read_order(struct json_object *root, struct json_object *verb, struct md_order *ret)
{
	struct md_order order = {0};
	struct json_object *force;
	size_t v = 0;

	if (!json_object_is_type(verb, json_type_string))
		return -EBADMSG;
	while (v < N_VERBS && strcmp(json_object_get_string(verb), verbs[v].name) != 0)
		v++;
	if (v == N_VERBS)
		return -EBADMSG;
	order.verb = (enum md_verb)v;
	if (json_object_object_get_ex(root, "force", &force)) {
		if (!json_object_is_type(force, json_type_boolean))
			return -EBADMSG;
		order.force = json_object_get_boolean(force);
	}
	if (read_text(root, "device", verbs[v].device, order.device, sizeof(order.device)) ||
	    read_text(root, "host", verbs[v].host, order.host, sizeof(order.host)) ||
	    read_text(root, "key", verbs[v].key, order.key, sizeof(order.key)))
		return -EBADMSG;
	*ret = order;
	return 0;
}

int md_control_parse_order(const char *line, size_t len, struct md_order *ret)
{
	struct json_object *root, *verb;
	struct json_tokener *tokener = json_tokener_new_ex(4);
	int err = -ENOENT;

	if (!tokener)
		return -ENOMEM;
	root = json_tokener_parse_ex(tokener, line, (int)len);
	if (root && json_object_object_get_ex(root, "do", &verb))
		err = read_order(root, verb, ret);
	json_object_put(root);
	json_tokener_free(tokener);
	return err;
}

/* Return: true: more is to be written. */
static bool write_some(struct md_control *control)
{
	while (control->answer_at < control->answer_len) {
		ssize_t n =
			send(control->fd, control->answer + control->answer_at,
			     control->answer_len - control->answer_at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		control->answer_at += (size_t)n;
	}
	return false;
}

/*
 * A long answer blocks the agent while it is made, and takes memory until it is read. The limits keep repeated requests
 * from using up either.
 */
static bool is_busy(const struct md_control *control, uint64_t now_ns)
{
	const struct md_controls *controls = control->controls;

	if (controls->answers_bytes > MD_ANSWERS_BYTES_MAX)
		return true;
	return !md_peer_is_admin(&control->peer) && now_ns < controls->busy_until_ns;
}

static char *make_answer(struct md_control *control, size_t line_len)
{
	struct md_controls *controls = control->controls;
	uint64_t begun_ns = monotonic_ns(), now_ns;
	struct md_order order;
	char name[32], *text;
	int err;

	if (controls->carry_out && !md_control_parse_order(control->request, line_len, &order)) {
		text = controls->carry_out(controls->arg, &order, &control->peer, &control->answer_len);
		if (!text)
			control->answer_len = 0;
		controls->answers_bytes += control->answer_len;
		return text;
	}
	err = md_control_parse(control->request, line_len, name, sizeof(name));
	if (!err && controls->is_long && controls->is_long(name) && is_busy(control, begun_ns)) {
		text = strdup("{\"error\":\"busy: ask again\"}\n");
		control->answer_len = text ? strlen(text) : 0;
	} else {
		text = controls->answer(controls->arg, err ? NULL : name, &control->peer, &control->answer_len);
		if (!text)
			control->answer_len = 0;
		now_ns = monotonic_ns();
		/* Answers that take at most 1 ms need no pause. */
		if (now_ns - begun_ns > MD_MS)
			controls->busy_until_ns = now_ns + MD_ANSWERS_SHARE * (now_ns - begun_ns);
	}
	controls->answers_bytes += control->answer_len;
	return text;
}

/* Return: true: the connection stays open. */
static bool answer(struct md_control *control, size_t line_len)
{
	control->answer = make_answer(control, line_len);
	if (!control->answer || !write_some(control))
		return false;
	return sd_event_source_set_io_events(control->source, EPOLLOUT) >= 0;
}

/*
 * The buffer has room for the largest number of file descriptors. Otherwise the kernel would close the rest in this
 * thread.
 */
static ssize_t receive(struct md_control *control)
{
	struct iovec data = {.iov_base = control->request + control->request_len,
			     .iov_len = sizeof(control->request) - control->request_len};
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(control->strays))];
	} room;
	struct msghdr msg = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = room.buf, .msg_controllen = sizeof(room.buf)};
	ssize_t n = recvmsg(control->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS) {
		control->n_strays = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(control->strays, CMSG_DATA(cmsg), control->n_strays * sizeof(int));
	}
	return n;
}

static bool read_some(struct md_control *control)
{
	ssize_t n = receive(control);
	const char *end;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (!n || control->n_strays)
		return false;
	control->request_len += (size_t)n;
	end = memchr(control->request, '\n', control->request_len);
	if (end)
		return answer(control, (size_t)(end - control->request));
	return control->request_len < sizeof(control->request);
}

static int on_ready(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct md_control *control = arg;

	(void)source;
	(void)fd;
	(void)revents;
	if (!(control->answer ? write_some(control) : read_some(control)))
		close_control(control);
	return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *arg)
{
	(void)source;
	(void)usec;
	close_control(arg);
	return 0;
}

/* Is a connection of that account still being closed? Never true for the host's root. */
static bool is_leaving(const struct md_controls *controls, const struct md_peer *peer)
{
	const struct md_control *control;

	LIST_FOREACH(control, &controls->leaving, of_leaving)
		if (!md_peer_unbounded(peer) && control->peer.account == peer->account)
			return true;
	return false;
}

/* Does that account have all its connections? Never true for the host's root. */
static bool has_all(struct md_controls *controls, const struct md_peer *peer)
{
	char text[MD_PEER_TEXT_SIZE];
	const struct md_control *control;
	uint64_t now_ns = monotonic_ns();
	size_t n = 0;

	LIST_FOREACH(control, &controls->list, list)
		n += control->peer.account == peer->account;
	if (md_peer_unbounded(peer) || n < MD_CONTROLS_PER_ACCOUNT)
		return false;
	if (now_ns >= controls->log_again_ns) {
		controls->log_again_ns = now_ns + MD_LOG_AGAIN_NS;
		md_log(MD_WARNING, "%s has %zu control connections and is refused a further one",
		       md_peer_text(peer, text, sizeof(text)), n);
	}
	return true;
}

static int add_control(struct md_controls *controls, struct md_control *control)
{
	int err;

	if (has_all(controls, &control->peer) || !md_has_room(controls->n, MD_CONTROLS_MAX, control->peer.account) ||
	    is_leaving(controls, &control->peer))
		return -EUSERS;
	err = sd_event_add_io(controls->event, &control->source, control->fd, EPOLLIN, on_ready, control);
	if (err >= 0)
		err = sd_event_add_time_relative(controls->event, &control->timer, CLOCK_MONOTONIC,
						 MD_CONTROL_NS / 1000, 100000, on_timeout, control);
	if (err < 0) {
		control->source = sd_event_source_disable_unref(control->source);
		return err;
	}
	LIST_INSERT_HEAD(&controls->list, control, list);
	controls->n++;
	return 0;
}

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct md_control *control = calloc(1, sizeof(*control));

	(void)source;
	(void)revents;
	fd = control ? accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
	if (fd < 0) {
		free(control);
		return 0;
	}
	control->controls = arg;
	control->fd = fd;
	control->refused = md_peer_of(fd, &control->peer) || add_control(arg, control);
	if (control->refused) {
		control->controls->n_refused++;
		control->controls->n_refusals++;
		leave(control);
	}
	return 0;
}

int md_controls_start(struct md_controls *controls, int listen_fd)
{
	int err;

	controls->listen_fd = listen_fd;
	LIST_INIT(&controls->list);
	LIST_INIT(&controls->leaving);
	err = sd_event_add_io(controls->event, &controls->source, listen_fd, EPOLLIN, on_connection,
			      controls);
	return err < 0 ? err : 0;
}

void md_controls_stop(struct md_controls *controls)
{
	struct md_control *control;

	while ((control = LIST_FIRST(&controls->list)))
		close_control(control);
	controls->source = sd_event_source_disable_unref(controls->source);
	if (controls->listen_fd >= 0)
		close(controls->listen_fd);
	controls->listen_fd = -1;
}

void md_controls_fini(struct md_controls *controls)
{
	struct md_control *control;

	while ((control = LIST_FIRST(&controls->leaving))) {
		LIST_REMOVE(control, of_leaving);
		free(control);
	}
}
