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
 * meshverbs doctor: a table of checks over data that is gathered once. A check changes nothing, and adds a finding for
 * each problem. A finding names the thing, the problem, why it matters, and the fix.
 */

struct json_object;
struct stat;
struct doctor;

enum doctor_level {
	DOCTOR_NOTE, /* good to know; may be intended */
	DOCTOR_ACTION, /* somebody has to act */
};

struct doctor_check {
	const char *name; /* in the JSON and in the man page */
	const char *about; /* what is checked, in a few words */
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
	bool have_status; /* the load paths were tried */
	struct host host;
	int host_error; /* 0: host.topo is filled in */
	char host_why[512];
	struct dirview view;
	int view_error; /* 0: view is open */
	/* the agent's answers to "status", "metrics", "keys", "qualified"; NULL: none */
	struct json_object *agent, *counters, *keys, *qualified;
	int agent_error; /* why @agent is NULL */
	bool container; /* this seems to be a container */

	/* The results. */
	const struct doctor_check *check; /* the running check */
	const char *skipped; /* why the check was skipped; NULL: it was not */
	struct doctor_finding *findings;
	size_t n_findings;
	bool out_of_memory;
};

/* Tables of the files doctor_*.c; each ends with a row without name. */
extern const struct doctor_check doctor_plugin_checks[], doctor_device_checks[],
	doctor_port_checks[], doctor_net_checks[], doctor_agent_checks[], doctor_key_checks[], doctor_peer_checks[],
	doctor_infiniband_checks[], doctor_limit_checks[], doctor_qualify_checks[];

/* ---- doctor_gather.c
 * ----------------------------------------------------------------------------------------- */

/**
 * doctor_gather - gather all data
 * @d: filled in; release with doctor_fini(). Data that cannot be had is left out
 */
void doctor_gather(const struct cli *cli, struct doctor *d);
void doctor_fini(struct doctor *d);

/**
 * doctor_find - add a finding of the running check
 * @thing, @what, @fix: from words(), taken over: the thing, the problem, and what to do
 */
void doctor_find(struct doctor *d, enum doctor_level level, char *thing, char *what, char *fix);

/** doctor_moves_at_work - can connections move while at work? By the settings, and by the agent's word that devices have qualified */
bool doctor_moves_at_work(const struct doctor *d);

/** doctor_skip - the running check cannot look, for that reason (a constant part of a sentence) */
void doctor_skip(struct doctor *d, const char *why);

/** doctor_serves - should meshverbs serve that RDMA device, as far as is known? */
bool doctor_serves(const struct doctor *d, const char *device);

/** words - printf() into new memory, for free(); NULL: no memory */
char *words(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Names of hosts in a finding, which lists the first few: an upgrade of a fleet concerns hundreds. */
struct names {
	char text[5 * 70];
	size_t len, n;
};

void names_add(struct names *names, const char *name);
char *names_words(const struct names *names);

/* ---- doctor_files.c: files of the host
 * --------------------------------------------------------------------- */

/* Paths are absolute. Paths below /sys/ are looked up in cli->sysfs, others below cli->root. */

/**
 * files_read - read a small file as text
 * @ret: for free(), NUL-terminated; at most 1 MiB is read
 *
 * Return: 0 or -errno.
 */
int files_read(const struct doctor *d, char **ret, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

/** files_exist - does the file or directory exist, as far as can be seen? */
bool files_exist(const struct doctor *d, const char *path, ...)
	__attribute__((format(printf, 2, 3)));

/** files_access - access(2). Return: 0 or -errno */
int files_access(const struct doctor *d, int mode, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

/** files_stat - stat(2). Return: 0 or -errno */
int files_stat(const struct doctor *d, struct stat *ret, const char *path, ...) __attribute__((format(printf, 3, 4)));

/** files_number - the decimal number at the beginning of a file; @otherwise: none */
long files_number(const struct doctor *d, long otherwise, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * files_link - target of a symbolic link
 * @ret: last component of the target
 *
 * Return: true: it is a link, and the name fits.
 */
bool files_link(const struct doctor *d, char *ret, size_t size, const char *path, ...)
	__attribute__((format(printf, 4, 5)));

/**
 * files_each - call @visit for each entry of a directory, sorted by name
 *
 * Entries that begin with a dot are left out. A missing directory is empty.
 */
void files_each(struct doctor *d, const char *path,
		void (*visit)(struct doctor *d, const char *name, void *arg), void *arg);

#endif
