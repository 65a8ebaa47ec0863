/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_types.h"
#include "fd_all.h"

#define FILE_MAX_BYTES (64 * 1024)

static unsigned int report_file(struct mv_config *config, const char *file, mv_config_report report,
				void *arg, const char *text)
{
	config->doubtful = true;
	mv_config_may_name_key(config);
	if (report)
		report(arg, file, 0, text);
	return 1;
}

static unsigned int report_errno(struct mv_config *config, const char *file,
				 mv_config_report report, void *arg, int err)
{
	char text[160], reason[96];

	/* strerror() is not thread-safe; GNU strerror_r() may return a constant instead of @reason. */
	snprintf(text, sizeof(text), "cannot be read, defaults serve: %s",
		 strerror_r(err, reason, sizeof(reason)));
	return report_file(config, file, report, arg, text);
}

unsigned int mv_config_load(struct mv_config *config, const char *file, mv_config_report report,
			    void *arg)
{
	unsigned int n_reports;
	ssize_t len;
	char *buf;
	int fd;

	/* O_NONBLOCK: opening a FIFO must not hang the program. */
	do
		fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	while (fd < 0 && errno == EINTR);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0)
		return report_errno(config, file, report, arg, errno);

	buf = malloc(FILE_MAX_BYTES + 1);
	len = buf ? mv_read_regular(fd, buf, FILE_MAX_BYTES + 1) : -ENOMEM;
	close(fd);
	if (len == -EMEDIUMTYPE)
		n_reports = report_file(config, file, report, arg, "is not a regular file, defaults serve");
	else if (len < 0)
		n_reports = report_errno(config, file, report, arg, (int)-len);
	else if (len > FILE_MAX_BYTES)
		n_reports = report_file(config, file, report, arg,
					"is longer than 64 KiB, defaults serve: shorten it");
	else
		n_reports = mv_config_parse(config, file, buf, (size_t)len, report, arg);
	free(buf);
	return n_reports;
}
