/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syslog.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fnv.h"

/* A complete line; syslog daemons accept 1 KiB at least (RFC 3164 section 4.1). */
#define LINE_SIZE 1024
/* Allowance for other writers between the check of the file's size and the write. */
#define OTHERS_BYTES (64 * LINE_SIZE)

/* Marks a text that was cut. */
static const char cut_mark[] = " ...";

void mv_log_init(struct mv_log *log, const char *target, enum mv_log_level level)
{
	memset(log->target, 0, sizeof(log->target));
	snprintf(log->target, sizeof(log->target), "%s", target);
	log->level = level;
	for (size_t i = 0; i < MV_LOG_ONCE_SLOTS; i++)
		atomic_init(&log->once[i], 0);
	atomic_init(&log->once_full, false);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Texts contain names from outside (GIDs, devices, programs), so one message has to stay one line. */
static void replace_controls(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* Length of a text from vsnprintf() in @size bytes; marks a cut text. */
static size_t close_text(char *buf, size_t size, int printed)
{
	if (printed < 0)
		printed = 0;
	buf[printed < (int)size ? printed : (int)size - 1] = '\0';
	if ((size_t)printed < size)
		return (size_t)printed;
	memcpy(buf + size - sizeof(cut_mark), cut_mark, sizeof(cut_mark));
	return size - 1;
}

/*
 * UTC time in RFC 3339 form. gmtime_r() takes glibc's time zone lock and may read files, which is unsafe in a forked
 * child. The date is computed in 400-year eras that begin on 1 March, so that the leap day is the last day of its year.
 */
static void format_time(int64_t seconds, char buf[static 40])
{
	int64_t days = seconds / 86400, era, day, year_of_era, day_of_year, month;
	int64_t rest = seconds % 86400;

	days += 719468; /* days from 0000-03-01 to 1970-01-01 */
	era = days / 146097;
	day = days % 146097;
	year_of_era = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	month = (5 * day_of_year + 2) / 153;
	snprintf(buf, 40, "%04d-%02d-%02dT%02d:%02d:%02dZ",
		 (int)(year_of_era + era * 400 + (month >= 10)),
		 (int)(month < 10 ? month + 3 : month - 9),
		 (int)(day_of_year - (153 * month + 2) / 5 + 1), (int)(rest / 3600),
		 (int)(rest / 60 % 60), (int)(rest % 60));
}

/* ---- targets --------------------------------------------------------------------------------- */

static const int priorities[] = {
	[MV_LOG_ERR] = LOG_ERR,
	[MV_LOG_WARN] = LOG_WARNING,
	[MV_LOG_INFO] = LOG_INFO,
	[MV_LOG_DEBUG] = LOG_DEBUG,
};

/* Never blocks: if the socket is full, the line is lost. The daemon adds the time, as journald and rsyslog allow on the local socket. */
static void send_syslog(enum mv_log_level level, const char *program, const char *text)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
	char line[LINE_SIZE];
	size_t len;
	int fd;

	len = close_text(line, sizeof(line),
			 snprintf(line, sizeof(line), "<%d>meshverbs[%d]: %s: %s",
				  LOG_USER | priorities[level], (int)getpid(), program, text));
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	while (sendto(fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&addr,
		      sizeof(addr)) < 0 &&
	       errno == EINTR)
		;
	close(fd);
}

/*
 * The administrator names the path, but others may write to its directory, and the program may be root's. So refuse
 * symbolic links, files with further hard links, and FIFOs and devices, which could block.
 */
static int open_file(const char *path)
{
	struct stat st;
	int fd;

	do
		fd = open(path,
			  O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK |
				  O_CLOEXEC,
			  S_IRUSR | S_IWUSR);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_nlink != 1) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/*
 * Beyond the program's RLIMIT_FSIZE, which is not meant for this file, the kernel would send SIGXFSZ, which kills the
 * program. Other processes may write to the file as well.
 */
static bool may_grow(int fd)
{
	struct rlimit limit;
	struct stat st;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return true;
	return !fstat(fd, &st) && (rlim_t)st.st_size + OTHERS_BYTES <= limit.rlim_cur;
}

static void append_file(const char *path, const char *program, const char *text)
{
	char line[LINE_SIZE], stamp[40];
	struct timespec now = {0};
	size_t len;
	int fd;

	fd = open_file(path);
	if (fd < 0)
		return;
	if (!may_grow(fd)) {
		close(fd);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	format_time(now.tv_sec, stamp);
	len = close_text(line, sizeof(line) - 1,
			 snprintf(line, sizeof(line) - 1, "%s meshverbs[%d]: %s: %s", stamp,
				  (int)getpid(), program, text));
	line[len++] = '\n';
	/* A single write() with O_APPEND: lines of several processes do not mix. */
	while (write(fd, line, len) < 0 && errno == EINTR)
		;
	close(fd);
}

/* @text: without control characters. May change errno. */
static void write_line(const struct mv_log *log, enum mv_log_level level, const char *text)
{
	char program[32];

	snprintf(program, sizeof(program), "%s", program_invocation_short_name);
	replace_controls(program);
	if (!strcmp(log->target, "syslog"))
		send_syslog(level, program, text);
	else if (log->target[0] == '/')
		append_file(log->target, program, text);
}

/* ---- entry points ---------------------------------------------------------------------------- */

static void format_text(char buf[static LINE_SIZE], const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));

static void format_text(char buf[static LINE_SIZE], const char *fmt, va_list args)
{
	close_text(buf, LINE_SIZE, vsnprintf(buf, LINE_SIZE, fmt, args));
	replace_controls(buf);
}

void mv_logv(struct mv_log *log, enum mv_log_level level, const char *fmt, va_list args)
{
	int saved_errno = errno;
	char text[LINE_SIZE];

	if (!mv_log_wants(log, level))
		return;
	format_text(text, fmt, args);
	write_line(log, level, text);
	errno = saved_errno;
}

void mv_log(struct mv_log *log, enum mv_log_level level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	mv_logv(log, level, fmt, args);
	va_end(args);
}

/* If two texts have equal hashes, the second one is lost; unlikely with 256 texts. */
static uint32_t hash_text(const char *text)
{
	uint32_t hash = mv_fnv32(MV_FNV32_START, text, strlen(text));

	return hash ? hash : 1; /* 0 marks a free slot */
}

enum once { ONCE_NEW, ONCE_KNOWN, ONCE_FULL };

/* Slots only change from 0 to a hash, so a search may stop at a free one. */
static enum once remember(struct mv_log *log, uint32_t hash)
{
	for (size_t i = 0; i < MV_LOG_ONCE_SLOTS; i++) {
		_Atomic uint32_t *slot = &log->once[(hash + i) % MV_LOG_ONCE_SLOTS];
		uint32_t held = atomic_load_explicit(slot, memory_order_relaxed);

		if (!held && atomic_compare_exchange_strong_explicit(
				     slot, &held, hash, memory_order_relaxed, memory_order_relaxed))
			return ONCE_NEW;
		if (held == hash)
			return ONCE_KNOWN;
	}
	return ONCE_FULL;
}

void mv_log_once(struct mv_log *log, enum mv_log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	char text[LINE_SIZE];
	va_list args;

	if (!mv_log_wants(log, level))
		return;
	va_start(args, fmt);
	format_text(text, fmt, args);
	va_end(args);

	switch (remember(log, hash_text(text))) {
	case ONCE_NEW:
		write_line(log, level, text);
		break;
	case ONCE_FULL:
		if (!atomic_exchange_explicit(&log->once_full, true, memory_order_relaxed))
			write_line(log, level,
				   "too many different messages in this process: further ones are "
				   "dropped");
		break;
	case ONCE_KNOWN:
		break;
	}
	errno = saved_errno;
}
