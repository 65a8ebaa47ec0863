/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A process of the plugin's kind, by hand: connects to RUN_DIR/agent and does what standard input
 * says, one line each: register DEVICE QPN unregister DEVICE QPN status DEVICE QPN TEXT send FROM_GID
 * FROM_QPN TO_GID TO_QPN N     (a HELLO with attempt N) watch FROM_GID TO_GID MASK look GID
 * What comes is written to standard output:
 *   welcome VERSION
 *   deliver DEVICE QPN FROM_GID FROM_QPN N
 *   unreachable GID QPN N
 *   probes
 *   looked GID
 *   path FROM_GID TO_GID STATE
 *   closed
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl.h"

static void die(const char *what)
{
	fprintf(stderr, "talk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(int fd, const struct mv_frame *frame)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);

	if (!len) {
		errno = EINVAL;
		die("frame");
	}
	if (send(fd, buf, len, MSG_NOSIGNAL) < 0)
		die("send");
}

static int join(const char *run_dir, const char *name)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/agent", run_dir);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die(addr.sun_path);
	frame.len = (uint16_t)strlen(name);
	memcpy(frame.payload, name, frame.len);
	put(fd, &frame);
	return fd;
}

static void do_send(int fd, char *const *words)
{
	struct mv_ctl_msg msg = {.type = MV_CTL_HELLO,
				 .gid_type = MV_GID_TYPE_ROCE_V2,
				 .attempt = (uint32_t)atoi(words[5]),
				 .from_psn = MV_CTL_PSN_NONE,
				 .to_psn = MV_CTL_PSN_NONE};
	struct mv_frame frame = {.type = MV_FRAME_SEND};

	if (mv_gid_parse(words[1], &msg.from.gid) || mv_gid_parse(words[3], &msg.to.gid)) {
		errno = EINVAL;
		die("GID");
	}
	msg.from.qpn = (uint32_t)atoi(words[2]);
	msg.to.qpn = (uint32_t)atoi(words[4]);
	frame.dgid = msg.to.gid;
	frame.len = (uint16_t)mv_ctl_encode(&msg, frame.payload);
	put(fd, &frame);
}

static void do_watch(int fd, char *const *words)
{
	struct mv_frame frame = {.type = MV_FRAME_WATCH, .watch = (uint8_t)atoi(words[3])};

	if (mv_gid_parse(words[1], &frame.sgid) || mv_gid_parse(words[2], &frame.dgid)) {
		errno = EINVAL;
		die("GID");
	}
	put(fd, &frame);
}

static void do_look(int fd, char *const *words)
{
	struct mv_frame frame = {.type = MV_FRAME_LOOK};

	if (mv_gid_parse(words[1], &frame.dgid)) {
		errno = EINVAL;
		die("GID");
	}
	put(fd, &frame);
}

static void do_line(int fd, char *line)
{
	struct mv_frame frame = {.qp_type = IBV_QPT_RC};
	char *words[6] = {0}, *save;
	int n = 0;

	for (char *w = strtok_r(line, " \n", &save); w && n < 6; w = strtok_r(NULL, " \n", &save))
		words[n++] = w;
	if (n == 6 && !strcmp(words[0], "send")) {
		do_send(fd, words);
		return;
	}
	if (n == 4 && !strcmp(words[0], "watch")) {
		do_watch(fd, words);
		return;
	}
	if (n == 2 && !strcmp(words[0], "look")) {
		do_look(fd, words);
		return;
	}
	if (n < 3) {
		errno = EINVAL;
		die("command");
	}
	frame.type = MV_FRAME_REGISTER_QP;
	if (strcmp(words[0], "register")) {
		frame.type = *words[0] == 'u' ? MV_FRAME_UNREGISTER_QP : MV_FRAME_STATUS;
		frame.qp_type = 0;
	}
	snprintf(frame.device, sizeof(frame.device), "%s", words[1]);
	frame.qpn = (uint32_t)atoi(words[2]);
	if (frame.type == MV_FRAME_STATUS && n > 3) {
		frame.len = (uint16_t)strlen(words[3]);
		memcpy(frame.payload, words[3], frame.len);
	}
	put(fd, &frame);
}

static void show(const struct mv_frame *frame)
{
	char text[MV_GID_STRLEN], from[MV_GID_STRLEN];
	struct mv_ctl_msg msg;

	switch (frame->type) {
	case MV_FRAME_WELCOME:
		printf("welcome %u\n", frame->version);
		break;
	case MV_FRAME_UNREACHABLE:
		if (mv_ctl_decode(frame->payload, frame->len, &msg))
			printf("garbage\n");
		else
			printf("unreachable %s %u %u\n", mv_gid_format(&frame->dgid, text),
			       frame->qpn, msg.attempt);
		break;
	case MV_FRAME_DELIVER:
		if (mv_ctl_decode(frame->payload, frame->len, &msg))
			printf("garbage\n");
		else
			printf("deliver %s %u %s %u %u\n", frame->device, frame->qpn,
			       mv_gid_format(&msg.from.gid, text), msg.from.qpn, msg.attempt);
		break;
	case MV_FRAME_LOOKED:
		printf("looked %s\n", mv_gid_format(&frame->dgid, text));
		break;
	case MV_FRAME_PROBES:
		printf("probes\n");
		break;
	case MV_FRAME_PACKS:
	case MV_FRAME_SENDERS:
		break; /* said to all */
	case MV_FRAME_PATH:
		printf("path %s %s %s\n", mv_gid_format(&frame->sgid, from),
		       mv_gid_format(&frame->dgid, text), mv_probed_name(frame->probed));
		break;
	default:
		printf("frame %u\n", frame->type);
	}
}

/* Return: false when the agent has closed. */
static bool take(int fd)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	struct mv_frame frame;
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	if (n <= 0) {
		printf("closed\n");
		return false;
	}
	if (mv_frame_decode(buf, (size_t)n, &frame))
		printf("garbage\n");
	else
		show(&frame);
	return true;
}

int main(int argc, char **argv)
{
	struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.events = POLLIN}};
	char line[1024];

	if (argc != 3) {
		fprintf(stderr, "usage: talk RUN_DIR NAME\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Lines are read as they come: nothing may wait in a buffer that poll() does not know. */
	setvbuf(stdin, NULL, _IONBF, 0);
	fds[1].fd = join(argv[1], argv[2]);
	while (poll(fds, 2, -1) > 0) {
		if (fds[1].revents && !take(fds[1].fd))
			return 0;
		if (!fds[0].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		do_line(fds[1].fd, line);
	}
	return 1;
}
