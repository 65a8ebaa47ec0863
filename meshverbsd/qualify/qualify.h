/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_QUALIFY_H
#define MD_QUALIFY_H

#include <sys/types.h>
#include <time.h>

#include <systemd/sd-event.h>

#include "bounds.h"
#include "config.h"
#include "errands.h"
#include "qualified.h"
#include "resqp.h"

#include <infiniband/verbs.h>

/*
 * Which devices of this host have qualified (survive = auto): by the verdicts in STATE_DIR/qualified on what the host has now, and,
 * with qualify = auto, by having `meshverbs qualify` find out about each combination once, while nobody uses any device.
 *
 * That runs in a process of its own: started by systemd on request (meshverbs-qualify.socket), for this one may not open devices; or
 * without that, by this one. It is ended as soon as a program uses a device, and tried again later.
 */

enum md_qualify_state {
	MD_QUALIFY_UNKNOWN, /* what the host has cannot be told: no libmlx5, or no mlx5 device */
	MD_QUALIFY_NONE, /* no verdict on it */
	MD_QUALIFY_QUALIFIED,
	MD_QUALIFY_FAILED,
	MD_QUALIFY_UNSURE,
	MD_QUALIFY_REFUSED, /* there is a file that is not believed: why */
};

struct md_qualify_device {
	char name[IBV_SYSFS_NAME_MAX];
	struct mv_qualified_key key; /* with MD_QUALIFY_UNKNOWN: what is known of it */
	enum md_qualify_state state;
	uint64_t time_s; /* of the verdict; 0: none */
	/* Of MD_QUALIFY_FAILED and MD_QUALIFY_UNSURE: the first trial that did not pass. */
	char trial[32], assumption[256], reason[400];
	char why[200]; /* MD_QUALIFY_REFUSED, MD_QUALIFY_UNKNOWN; or why the last run came to nothing; "" */

	unsigned int tries; /* runs that decided nothing, since what the host has is what it is */
	uint64_t again_ns; /* no run before; UINT64_MAX: none at all */
	uint64_t words; /* one more than its ports have sent and received, as of the last look; 0: there was none */
	bool still; /* and those were all for two looks */
};

enum md_qualify_end {
	MD_QUALIFY_DECIDED, /* there is a verdict; it may be "unsure" */
	MD_QUALIFY_INTERRUPTED, /* a program has come */
	MD_QUALIFY_CANNOT,
};

/* Nothing that decides nothing is done more often, nor sooner: 10 and 20 minutes. */
#define MD_QUALIFY_TRIES     3
#define MD_QUALIFY_AGAIN_NS  (600 * MD_S)
#define MD_QUALIFY_RETRY_NS  (60 * MD_S) /* after an interruption */
#define MD_QUALIFY_LIMIT_NS  (120 * MD_S) /* for one run */
#define MD_QUALIFY_BYTES_MAX (1u << 20) /* of its verdict */
#define MD_QUALIFY_WORDS_MAX 2500 /* between two looks, of a port that is still: management datagrams */

/* ---- qualify_plan.c: when a device's turn is. Pure. ---- */

/** md_qualify_why_not - nothing is tried out that no program would use. Return: what is configured so; NULL: nothing. */
const char *md_qualify_why_not(const struct mv_config *config);

/** md_qualify_found - that is what the host has now: after a change nothing counts that was before */
void md_qualify_found(struct md_qualify_device *device, const struct mv_qualified_key *key);
/** md_qualify_counted - what its ports have counted */
void md_qualify_counted(struct md_qualify_device *device, uint64_t words);
/** md_qualify_judged - the verdict on it; @err: of mv_verdicts_load(), @q is not looked at */
void md_qualify_judged(struct md_qualify_device *device, int err, const struct mv_qualified *q, const char *why);
/** md_qualify_ended - a run is over; @why: MD_QUALIFY_CANNOT */
void md_qualify_ended(struct md_qualify_device *device, enum md_qualify_end end, const char *why, uint64_t now_ns);
/** md_qualify_is_due - is it to be found out about? */
bool md_qualify_is_due(const struct md_qualify_device *device, uint64_t now_ns);

const char *md_qualify_state_name(enum md_qualify_state state);

