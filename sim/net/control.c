// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server.h"
#include "control.h"
#include "fault_rule.h"
#include "firmware_rule.h"
#include "quirk_names.h"

struct reply {
	char *text;
	size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void say(struct reply *r, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(r->text + r->used, r->size - r->used, fmt, args);
	va_end(args);
	if (n > 0)
		r->used += (size_t)n < r->size - r->used ? (size_t)n : r->size - r->used - 1;
}

static void rules_changed(struct host *h)
{
	atomic_fetch_add_explicit(&h->state->faults_generation, 1, memory_order_release);
}

/* Copied with the action last: an HCA looks at a rule as soon as that is not 0. */
static void add_rule(struct host *h, uint32_t dev, char *text, struct reply *r)
{
	struct sim_fault rule;
	char why[128];

	if (fault_parse(&rule, text, why, sizeof(why))) {
		say(r, "error: %s", why);
		return;
	}
	rule.dev = (uint8_t)dev;
	for (int i = 0; i < SIM_MAX_FAULTS; i++) {
		struct sim_fault *f = &h->state->faults[i];
		uint32_t action = atomic_load_explicit(&rule.action, memory_order_relaxed);

		if (atomic_load_explicit(&f->action, memory_order_acquire))
			continue;
		f->dir = rule.dir;
		f->class_mask = rule.class_mask;
		f->dev = rule.dev;
		f->port = 0;
		f->qpn = rule.qpn;
		f->skip = rule.skip;
		f->every = rule.every;
		f->ppm = rule.ppm;
		f->limit = rule.limit;
		f->delay_us = rule.delay_us;
		atomic_store_explicit(&f->seen, 0, memory_order_relaxed);
		atomic_store_explicit(&f->hits, 0, memory_order_relaxed);
		atomic_store_explicit(&f->action, action, memory_order_release);
		rules_changed(h);
		say(r, "rule %d", i);
		return;
	}
	say(r, "error: all %d rules are taken; remove some with: sim fault PORT clear",
	    SIM_MAX_FAULTS);
}

static void clear_rules(struct host *h, uint32_t dev, const char *which, struct reply *r)
{
	int only = which ? atoi(which) : -1;

	if (which && (only < 0 || only >= SIM_MAX_FAULTS || h->state->faults[only].dev != dev)) {
		say(r, "error: no rule %s here; see: sim fault PORT list", which);
		return;
	}
	for (int i = 0; i < SIM_MAX_FAULTS; i++)
		if (h->state->faults[i].dev == dev && (only < 0 || only == i))
			atomic_store_explicit(&h->state->faults[i].action, SIM_FAULT_OFF,
					      memory_order_release);
	rules_changed(h);
	say(r, "ok");
}

static void list_rules(struct host *h, uint32_t dev, struct reply *r)
{
	char firmware[512];

	for (int i = 0; i < SIM_MAX_FAULTS; i++) {
		struct sim_fault *f = &h->state->faults[i];
		char line[256];

		if (f->dev != dev || !atomic_load_explicit(&f->action, memory_order_acquire))
			continue;
		fault_format(line, sizeof(line), f);
		say(r, "rule %d: %s\n", i, line);
	}
	if (firmware_format(&h->state->devs[dev], firmware, sizeof(firmware)))
		say(r, "firmware, us: %s\n", firmware);
	if (quirk_format(&h->state->devs[dev], firmware, sizeof(firmware)))
		say(r, "quirks: %s\n", firmware);
	if (!r->used)
		say(r, "ok");
}

static void set_quirks(struct host *h, uint32_t dev, char *text, struct reply *r)
{
	char why[512];

	if (quirk_set(&h->state->devs[dev], text, why, sizeof(why)))
		say(r, "error: %s", why);
	else
		say(r, "ok");
}

static void set_dead(struct host *h, uint32_t dev, bool dead, struct reply *r)
{
	atomic_store_explicit(&h->state->devs[dev].dead, dead, memory_order_release);
	if (dead)
		sim_event_push(h->state, SIM_EVENT_DEVICE_FATAL, dev, 1, 0);
	say(r, "ok");
}

/* Only LATE_MAX_US: a program that waits for that is to end some time. */
#define LATE_MAX_US 10000000ul

static void set_late(struct host *h, uint32_t dev, const char *text, struct reply *r)
{
	char *end = NULL;
	unsigned long us = text && !strncmp(text, "us=", 3) ? strtoul(text + 3, &end, 0) : 0;

	if (!end || end == text + 3 || *end || us > LATE_MAX_US) {
		say(r, "error: write: late us=N, at most %lu; 0: not late", LATE_MAX_US);
		return;
	}
	atomic_store_explicit(&h->state->devs[dev].late_us, (uint32_t)us, memory_order_relaxed);
	say(r, "ok");
}

static void reset(struct host *h, uint32_t dev, struct reply *r)
{
	sim_dev_reset(h->state, dev);
	say(r, "ok");
}

static void set_firmware(struct host *h, uint32_t dev, char *text, struct reply *r)
{
	char none[] = "", why[128];

	if (firmware_set(&h->state->devs[dev], text ? text : none, why, sizeof(why)))
		say(r, "error: %s", why);
	else
		say(r, "ok");
}

static void qp_fatal(struct host *h, uint32_t dev, const char *text, struct reply *r)
{
	unsigned long qpn = text && !strncmp(text, "qpn=", 4) ? strtoul(text + 4, NULL, 0) : 0;

	if (!qpn || qpn > 0xffffff) {
		say(r, "error: write: qp-fatal qpn=N");
		return;
	}
	sim_event_push(h->state, SIM_EVENT_QP_FATAL, dev, 1, (uint32_t)qpn);
	say(r, "ok");
}

static void push_event(struct host *h, uint32_t dev, const char *text, struct reply *r)
{
	static const struct {
		const char *name;
		uint32_t type;
	} events[] = {
		{"port-err", SIM_EVENT_PORT_ERR},
		{"port-active", SIM_EVENT_PORT_ACTIVE},
		{"gid-change", SIM_EVENT_GID_CHANGE},
		{"lid-change", SIM_EVENT_LID_CHANGE},
		{"pkey-change", SIM_EVENT_PKEY_CHANGE},
		{"sm-change", SIM_EVENT_SM_CHANGE},
		{"client-reregister", SIM_EVENT_CLIENT_REREGISTER},
		{"device-fatal", SIM_EVENT_DEVICE_FATAL},
	};

	for (size_t i = 0; text && i < sizeof(events) / sizeof(events[0]); i++) {
		if (strcmp(events[i].name, text))
			continue;
		sim_event_push(h->state, events[i].type, dev, 1, 0);
		say(r, "ok");
		return;
	}
	say(r, "error: unknown event '%s'; see: sim fault --help", text ? text : "");
}

static void set_seed(struct host *h, const char *text, struct reply *r)
{
	h->state->seed = strtoull(text, NULL, 0);
	rules_changed(h);
	say(r, "ok");
}

static void status(struct host *h, struct reply *r)
{
	host_reap(h);
	for (uint32_t dev = 0; dev < h->state->n_devs; dev++) {
		struct sim_dev *d = &h->state->devs[dev];
		struct sim_port *p = &d->ports[0];
		uint32_t gids = 0, rules = 0;

		for (uint32_t i = 0; i < p->n_gids; i++)
			gids += p->gids[i].type != SIM_GID_NONE;
		for (int i = 0; i < SIM_MAX_FAULTS; i++)
			rules += h->state->faults[i].dev == dev &&
				 atomic_load_explicit(&h->state->faults[i].action,
						      memory_order_relaxed);
		say(r, "%s %s %s %s gids=%" PRIu32 " rules=%" PRIu32 "%s%s\n", d->name, p->netdev,
		    p->link_layer == SIM_LINK_ETHERNET ? "ethernet" : "infiniband",
		    p->state == SIM_PORT_ACTIVE ? "active" : "down", gids, rules,
		    atomic_load_explicit(&d->late_us, memory_order_relaxed) ? " late" : "",
		    atomic_load_explicit(&d->dead, memory_order_relaxed) ? " dead" : "");
	}
	if (!r->used)
		say(r, "no devices\n");
}

static bool is(const char *word, size_t n, const char *name)
{
	return strlen(name) == n && !memcmp(word, name, n);
}

static void act(struct host *h, uint32_t dev, char *action, struct reply *r)
{
	char *rest = strchr(action, ' ');
	size_t n = rest ? (size_t)(rest++ - action) : strlen(action);

	if (!strncmp(action, "seed=", 5))
		set_seed(h, action + 5, r);
	else if (is(action, n, "clear"))
		clear_rules(h, dev, rest, r);
	else if (is(action, n, "list"))
		list_rules(h, dev, r);
	else if (is(action, n, "dead") || is(action, n, "alive"))
		set_dead(h, dev, action[0] == 'd', r);
	else if (is(action, n, "reset"))
		reset(h, dev, r);
	else if (is(action, n, "firmware"))
		set_firmware(h, dev, rest, r);
	else if (is(action, n, "late"))
		set_late(h, dev, rest, r);
	else if (is(action, n, "quirk"))
		set_quirks(h, dev, rest, r);
	else if (is(action, n, "qp-fatal"))
		qp_fatal(h, dev, rest, r);
	else if (is(action, n, "event"))
		push_event(h, dev, rest, r);
	else
		add_rule(h, dev, action, r);
}

void control_answer(struct host *h, char *request, char *answer, size_t size)
{
	struct reply r = {.text = answer, .size = size};
	char *action = strchr(request, ' ');

	answer[0] = '\0';
	if (!strcmp(request, "status")) {
		status(h, &r);
		return;
	}
	if (!strcmp(request, "cm")) {
		cm_server_show(h->cm, answer, size);
		return;
	}
	if (!action) {
		say(&r, "error: write: status, cm, or DEVICE ACTION");
		return;
	}
	*action++ = '\0';
	for (uint32_t dev = 0; dev < h->state->n_devs; dev++) {
		if (!strcmp(h->state->devs[dev].name, request)) {
			act(h, dev, action, &r);
			return;
		}
	}
	say(&r, "error: no device '%s' on this host", request);
}

int control_listen(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(addr.sun_path)) {
		close(fd);
		return -ENAMETOOLONG;
	}
	strcpy(addr.sun_path, path);
	unlink(path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 16)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

int control_accept(struct host *h, int fd)
{
	static char request[CONTROL_BYTES], answer[CONTROL_BYTES];
	struct timeval patience = {.tv_sec = 1};
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	ssize_t n;

	if (peer < 0)
		return -errno;
	/* A client that sends nothing must not hold up the netdevs for long. */
	setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	n = recv(peer, request, sizeof(request) - 1, 0);
	if (n > 0) {
		request[n] = '\0';
		control_answer(h, request, answer, sizeof(answer));
		if (send(peer, answer, strlen(answer), MSG_NOSIGNAL) < 0)
			fprintf(stderr, "simhostd: answer: %s\n", strerror(errno));
	}
	close(peer);
	return 0;
}
