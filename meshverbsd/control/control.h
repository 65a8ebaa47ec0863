/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_CONTROL_H
#define MD_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <systemd/sd-event.h>

#include <infiniband/verbs.h>

#include "async_job.h"
#include "bounds.h"
#include "peer.h"

/*
 * Control socket, CONTROL_DIR/control. A request is one line of JSON, {"get": NAME}. The answer is one JSON object
 * (OpenMetrics text for "openmetrics"); then the agent closes the connection. Every process of the host may ask. A
 * process sees its own QPs only; root and the agent's user see all, and only they may give orders: {"do": VERB, ...},
 * see enum md_verb. Containers do not have the socket. A process in a container that has it anyway does not count as
 * root, whatever its user (md_peer_is_admin()). One thread.
 */
struct md_controls;

struct md_control {
	LIST_ENTRY(md_control) list;
	struct md_controls *controls;
	int fd;
	struct md_peer peer;
	sd_event_source *source, *timer;
	size_t request_len, answer_len, answer_at;
	char *answer; /* NULL: the request is incomplete */
	char request[MD_REQUEST_MAX];
	/* File descriptors that came unasked, and the job that closes them, see struct md_clients_closing. */
	int strays[MD_STRAYS_MAX];
	size_t n_strays;
	bool refused;
	struct md_job leaving;
	LIST_ENTRY(md_control) of_leaving;
};

enum md_verb {
	MD_DRAIN, /* "drain", "device"; "force": also if that cuts a host off */
	MD_UNDRAIN, /* "undrain", "device" */
	MD_KEY_PIN, /* "key-pin", "host", "key": trust this key */
	MD_KEY_FORGET, /* "key-forget", "host" */
	MD_KEY_REVOKE, /* "key-revoke", "host"; "key": this one instead of the pinned key */
	MD_KEY_RESTORE, /* "key-restore", "host"; "key": needed if several keys of the host are revoked */
	MD_KEY_ROTATE, /* "key-rotate": a new key for this host */
};

/* An order. Only the lengths of its texts are checked; "": not given. */
struct md_order {
	enum md_verb verb;
	bool force;
	char device[IBV_SYSFS_NAME_MAX], host[64], key[64];
};

struct md_controls {
	sd_event *event;
	/*
	 * Makes an answer. @name: value of "get"; NULL: malformed request. Return: text for free(), its length in
	 * *@ret_len; NULL: no memory.
	 */
	char *(*answer)(void *arg, const char *name, const struct md_peer *peer, size_t *ret_len);
	/* Carries out an order if @peer may give it. Return: as answer(). NULL: no orders. */
	char *(*carry_out)(void *arg, const struct md_order *order, const struct md_peer *peer, size_t *ret_len);
	/* Can the answer be long? Long answers are rationed. NULL: none is long. */
	bool (*is_long)(const char *name);
	void *arg;
	struct md_jobs *closer, *strays_closer; /* threads for calls that may block, as in struct md_clients */
	LIST_HEAD(, md_control) leaving; /* connections that a closer closes; at most one for each account other than root */
	size_t n_refused; /* refused ones among @leaving */
	uint64_t n_refusals; /* refused since the start */
	uint64_t log_again_ns; /* the log does not name refused processes before this time */
	bool full; /* no connection is accepted, since MD_REFUSED_MAX wait to be closed */
	int listen_fd;
	sd_event_source *source;
	LIST_HEAD(, md_control) list;
	size_t n;
	size_t answers_bytes; /* unread answers, all connections together */
	uint64_t busy_until_ns; /* long answers for anybody but root and the agent's user have to wait until then */
};

/**
 * md_controls_start - start to accept connections
 * @controls: event, answer, arg and both closers are filled in
 * @listen_fd: owned by @controls from now on, also on failure
 *
 * Return: 0 or -errno.
 */
int md_controls_start(struct md_controls *controls, int listen_fd);

/** md_controls_stop - close all connections; before the closers are stopped. md_controls_fini() after the closers are stopped */
void md_controls_stop(struct md_controls *controls);
void md_controls_fini(struct md_controls *controls);

/**
 * md_control_object - a JSON object that a process has sent, as it may be shown
 *
 * Prints it anew, because json-c takes more than JSON, such as 'a' for a string. Control characters and invalid UTF-8 are
 * refused: json-c prints a control character as six, and the agent keeps hundreds of thousands of texts.
 *
 * Return: its text, not longer than @text, for free(); NULL: @text is not one JSON object without fractions, or no memory.
 */
char *md_control_object(const char *text, size_t len);

/** md_control_parse - the value of "get" in a request; @ret: @size bytes. Return: 0; -EBADMSG; -ENOMEM */
int md_control_parse(const char *line, size_t len, char *ret, size_t size);

/** md_control_parse_order - parse an order. Return: 0; -ENOENT: not an order; -EBADMSG: malformed order; -ENOMEM */
int md_control_parse_order(const char *line, size_t len, struct md_order *ret);

#endif