/* ---- qualify_run.c: one run, or another short process ---- */

struct md_qualify_run {
	sd_event *event;
	/* Called once, unless it is stopped before: what it has written, and its exit status, -1: it was ended, or has none. */
	void (*done)(struct md_qualify_run *run, const char *text, size_t len, int status);
	pid_t session; /* of the processes that use devices, as the first line of the output says; 0: not known yet */
	bool child; /* ours: */
	pid_t pid;
	int fd; /* -1: there is none */
	char *text;
	size_t len;
	int status;
	bool closed, exited, ended;
	sd_event_source *io, *exit, *limit;
};

/** md_qualify_run_child - start a program with its output on a pipe; 0 or -errno */
int md_qualify_run_child(struct md_qualify_run *run, const char *const argv[], uint64_t limit_ns);
/** md_qualify_run_service - have systemd start it; 0; -ENOENT, -ECONNREFUSED: there is no such unit; -errno */
int md_qualify_run_service(struct md_qualify_run *run, const char *socket, const char *device, uint64_t limit_ns);
/** md_qualify_run_end - end it; done() is called, perhaps before this returns */
void md_qualify_run_end(struct md_qualify_run *run);
/** md_qualify_run_stop - end it, if there is one; done() is not called */
void md_qualify_run_stop(struct md_qualify_run *run);
static inline bool md_qualify_runs(const struct md_qualify_run *run)
{
	return run->fd >= 0 || run->child;
}

/* ---- qualify_look.c: what this host has now ---- */

struct md_qualify_look {
	struct md_errand errand; /* run: md_qualify_look_run() */
	/* Filled by the caller: sysfs, dir_fd, libmlx5, and name and ports of n devices. */
	const char *sysfs;
	int dir_fd;
	char libmlx5[MV_BUILD_ID_TEXT];
	size_t n;
	struct md_qualify_look_device {
		char name[IBV_SYSFS_NAME_MAX];
		uint32_t ports; /* mask */
		struct mv_qualified_key key;
		uint64_t words;
		int err; /* of mv_verdicts_load() */
		char why[200];
	} devices[MD_RAILS_MAX];
	struct mv_qualified *verdicts; /* n of them */
	struct timespec cache_time; /* of the linker's cache, where libmlx5 is found */
};

/** md_qualify_look_run - read key, counters and verdict of each device of a struct md_qualify_look; in the errands' thread */
void md_qualify_look_run(struct md_errand *errand);

/* ---- exchange/qualify.c ---- */

struct md_agent;

struct md_qualify {
	bool on; /* survive = auto, and not qualify = never */
	int dir_fd; /* -1: none */
	char libmlx5[MV_BUILD_ID_TEXT]; /* "": not known */
	struct timespec library_time; /* of that cache when the library was last looked for */
	uint64_t library_ns; /* look for it again */
	struct md_qualify_look look;
	struct md_qualify_run library, run;
	struct md_qualify_device *running;
	size_t n;
	struct md_qualify_device devices[MD_RAILS_MAX];
	uint64_t n_runs, n_interrupted;
	const char *waits; /* why nothing is begun, with something to do; NULL */
	sd_event_source *timer;
};

/** md_qualify_start - survive and qualify are as configured; never fails: what does not work is logged, and no device qualifies */
void md_qualify_start(struct md_agent *agent);
void md_qualify_halt(struct md_agent *agent); /* nothing more is begun or awaited */
void md_qualify_stop(struct md_agent *agent); /* after md_errands_stop() */

/** md_qualify_library - mv_directory_library() of what a device has qualified with; 0: it has not */
uint32_t md_qualify_library(const struct md_qualify *q, const char *device);

/* ---- qualify_helper.c ---- */

/**
 * md_qualify_main - `meshverbsd --qualify-helper ...`: the short processes
 *
 * "library": prints the build id of libmlx5. "run" PROGRAM DEVICE: prints "session N" and the verdict of `PROGRAM qualify DEVICE`. "serve" PROGRAM: the
 * same with a device that is read from standard input, and ended when that is closed.
 *
 * Return: exit status: that of the program, 127 where it could not be run.
 */
int md_qualify_main(int argc, char **argv);

#endif
