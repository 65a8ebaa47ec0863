/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "hostsfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fd_all.h"
#include "fields.h"

#define FILE_MAX_BYTES (1024 * 1024)
#define LINE_MAX_BYTES 4096

struct parser {
	struct md_targets *targets;
	struct md_pins *pins;
	md_hostsfile_report report;
	void *arg;
	unsigned int line, n_reports;
	size_t n_addrs;
};

static void complain(struct parser *parser, const char *text)
{
	parser->n_reports++;
	parser->report(parser->arg, parser->line, text);
}

static bool can_be_asked(const union ibv_gid *gid)
{
	static const uint8_t no_ipv4[16] = {[10] = 0xff, [11] = 0xff};
	enum mv_gid_family family = mv_gid_family(gid);

	return family == MV_FAMILY_IPV6 ||
	       (family == MV_FAMILY_IPV4 && memcmp(gid->raw, no_ipv4, sizeof(no_ipv4)));
}

static void parse_address(struct parser *parser, const char *name, const char *word)
{
	union ibv_gid gid;
	int err;

	if (mv_gid_parse(word, &gid)) {
		complain(parser, "write a name, then IP addresses or GIDs, with blanks between");
		return;
	}
	if (!can_be_asked(&gid)) {
		complain(parser, "only addresses that can be asked from afar: not zero, not "
				 "link-local, not multicast");
		return;
	}
	if (parser->n_addrs == MD_FILE_ADDRS_MAX) {
		complain(parser, "too many addresses: the limit is 4096");
		return;
	}
	err = md_targets_add(parser->targets, &gid, name);
	if (err)
		complain(parser, err == -EEXIST ? "this address stands in the file already"
						: strerror(-err));
	else
		parser->n_addrs++;
}

static void parse_key(struct parser *parser, const char *name, const char *text)
{
	struct md_public key;
	int err;

	if (md_public_parse(text, &key)) {
		complain(parser, "key= wants the public key of that host, 44 characters in base64");
		return;
	}
	err = md_pins_set_file(parser->pins, name, &key);
	if (err)
		complain(parser, err == -EEXIST ? "another key of this host stands in the file already" : strerror(-err));
}

static void parse_line(struct parser *parser, char *line)
{
	char *save, *name, *word;

	line[strcspn(line, "#")] = '\0';
	name = strtok_r(line, " \t\r", &save);
	if (!name)
		return;
	if (strlen(name) >= sizeof(((struct md_target *)0)->name) ||
	    !md_is_text(name, strlen(name))) {
		complain(parser, "the name has to be ASCII, without \" and \\, and at most 63 characters long");
		return;
	}
	word = strtok_r(NULL, " \t\r", &save);
	if (!word)
		complain(parser, "a name without an address: write NAME ADDRESS...");
	for (; word; word = strtok_r(NULL, " \t\r", &save)) {
		if (!strncmp(word, "key=", 4))
			parse_key(parser, name, word + 4);
		else
			parse_address(parser, name, word);
	}
}

unsigned int md_hostsfile_parse(struct md_targets *targets, struct md_pins *pins, const char *text, size_t len,
				md_hostsfile_report report, void *arg)
{
	struct parser parser = {.targets = targets, .pins = pins, .report = report, .arg = arg};
	char line[LINE_MAX_BYTES + 1];

	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;

		parser.line++;
		if (n > LINE_MAX_BYTES || memchr(text + at, '\0', n)) {
			complain(&parser, "a line has to be plain text of at most 4096 bytes");
		} else {
			memcpy(line, text + at, n);
			line[n] = '\0';
			parse_line(&parser, line);
		}
		at += n + 1;
	}
	return parser.n_reports;
}

static unsigned int replace(struct md_targets *targets, struct md_pins *pins, const char *text, size_t len,
			    md_hostsfile_report report, void *arg)
{
	md_targets_forget_file(targets);
	md_pins_forget_file(pins);
	return md_hostsfile_parse(targets, pins, text, len, report, arg);
}

unsigned int md_hostsfile_load(struct md_targets *targets, struct md_pins *pins, const char *path,
			       md_hostsfile_report report, void *arg)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	unsigned int n_reports = 1;
	ssize_t len;
	char *buf;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return replace(targets, pins, "", 0, report, arg);
	if (fd < 0) {
		report(arg, 0, strerror(errno));
		return 1;
	}
	buf = malloc(FILE_MAX_BYTES + 1);
	len = buf ? mv_read_regular(fd, buf, FILE_MAX_BYTES + 1) : -ENOMEM;
	close(fd);
	if (len < 0)
		report(arg, 0, strerror((int)-len));
	else if (len > FILE_MAX_BYTES)
		report(arg, 0, "is longer than 1 MiB");
	else
		n_reports = replace(targets, pins, buf, (size_t)len, report, arg);
	free(buf);
	return n_reports;
}
