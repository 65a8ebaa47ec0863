/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_QUALIFIED_H
#define MV_QUALIFIED_H

#include <stddef.h>
#include <stdint.h>

/*
 * Verdict of `meshverbs qualify` on a device, and its file.
 *
 * A verdict is valid for one combination (key) of card, firmware, kernel and provider library. Key and file name need
 * libc only (qualified.c, in the engine). Reading and writing need json-c (qualified_json.c, library mv_qualified:
 * agent and tool).
 */

#define MV_QUALIFIED_VERSION 1
#define MV_QUALIFIED_TRIALS  32
#define MV_QUALIFIED_FIGURES 24
#define MV_BUILD_ID_TEXT     65 /* 32 bytes in hex; linkers make 20 */

/* Four texts; none is empty in a file. */
struct mv_qualified_key {
	char board_id[64]; /* /sys/class/infiniband/DEVICE/board_id; "unknown": no such file */
	char firmware[64]; /* fw_ver of ibv_query_device(), or DEVICE/fw_ver; "unknown" */
	char kernel[65]; /* uname -r */
	char libmlx5[MV_BUILD_ID_TEXT]; /* build id of the provider's library, mv_build_id(); "unknown" */
};

enum mv_trial_verdict {
	MV_TRIAL_PASS,
	MV_TRIAL_FAIL,
	MV_TRIAL_UNSURE, /* disturbed, or unexpectedly could not be run */
	MV_TRIAL_SKIPPED, /* not meaningful on this host: @reason */
};

enum mv_verdict {
	MV_VERDICT_QUALIFIED,
	MV_VERDICT_FAILED,
	MV_VERDICT_UNSURE,
};

struct mv_qualified_figure {
	char name[40];
	double value;
};

struct mv_qualified_trial {
	char name[32];
	enum mv_trial_verdict verdict;
	char assumption[256]; /* one sentence */
	char source[160];
	char reason[400]; /* "": none */
	struct mv_qualified_figure figures[MV_QUALIFIED_FIGURES];
	size_t n_figures;
};

/* 60 kB: too large for the stack of a thread of somebody's process. */
struct mv_qualified {
	char device[64];
	struct mv_qualified_key key;
	enum mv_verdict verdict;
	uint64_t time_s; /* end of the run, seconds since 1970 */
	double seconds; /* duration */
	struct mv_qualified_trial trials[MV_QUALIFIED_TRIALS];
	size_t n_trials;
};

/* ---- qualified.c: libc only ---- */

/**
 * mv_build_id - build id of the loaded object that contains an address
 * @address: of a function of the provider, e.g. ops.poll_cq of a context of the lower provider
 * @ret: hex
 *
 * Return: 0; -ENOENT: no such object, or it has no build id.
 */
int mv_build_id(const void *address, char ret[MV_BUILD_ID_TEXT]);

/**
 * mv_qualified_file_name - file name for a key: BOARD_FIRMWARE_KERNEL_LIBRARY.json
 *
 * Characters outside [A-Za-z0-9.+-] become '_'. Two keys can have the same name, so a reader of the file compares the
 * key.
 *
 * Return: 0; -EINVAL: a part is empty; -ENAMETOOLONG.
 */
int mv_qualified_file_name(const struct mv_qualified_key *key, char *ret, size_t size);

/** mv_qualified_same_key - Return: nonzero: all four parts are equal */
int mv_qualified_same_key(const struct mv_qualified_key *a, const struct mv_qualified_key *b);

const char *mv_trial_verdict_text(enum mv_trial_verdict verdict);
const char *mv_verdict_text(enum mv_verdict verdict);

/**
 * mv_qualified_decide - verdict from the results of trials
 *
 * FAILED: a trial failed. Else UNSURE: a trial is unsure, or none passed. Else QUALIFIED.
 */
enum mv_verdict mv_qualified_decide(const struct mv_qualified_trial *trials, size_t n);

/** mv_qualified_figure - a figure of a trial by name; @otherwise: none */
double mv_qualified_figure(const struct mv_qualified_trial *trial, const char *name, double otherwise);

/** mv_qualified_trial - a trial by name, in @q; NULL: none */
const struct mv_qualified_trial *mv_qualified_trial(const struct mv_qualified *q, const char *name);

/* ---- qualified_json.c: json-c ---- */

/**
 * mv_qualified_parse - parse a verdict, one JSON object
 * @text: @size bytes; no NUL needed at the end
 * @ret: written on success only
 *
 * Unknown members are ignored.
 *
 * Return: 0; -EBADMSG: malformed, or the verdict does not agree with its trials; -EPROTONOSUPPORT: another version;
 * -ENOMEM.
 */
int mv_qualified_parse(const char *text, size_t size, struct mv_qualified *ret);

/** mv_qualified_read - read and parse a regular file. Return: as mv_qualified_parse(); -errno of opening and reading */
int mv_qualified_read(const char *path, struct mv_qualified *ret);

/** mv_qualified_text - the JSON object and a newline, for free(); NULL: no memory */
char *mv_qualified_text(const struct mv_qualified *q);

/**
 * mv_qualified_write - write a file, mode 0644, atomically: readers see the old or the new one
 *
 * Return: 0 or -errno.
 */
int mv_qualified_write(const char *path, const struct mv_qualified *q);

#endif
