/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_CONTROL_H
#define MD_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <systemd/sd-event.h>

#include <infiniband/verbs.h>

#include "bounds.h"
#include "errands.h"
#include "peer.h"

/*
 * CONTROL_DIR/control: a request is one line of JSON, {"get": NAME}; the answer is one JSON object (OpenMetrics text for
 * "openmetrics"), after which the agent closes the connection. Every process of the host may ask; of QPs one sees one's own, root and
 * the agent's user see all. Only they may give orders: {"do": VERB, ...}, see enum md_verb. Containers do not have the socket; one that
 * does all the same is not root, whatever its user (md_peer_is_admin()).
 */
struct md_controls;

struct md_control {
	LIST_ENTRY(md_control) list;
	struct md_controls *controls;
	int fd;
	struct md_peer peer;
	sd_event_source *source, *timer;
	size_t request_len, answer_len, answer_at;
	char *answer; /* NULL: the request is not complete */
	char request[MD_REQUEST_MAX];
	/* Descriptors that nobody asked for; and what closes them, see md_clients.closer. */
	int strays[MD_STRAYS_MAX];
	size_t n_strays;
	bool refused;
	struct md_errand leaving;
	LIST_ENTRY(md_control) of_leaving;
};

enum md_verb {
	MD_DRAIN, /* "drain", "device"; "force": also where it would be refused to keep a host from being cut off */
	MD_UNDRAIN, /* "undrain", "device" */
	MD_KEY_PIN, /* "key-pin", "host", "key" */
	MD_KEY_FORGET, /* "key-forget", "host" */
	MD_KEY_REVOKE, /* "key-revoke", "host"; "key": not the known one */
	MD_KEY_RESTORE, /* "key-restore", "host"; "key": which one, if several keys of that host are revoked */
	MD_KEY_ROTATE, /* "key-rotate": this host's own */
};

/* What is to be done. Texts are as they were written: no more than their length is checked; "": not named. */
struct md_order {
	enum md_verb verb;
	bool force;
	char device[IBV_SYSFS_NAME_MAX], host[64], key[64];
};

struct md_controls {
	sd_event *event;
	/*
	 * Makes an answer. Return: a malloc()ed text with its length in *@ret_len; NULL without memory. @name: what
	 * stands behind "get", NULL for no well-formed request.
	 */
	char *(*answer)(void *arg, const char *name, const struct md_peer *peer, size_t *ret_len);
	/* Carries out an order, if @peer may give it. Return: as answer() */
	char *(*carry_out)(void *arg, const struct md_order *order, const struct md_peer *peer, size_t *ret_len);
	/* May the answer be long? Those are not to be had at any time. NULL: none is. */
	bool (*is_long)(const char *name);
	void *arg;
	struct md_errands *closer, *strays_closer; /* for what may wait: as in struct md_clients */
	LIST_HEAD(, md_control) leaving; /* are being closed there; of each account but root's, one */
	size_t n_refused; /* of them */
	uint64_t n_refusals; /* ever */
	uint64_t say_ns; /* nobody is named in the log as one that is refused before */
	bool full; /* nobody is accepted, for MD_REFUSED_MAX wait to be closed */
	int listen_fd;
	sd_event_source *source;
	LIST_HEAD(, md_control) list;
	size_t n;
	size_t answers_bytes; /* held for those that have not read them */
	uint64_t busy_until_ns; /* nothing is made for others than root and us before */
};

/** md_controls_start - event, answer, arg and both closers are filled; @listen_fd is taken over; 0 or -errno */
int md_controls_start(struct md_controls *controls, int listen_fd);

/** md_controls_stop - drop all; before the closer is stopped, and md_controls_fini() after that */
void md_controls_stop(struct md_controls *controls);
void md_controls_fini(struct md_controls *controls);

/** md_control_is_object - is a text of @len bytes one JSON object and nothing else? */
bool md_control_is_object(const char *text, size_t len);

/** md_control_parse - the name in a request; @ret: @size bytes; 0 or -EBADMSG */
int md_control_parse(const char *line, size_t len, char *ret, size_t size);

/** md_control_parse_order - the same for an order; 0; -ENOENT: it is none; -EBADMSG: it is one that cannot be read; -ENOMEM */
int md_control_parse_order(const char *line, size_t len, struct md_order *ret);

#endif
