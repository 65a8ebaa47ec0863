/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_QUALIFY_H
#define MD_QUALIFY_H

#include <sys/types.h>
#include <time.h>

#include <systemd/sd-event.h>

#include "async_job.h"
#include "bounds.h"
#include "config.h"
#include "qualified.h"
#include "resqp.h"

#include <infiniband/verbs.h>

/*
 * Qualification of this host's devices (survive = auto): a device qualifies by a verdict in STATE_DIR/qualified that is
 * about the host's present firmware, kernel and libmlx5. With qualify = auto, `meshverbs qualify` runs once for each
 * combination, while no device is used.
 *
 * The run is a process of its own: started by systemd on request (meshverbs-qualify.socket), because the agent may not
 * open devices; or, without that unit, by the agent. The run is ended as soon as a program uses a device, and repeated
 * later.
 */

enum md_qualify_state {
	MD_QUALIFY_UNKNOWN, /* the combination cannot be determined: no libmlx5, or not an mlx5 device */
	MD_QUALIFY_NONE, /* no verdict */
	MD_QUALIFY_QUALIFIED,
	MD_QUALIFY_FAILED,
	MD_QUALIFY_UNSURE,
	MD_QUALIFY_REFUSED, /* the verdict's file is not accepted; reason in @why */
};

struct md_qualify_device {
	char name[IBV_SYSFS_NAME_MAX];
	struct mv_qualified_key key; /* with MD_QUALIFY_UNKNOWN: the known part */
	enum md_qualify_state state;
	uint64_t time_s; /* time of the verdict, seconds since 1970; 0: none */
	/* With MD_QUALIFY_FAILED and MD_QUALIFY_UNSURE: the first trial that did not pass. */
	char trial[32], assumption[256], reason[400];
	char why[200]; /* reason of MD_QUALIFY_REFUSED or MD_QUALIFY_UNKNOWN, or of the failure of the last run; else "" */

	unsigned int tries; /* runs without verdict, for the present combination */
	uint64_t again_ns; /* no run before this time; UINT64_MAX: none at all */
	uint64_t words; /* 1 + data that its ports had sent and received at the last look; 0: no look yet */
	bool still; /* and no data was sent or received between the last two looks */
};

enum md_qualify_end {
	MD_QUALIFY_DECIDED, /* there is a verdict, perhaps "unsure" */
	MD_QUALIFY_INTERRUPTED, /* a program began to use a device */
	MD_QUALIFY_CANNOT,
};

/* Runs without verdict are repeated at most so often, after 10 and 20 minutes. */
#define MD_QUALIFY_TRIES     3
#define MD_QUALIFY_AGAIN_NS  (600 * MD_S)
#define MD_QUALIFY_RETRY_NS  (60 * MD_S) /* after an interruption */
#define MD_QUALIFY_LIMIT_NS  (120 * MD_S) /* time limit of a run */
#define MD_QUALIFY_BYTES_MAX (1u << 20) /* of the verdict's text */
#define MD_QUALIFY_WORDS_MAX 2500 /* limit between two looks for an idle port, which still has management datagrams */

/* ---- qualify_plan.c: which device is next. Pure. ---- */

/** md_qualify_why_not - Return: the setting for which qualification is useless, because no program would use the result; NULL: none */
const char *md_qualify_why_not(const struct mv_config *config);

/** md_qualify_found - set the host's present combination; a change voids all former results */
void md_qualify_found(struct md_qualify_device *device, const struct mv_qualified_key *key);
/** md_qualify_counted - set the data counters of the device's ports */
void md_qualify_counted(struct md_qualify_device *device, uint64_t words);
/** md_qualify_decided - set the verdict. @err: from mv_verdicts_load(); unless 0, @q is not used */
void md_qualify_decided(struct md_qualify_device *device, int err, const struct mv_qualified *q, const char *why);
/** md_qualify_ended - a run has ended; @why: reason of MD_QUALIFY_CANNOT */
void md_qualify_ended(struct md_qualify_device *device, enum md_qualify_end end, const char *why, uint64_t now_ns);
/** md_qualify_is_due - is a run due for the device? */
bool md_qualify_is_due(const struct md_qualify_device *device, uint64_t now_ns);

const char *md_qualify_state_name(enum md_qualify_state state);

/* ---- qualify_run.c: runs a short process and reads its output ---- */

