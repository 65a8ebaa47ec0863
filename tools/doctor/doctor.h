/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_DOCTOR_H
#define TOOL_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "dirview.h"
#include "host.h"
#include "status.h"

/*
 * meshverbs doctor: a table of checks over what was gathered once. A check looks, changes nothing,
 * and adds a finding for each thing that is wrong; each finding names the thing, what is wrong with
 * it, why that matters and the fix.
 */

struct json_object;
struct stat;
struct doctor;

enum doctor_level {
	DOCTOR_NOTE, /* good to know; may be as it is meant to be */
	DOCTOR_ACTION, /* somebody has to do something */
};

struct doctor_check {
	const char *name; /* of the JSON, and of the man page */
	const char *about; /* what is looked at, in a few words */
	const char *why; /* why a finding matters: a sentence */
	void (*run)(struct doctor *d);
};

struct doctor_finding {
	const struct doctor_check *check;
	enum doctor_level level;
	char *thing, *what, *fix;
};

struct doctor {
	const struct cli *cli;
	struct status status;
	bool have_status; /* the load path was tried */
	struct host host;
	int host_error; /* 0: host.topo is filled */
	char host_why[512];
	struct dirview view;
	int view_error; /* 0: view is open */
	struct json_object *agent, *counters, *keys, *qualified; /* answers "status", "metrics", "keys", "qualified"; NULL: none */
	int agent_error; /* why there is no @agent */
	bool container; /* so it seems */

	/* The result. */
	const struct doctor_check *check; /* running now */
	const char *skipped; /* why it could not look; NULL: it did */
	struct doctor_finding *findings;
	size_t n_findings;
	bool out_of_memory;
};

/* The tables of the doctor_*.c files; each ends with a row without name. */
extern const struct doctor_check doctor_plugin_checks[], doctor_device_checks[],
	doctor_port_checks[], doctor_net_checks[], doctor_agent_checks[], doctor_key_checks[], doctor_peer_checks[],
	doctor_infiniband_checks[], doctor_limit_checks[], doctor_qualify_checks[];

/* ---- doctor_gather.c
 * ----------------------------------------------------------------------------------------- */

/**
 * doctor_gather - look at everything once
 * @d: filled in; release it with doctor_fini(). What cannot be had is left out.
 */
void doctor_gather(const struct cli *cli, struct doctor *d);
void doctor_fini(struct doctor *d);

/**
 * doctor_find - add a finding of the running check
 * @thing, @what, @fix: from words(), taken over: what it is about, what is wrong with it, and what
 * to do
 */
void doctor_find(struct doctor *d, enum doctor_level level, char *thing, char *what, char *fix);

/** doctor_moves_at_work - can connections leave a port while they are at work? So it is configured, and the agent says which devices have qualified. */
bool doctor_moves_at_work(const struct doctor *d);

/** doctor_skip - the running check cannot look, for that reason (a constant sentence part) */
void doctor_skip(struct doctor *d, const char *why);

/** doctor_serves - is that RDMA device one that meshverbs is to serve, or may be? */
bool doctor_serves(const struct doctor *d, const char *device);

/** words - printf into memory of its own; NULL without */
char *words(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Names of hosts that a finding is about, of which it tells the first few: a fleet that is upgraded has hundreds. */
struct names {
	char text[5 * 70];
	size_t len, n;
};

void names_add(struct names *names, const char *name);
char *names_words(const struct names *names);

/* ---- doctor_files.c: files of the host
 * --------------------------------------------------------------------- */

/* Paths are absolute; what begins with /sys/ lies in cli->sysfs, everything else below cli->root.
 */

/**
 * files_read - a small file as text
 * @ret: malloc()ed, NUL-terminated; at most 1 MiB is read
 *
 * Return: 0 or -errno.
 */
int files_read(const struct doctor *d, char **ret, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

/** files_exist - is there such a file or directory, as far as can be seen? */
bool files_exist(const struct doctor *d, const char *path, ...)
	__attribute__((format(printf, 2, 3)));

/** files_access - access(2) on it; 0 or -errno */
int files_access(const struct doctor *d, int mode, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

/** files_stat - stat(2) of it; 0 or -errno */
int files_stat(const struct doctor *d, struct stat *ret, const char *path, ...) __attribute__((format(printf, 3, 4)));

/** files_number - the decimal number that a file begins with; @otherwise when there is none */
long files_number(const struct doctor *d, long otherwise, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * files_link - where a symbolic link points to
 * @ret: the last component of its target
 *
 * Return: is it a link, and did the name fit?
 */
bool files_link(const struct doctor *d, char *ret, size_t size, const char *path, ...)
	__attribute__((format(printf, 4, 5)));

/**
 * files_each - call @visit with the name of each entry of a directory, in alphabetical order
 *
 * Entries that begin with a dot are left out; a directory that is not there has none.
 */
void files_each(struct doctor *d, const char *path,
		void (*visit)(struct doctor *d, const char *name, void *arg), void *arg);

#endif
