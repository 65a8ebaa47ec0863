/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_QUALIFIED_H
#define MV_QUALIFIED_H

#include <stddef.h>
#include <stdint.h>

/*
 * What `meshverbs qualify` found out about a device, and the file that keeps it.
 *
 * A verdict holds for one combination of card, firmware, kernel and provider library. The key and the file's name need libc only
 * (qualified.c, in the engine). Reading and writing need json-c (qualified_json.c, library mv_qualified: agent and tool).
 */

#define MV_QUALIFIED_VERSION 1
#define MV_QUALIFIED_TRIALS  32
#define MV_QUALIFIED_FIGURES 24
#define MV_BUILD_ID_TEXT     65 /* 32 bytes in hex; linkers make 20 */

/* All four as text; none is empty in a file. */
struct mv_qualified_key {
	char board_id[64]; /* of /sys/class/infiniband/DEVICE/board_id; "unknown" where there is none */
	char firmware[64]; /* fw_ver of ibv_query_device(), or DEVICE/fw_ver; "unknown" */
	char kernel[65]; /* uname -r */
	char libmlx5[MV_BUILD_ID_TEXT]; /* build id of the provider's library, mv_build_id(); "unknown" */
};

enum mv_trial_verdict {
	MV_TRIAL_PASS,
	MV_TRIAL_FAIL,
	MV_TRIAL_UNSURE, /* disturbed, or could not be carried out though it should have been */
	MV_TRIAL_SKIPPED, /* says nothing on this host: @reason */
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
	char reason[400]; /* "": nothing to say */
	struct mv_qualified_figure figures[MV_QUALIFIED_FIGURES];
	size_t n_figures;
};

/* 60 kB: not for the stack of a thread of somebody's process. */
struct mv_qualified {
	char device[64];
	struct mv_qualified_key key;
	enum mv_verdict verdict;
	uint64_t time_s; /* since the epoch, when it ended */
	double seconds; /* that it took */
	struct mv_qualified_trial trials[MV_QUALIFIED_TRIALS];
	size_t n_trials;
};

/* ---- qualified.c: libc only ---- */

/**
 * mv_build_id - build id of the loaded object that has an address
 * @address: of a function of the provider, e.g. ops.poll_cq of a context of the base
 * @ret: hex
 *
 * Return: 0; -ENOENT: no object has it, or the object has no build id.
 */
int mv_build_id(const void *address, char ret[MV_BUILD_ID_TEXT]);

/**
 * mv_qualified_file_name - name of the file of a combination: BOARD_FIRMWARE_KERNEL_LIBRARY.json
 *
 * Characters outside [A-Za-z0-9.+-] become '_'. Two keys can have one name: whoever reads the file compares the key.
 *
 * Return: 0; -EINVAL: a part is empty; -ENAMETOOLONG.
 */
int mv_qualified_file_name(const struct mv_qualified_key *key, char *ret, size_t size);

/** mv_qualified_same_key - Return: nonzero if all four parts are the same */
int mv_qualified_same_key(const struct mv_qualified_key *a, const struct mv_qualified_key *b);

const char *mv_trial_verdict_text(enum mv_trial_verdict verdict);
const char *mv_verdict_text(enum mv_verdict verdict);

/**
 * mv_qualified_judge - the verdict that trials add up to
 *
 * FAILED if one failed; else UNSURE if one is unsure, or none passed; else QUALIFIED.
 */
enum mv_verdict mv_qualified_judge(const struct mv_qualified_trial *trials, size_t n);

/** mv_qualified_figure - a figure of a trial, or @otherwise */
double mv_qualified_figure(const struct mv_qualified_trial *trial, const char *name, double otherwise);

/** mv_qualified_trial - a trial by its name, or NULL */
const struct mv_qualified_trial *mv_qualified_trial(const struct mv_qualified *q, const char *name);

/* ---- qualified_json.c: json-c ---- */

/**
 * mv_qualified_parse - one JSON object
 * @text: @size bytes; no NUL needed behind it
 * @ret: written on success only
 *
 * Members that are not known here are left out of @ret.
 *
 * Return: 0; -EBADMSG: not such an object, or its verdict is not what its trials add up to; -EPROTONOSUPPORT: another version;
 * -ENOMEM.
 */
int mv_qualified_parse(const char *text, size_t size, struct mv_qualified *ret);

/** mv_qualified_read - a regular file with one; as mv_qualified_parse(), or -errno of opening and reading */
int mv_qualified_read(const char *path, struct mv_qualified *ret);

/** mv_qualified_text - the JSON object, a line feed behind it; to be freed; NULL: no memory */
char *mv_qualified_text(const struct mv_qualified *q);

/**
 * mv_qualified_write - to a file, mode 0644, in one step: whoever reads it sees the old one or the new one
 *
 * Return: 0 or -errno.
 */
int mv_qualified_write(const char *path, const struct mv_qualified *q);

#endif