struct md_qualify_run {
	sd_event *event;
	/* Called once, unless stopped before. @text: the output, valid during the call. @status: exit status; -1: killed, or not known. */
	void (*done)(struct md_qualify_run *run, const char *text, size_t len, int status);
	pid_t session; /* session of the processes that use devices, from the output's first line; 0: not known yet */
	bool child; /* true: our child process, with @pid */
	pid_t pid;
	int fd; /* the output; -1: none */
	char *text;
	size_t len;
	int status;
	bool closed, exited, ended;
	sd_event_source *io, *exit, *limit;
};

/** md_qualify_run_child - start a program with its output on a pipe. Return: 0 or -errno */
int md_qualify_run_child(struct md_qualify_run *run, const char *const argv[], uint64_t limit_ns);
/** md_qualify_run_service - have systemd start the run. Return: 0; -ENOENT, -ECONNREFUSED: no such unit; another -errno */
int md_qualify_run_service(struct md_qualify_run *run, const char *socket, const char *device, uint64_t limit_ns);
/** md_qualify_run_end - kill the process; done() is called, perhaps before this returns */
void md_qualify_run_end(struct md_qualify_run *run);
/** md_qualify_run_stop - kill the process, if any; done() is not called */
void md_qualify_run_stop(struct md_qualify_run *run);
static inline bool md_qualify_runs(const struct md_qualify_run *run)
{
	return run->fd >= 0 || run->child;
}

/* ---- qualify_look.c: the host's present state ---- */

struct md_qualify_look {
	struct md_job job; /* with run = md_qualify_look_run() */
	/* The caller fills in: sysfs, dir_fd, libmlx5, and name and ports of n devices. */
	const char *sysfs;
	int dir_fd;
	char libmlx5[MV_BUILD_ID_TEXT];
	size_t n;
	struct md_qualify_look_device {
		char name[IBV_SYSFS_NAME_MAX];
		uint32_t ports; /* mask of ports that are up */
		struct mv_qualified_key key;
		uint64_t words;
		int err; /* from mv_verdicts_load() */
		char why[200];
	} devices[MD_RAILS_MAX];
	struct mv_qualified *verdicts; /* room for @n */
	struct timespec cache_time; /* mtime of the dynamic linker's cache: libmlx5 may have changed */
};

/** md_qualify_look_run - read combination, counters and verdict of each device. Runs in the jobs' thread */
void md_qualify_look_run(struct md_job *job);

/* ---- exchange/qualify.c ---- */

struct md_agent;

struct md_qualify {
	bool on; /* survive = auto, and qualify is not never */
	int dir_fd; /* STATE_DIR/qualified; -1: none */
	char libmlx5[MV_BUILD_ID_TEXT]; /* build id; "": not known */
	struct timespec library_time; /* @cache_time when the library was last looked for */
	uint64_t library_ns; /* next look for the library */
	struct md_qualify_look look;
	struct md_qualify_run library, run;
	struct md_qualify_device *running;
	size_t n;
	struct md_qualify_device devices[MD_RAILS_MAX];
	uint64_t n_runs, n_interrupted;
	const char *waits; /* why a device that is due is not tried now; NULL: nothing waits */
	sd_event_source *timer;
};

/** md_qualify_start - start as configured. Never fails: errors are logged, and no device qualifies then */
void md_qualify_start(struct md_agent *agent);
void md_qualify_halt(struct md_agent *agent); /* starts nothing any more, and waits for nothing */
void md_qualify_stop(struct md_agent *agent); /* after md_jobs_stop() */

/** md_qualify_library - mv_directory_library() of the libmlx5 with which the device has qualified; 0: not qualified */
uint32_t md_qualify_library(const struct md_qualify *q, const char *device);

/* ---- qualify_helper.c ---- */

/**
 * md_qualify_main - `meshverbsd --qualify-helper ...`: the short processes
 *
 * "library": prints the build id of libmlx5. "run" PROGRAM DEVICE: prints "session N" and the verdict of `PROGRAM
 * qualify DEVICE`. "serve" PROGRAM: reads DEVICE from standard input, then as "run"; ends when standard input is
 * closed.
 *
 * Return: exit status, that of PROGRAM; 127: PROGRAM could not be run.
 */
int md_qualify_main(int argc, char **argv);

#endif
