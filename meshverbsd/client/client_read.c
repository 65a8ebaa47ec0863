/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reads from processes, in fair turns. */
#include "client_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent_log.h"

/* @ret_sender: the process that sent the packet, from the kernel. Return: 0; -ENODATA: not a packet but the end. */
static int take_descriptors(struct md_client *client, struct msghdr *msg, pid_t *ret_sender)
{
	struct cmsghdr *cmsg;
	struct ucred cred;
	int err = -ENODATA;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET)
			continue;
		if (cmsg->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&cred, CMSG_DATA(cmsg), sizeof(cred));
			*ret_sender = cred.pid;
			err = 0;
		}
		if (cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		client->leaving.n_strays = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(client->leaving.strays, CMSG_DATA(cmsg), client->leaving.n_strays * sizeof(int));
	}
	return err;
}

/* The page of counters, once. Return: 0; -EBADF: unwanted descriptors. */
static int take_page(struct md_client *client)
{
	if (!client->leaving.n_strays)
		return 0;
	if (client->leaving.n_strays > 1 || client->page || md_counts_map(client->leaving.strays[0], &client->page))
		return -EBADF;
	client->leaving.n_strays = 0;
	return 0;
}

/* Return: -EINPROGRESS; -ENOMEM. */
static int keep_rest(struct md_client *client, const uint8_t *buf, size_t len)
{
	struct md_clients *clients = client->clients;

	client->rest.bytes = malloc(len);
	if (!client->rest.bytes)
		return -ENOMEM;
	memcpy(client->rest.bytes, buf, len);
	client->rest.len = len;
	TAILQ_INSERT_TAIL(&clients->questions.asking, client, rest.asking);
	sd_event_source_set_enabled(client->source, SD_EVENT_OFF);
	sd_event_source_set_enabled(clients->questions.turn, SD_EVENT_ONESHOT);
	return -EINPROGRESS;
}

/*
 * Handles a packet of another process that got the connection passed on, or inherited it: ignored. Permissions belong
 * to the PID that connected, and that PID may be another user's process by now.
 */
static int ignore(struct md_client *client, pid_t sender, unsigned int *n_frames)
{
	struct md_clients *clients = client->clients;

	(*n_frames)++;
	clients->count.malformed++;
	if (md_client_now_ns() < clients->log_limits.limit_ns)
		return 0;
	clients->log_limits.limit_ns = md_client_now_ns() + MD_LOG_AGAIN_NS;
	md_log(MD_WARNING, "process %d speaks over the connection of process %d (%s), user %u: ignored", (int)sender,
	       (int)client->sender, client->name, (unsigned int)client->uid);
	return 0;
}

/* Handles the frames of one packet. Return: as take_packet(). */
static int take_frames(struct md_client *client, const uint8_t *buf, size_t len, unsigned int *n_frames)
{
	struct mv_frame frame;
	size_t used;
	int err = 0;

	for (; len && !err; buf += used, len -= used) {
		if (mv_frame_take(buf, len, &used, &frame)) {
			client->clients->count.malformed++;
			return -EBADMSG;
		}
		if (md_client_has_to_wait(client, &frame))
			return keep_rest(client, buf, len);
		(*n_frames)++;
		err = md_client_frame(client, &frame);
	}
	return err;
}

/* Return: 0: go on; -EAGAIN: no more data; -EINPROGRESS: frames wait in @rest; another -errno: close. */
static int take_packet(struct md_client *client, unsigned int *n_frames)
{
	uint8_t buf[MV_PACK_MAX_BYTES + 1]; /* one byte more, to detect longer packets */
	struct iovec data = {.iov_base = buf, .iov_len = sizeof(buf)};
	/* Room for the largest number of descriptors. Otherwise the kernel would close the rest in this thread. */
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(client->leaving.strays))];
	} control;
	struct msghdr msg = {.msg_iov = &data,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf)};
	ssize_t n = recvmsg(client->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	pid_t sender = 0;

	if (n < 0)
		return errno == EINTR || errno == ECONNRESET ? 0 : -errno; /* ECONNRESET: the peer left data unread; go on to the end */
	client->leaving.ended = take_descriptors(client, &msg, &sender) && !n;
	if (client->leaving.ended)
		return -ESHUTDOWN;
	if (take_page(client))
		return -EBADF;
	if (!n || n > MV_PACK_MAX_BYTES) {
		client->clients->count.malformed++;
		return -EBADMSG;
	}
	if (sender != client->sender)
		return ignore(client, sender, n_frames);
	return take_frames(client, buf, (size_t)n, n_frames);
}

static void end_of_turn(struct md_client *client, int rc)
{
	if (!rc || rc == -EAGAIN || rc == -EINPROGRESS)
		return;
	if (rc != -ESHUTDOWN)
		md_log(MD_NOTICE, "connection of process %d (%s) closed: %s", (int)client->pid, client->name,
		       md_strerror(rc));
	md_client_close(client);
}

/* The event loop does not find a socket writable while the source of the client is off: at its turn frames are tried. */
static void send_blocked(struct md_client *client)
{
	if (client->out.blocked)
		md_client_on_writable(client);
}

/* The first in line of the account whose last turn is longest ago. */
static struct md_client *next_to_ask(struct md_clients *clients)
{
	struct md_client *best = TAILQ_FIRST(&clients->questions.asking), *client;

	TAILQ_FOREACH(client, &clients->questions.asking, rest.asking)
	if (client->account->turn < best->account->turn)
		best = client;
	if (best)
		best->account->turn = ++clients->questions.n_turns;
	return best;
}

int md_clients_on_turn(sd_event_source *source, uint64_t usec, void *arg)
{
	struct md_clients *clients = arg;
	struct md_client *client = next_to_ask(clients);
	unsigned int n_frames = 0;
	uint8_t *rest;
	int rc;

	(void)usec;
	if (!client)
		return 0;
	TAILQ_REMOVE(&clients->questions.asking, client, rest.asking);
	rest = client->rest.bytes;
	client->rest.bytes = NULL;
	clients->questions.n_left = MD_QUESTIONS_PER_TURN;
	sd_event_source_set_enabled(client->source, SD_EVENT_ON);
	send_blocked(client);
	rc = take_frames(client, rest, client->rest.len, &n_frames);
	clients->questions.n_left = 0;
	free(rest);
	if (!TAILQ_EMPTY(&clients->questions.asking))
		sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	end_of_turn(client, rc);
	return 0;
}

/* ---- whose turn it is to be read ------------------------------------------------------------- */

static bool is_busy(struct md_account *account, uint64_t now_ns)
{
	if (now_ns >= account->window_ns + MD_BUSY_OF_NS) {
		account->window_ns = now_ns;
		account->busy_ns = 0;
	}
	return account->busy_ns >= MD_BUSY_NS;
}

/* Return: as take_packet(). */
static int read_some(struct md_client *client)
{
	uint64_t begun_ns = md_client_now_ns();
	unsigned int n_frames = 0;
	int rc = 0;

	do
		rc = take_packet(client, &n_frames);
	while (n_frames < MD_FRAMES_PER_TURN && !rc && md_client_now_ns() - begun_ns < MD_BUSY_NS);
	client->account->busy_ns += md_client_now_ns() - begun_ns;
	return rc;
}

static void get_in_line(struct md_client *client)
{
	struct md_clients *clients = client->clients;
	struct md_account *account = client->account;

	sd_event_source_set_enabled(client->source, SD_EVENT_OFF);
	if (TAILQ_EMPTY(&account->backlog))
		TAILQ_INSERT_TAIL(&clients->backlog.accounts, account, of_backlog);
	TAILQ_INSERT_TAIL(&account->backlog, client, of_backlog);
	client->backlogged = true;
	sd_event_source_set_enabled(clients->backlog.next, SD_EVENT_ONESHOT);
}

void md_client_leave_backlog(struct md_client *client)
{
	struct md_account *account = client->account;

	if (!client->backlogged)
		return;
	client->backlogged = false;
	TAILQ_REMOVE(&account->backlog, client, of_backlog);
	if (TAILQ_EMPTY(&account->backlog))
		TAILQ_REMOVE(&client->clients->backlog.accounts, account, of_backlog);
}

int md_clients_on_backlog(sd_event_source *source, uint64_t usec, void *arg)
{
	struct md_clients *clients = arg;
	struct md_account *account = TAILQ_FIRST(&clients->backlog.accounts);
	struct md_client *client;
	int rc;

	(void)usec;
	if (!account)
		return 0;
	client = TAILQ_FIRST(&account->backlog);
	md_client_leave_backlog(client);
	if (!TAILQ_EMPTY(&account->backlog)) {
		TAILQ_REMOVE(&clients->backlog.accounts, account, of_backlog);
		TAILQ_INSERT_TAIL(&clients->backlog.accounts, account, of_backlog);
	}
	if (!TAILQ_EMPTY(&clients->backlog.accounts))
		sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	send_blocked(client);
	if (client->rest.bytes || account->n_strays) /* will be read again when that is over */
		return 0;
	rc = read_some(client);
	if (!rc)
		get_in_line(client);
	else if (rc == -EAGAIN)
		sd_event_source_set_enabled(client->source, SD_EVENT_ON);
	else
		end_of_turn(client, rc);
	return 0;
}

int md_client_on_readable(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct md_client *client = arg;

	(void)fd;
	if (revents & EPOLLOUT)
		md_client_on_writable(client);
	if (revents == EPOLLOUT)
		return 0;
	if (client->rest.bytes || client->backlogged || client->account->n_strays)
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
	else if (is_busy(client->account, md_client_now_ns()))
		get_in_line(client);
	else
		end_of_turn(client, read_some(client));
	return 0;
}
