/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections of processes: admission, and their end. */
#include "client_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/sockios.h>
#include <unistd.h>

#include "agent_log.h"

struct md_client *md_clients_find(const struct md_clients *clients, uint64_t number)
{
	struct md_client *client;

	/* serial number, usable as its own hash */
	HASH_FIND_BYHASHVALUE(hh, clients->by_number, &number, sizeof(number), (unsigned int)number, client);
	return client;
}

void md_clients_counts(const struct md_clients *clients, uint64_t *ret)
{
	const struct md_client *client, *next;

	memcpy(ret, clients->counts.ended, sizeof(clients->counts.ended));
	HASH_ITER(hh, clients->by_number, client, next)
	md_counts_add(ret, client->page);
}

/* ---- the end of a connection ----------------------------------------------------------------- */

static void uncount_client(struct md_clients *clients, struct md_account *account)
{
	account->n_clients--;
	md_qps_account_put(&clients->qps, account);
}

size_t md_client_unread(const struct md_client *client)
{
	int n;

	return ioctl(client->fd, SIOCOUTQ, &n) || n < 0 ? 0 : (size_t)n;
}

/* Runs in a closer's thread. */
static void close_all(struct md_job *job)
{
	struct md_client *client = md_job_of(job, struct md_client, leaving.job);

	for (size_t i = 0; i < client->leaving.n_strays; i++)
		close(client->leaving.strays[i]);
	/* Keep the socket while data is unread: otherwise nobody would count that memory. */
	if (client->account && md_client_unread(client))
		return;
	close(client->fd);
	client->fd = -1;
}

/* The account's other processes are read again. */
static void resume(struct md_clients *clients, const struct md_account *account)
{
	struct md_client *client, *next;

	HASH_ITER(hh, clients->by_number, client, next) {
		if (client->account == account)
			sd_event_source_set_enabled(client->source, SD_EVENT_ON);
	}
}

static void on_closed(struct md_job *job)
{
	struct md_client *client = md_job_of(job, struct md_client, leaving.job);
	struct md_clients *clients = client->clients;

	LIST_REMOVE(client, leaving.link);
	if (client->account && client->leaving.n_strays) {
		client->account->n_strays--;
		resume(clients, client->account);
	}
	client->leaving.n_strays = 0;
	if (client->fd >= 0) {
		LIST_INSERT_HEAD(&clients->closing.unread, client, leaving.link);
		return;
	}
	clients->closing.n--;
	if (client->account)
		uncount_client(clients, client->account);
	else
		clients->closing.n_refused--;
	if (clients->closing.full && clients->closing.n_refused < MD_REFUSED_MAX) {
		clients->closing.full = false;
		sd_event_source_set_enabled(clients->source, SD_EVENT_ON);
	}
	free(client);
}

static void give_to_closer(struct md_client *client)
{
	struct md_clients *clients = client->clients;

	client->leaving.job = (struct md_job){.run = close_all, .done = on_closed};
	LIST_INSERT_HEAD(&clients->closing.leaving, client, leaving.link);
	md_jobs_give(client->leaving.n_strays ? &clients->closing.strays_closer : &clients->closing.closer,
		     &client->leaving.job);
}

/* The process sees the end at once. What it sent with descriptors is closed later, in a thread. */
static void leave(struct md_client *client)
{
	struct md_clients *clients = client->clients;

	if (client->account && client->leaving.n_strays)
		client->account->n_strays++;
	shutdown(client->fd, SHUT_RDWR);
	clients->closing.n++;
	give_to_closer(client);
}

static void weigh_one(struct md_clients *clients, struct md_client *client)
{
	size_t bytes = client->account->id ? md_client_unread(client) : 0;

	client->account->unread_bytes += bytes;
	clients->closing.unread_bytes += bytes;
}

void md_clients_weigh(struct md_clients *clients)
{
	struct md_client *client, *next;
	struct md_account *account, *next_account;

	clients->closing.unread_bytes = 0;
	HASH_ITER(hh, clients->qps.accounts, account, next_account)
	account->unread_bytes = 0;
	HASH_ITER(hh, clients->by_number, client, next)
	weigh_one(clients, client);
	for (client = LIST_FIRST(&clients->closing.unread); client; client = next) {
		next = LIST_NEXT(client, leaving.link);
		if (md_client_unread(client)) {
			weigh_one(clients, client);
			continue;
		}
		LIST_REMOVE(client, leaving.link);
		give_to_closer(client);
	}
}

void md_client_close(struct md_client *client)
{
	struct md_clients *clients = client->clients;
	struct md_qp *qp;

	clients->ops->gone(clients->arg, client);
	client->account->n_msgs -= client->n_msgs;
	while ((qp = LIST_FIRST(&client->qps)))
		md_clients_let_go(clients, qp);
	md_counts_end(&clients->counts, client->page);
	HASH_DEL(clients->by_number, client);
	clients->n--;
	client->source = sd_event_source_disable_unref(client->source);
	if (client->process >= 0)
		close(client->process);
	if (client->out.waits)
		LIST_REMOVE(client, out.waiting);
	md_client_leave_backlog(client);
	if (client->rest.bytes)
		TAILQ_REMOVE(&clients->questions.asking, client, rest.asking);
	free(client->rest.bytes);
	free(client->out.bytes);
	if (!client->leaving.ended || md_client_unread(client)) {
		leave(client);
		return;
	}
	close(client->fd);
	uncount_client(clients, client->account);
	free(client);
}

/* ---- its beginning --------------------------------------------------------------------------- */

static void log_refused(struct md_clients *clients, const struct md_peer *peer, size_t n)
{
	char text[MD_PEER_TEXT_SIZE];

	if (md_client_now_ns() < clients->log_limits.limit_ns)
		return;
	clients->log_limits.limit_ns = md_client_now_ns() + MD_LOG_AGAIN_NS;
	md_log(MD_WARNING, "%s has %zu connections and is refused a further one",
	       md_peer_text(peer, text, sizeof(text)), n);
}

/* Return: 0; -EUSERS; -ENOMEM. */
static int count_client(struct md_clients *clients, const struct md_peer *peer, struct md_account **ret)
{
	struct md_account *account;

	if (!md_has_room(clients->n + clients->closing.n - clients->closing.n_refused, clients->max, peer->account))
		return -EUSERS;
	account = md_qps_account(&clients->qps, peer->account);
	if (!account)
		return -ENOMEM;
	if (account->id && account->n_clients >= MD_CLIENTS_PER_ACCOUNT) {
		log_refused(clients, peer, account->n_clients);
		return -EUSERS;
	}
	account->n_clients++;
	*ret = account;
	return 0;
}

static int add_client(struct md_clients *clients, int fd, const struct md_peer *peer, struct md_account *account)
{
	struct md_client *client = calloc(1, sizeof(*client));
	const int on = 1;
	int err;

	if (!client)
		return -ENOMEM;
	client->clients = clients;
	client->number = ++clients->next_number;
	client->fd = fd;
	client->pid = client->sender = peer->pid;
	client->uid = peer->uid;
	client->account = account;
	client->begun_ns = md_client_now_ns();
	LIST_INIT(&client->qps);
	/* Each packet comes with credentials, the end of file does not: so an empty packet can be told from the end. */
	err = setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ? -errno : 0;
	if (!err)
		err = sd_event_add_io(clients->event, &client->source, fd, EPOLLIN, md_client_on_readable, client);
	if (err < 0) {
		free(client);
		return err;
	}
	HASH_ADD_BYHASHVALUE(hh, clients->by_number, number, sizeof(client->number), (unsigned int)client->number, client);
	if (!client->hh.tbl) {
		sd_event_source_disable_unref(client->source);
		free(client);
		return -ENOMEM;
	}
	client->process = md_peer_open(fd, peer->pid);
	clients->n++;
	clients->count.connected++;
	return 0;
}

/* The process may have sent data already. */
static void refuse(struct md_clients *clients, int fd)
{
	struct md_client *client = calloc(1, sizeof(*client));

	clients->count.refused++;
	if (!client) {
		close(fd);
		return;
	}
	client->clients = clients;
	client->fd = fd;
	clients->closing.n_refused++;
	leave(client);
	if (clients->closing.n_refused < MD_REFUSED_MAX)
		return;
	clients->closing.full = true;
	sd_event_source_set_enabled(clients->source, SD_EVENT_OFF);
}

int md_clients_adopt(struct md_clients *clients, int fd)
{
	struct md_account *account;
	struct md_peer peer;
	int err;

	err = md_peer_of(fd, &peer);
	if (!err)
		err = count_client(clients, &peer, &account);
	if (!err) {
		err = add_client(clients, fd, &peer, account);
		if (err)
			uncount_client(clients, account);
	}
	if (err)
		refuse(clients, fd);
	return err;
}

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct md_clients *clients = arg;
	const int room = MD_CLIENT_SOCKET_BYTES;
	int err;

	(void)source;
	(void)revents;
	fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return 0;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)); /* the kernel may limit it */
	err = md_clients_adopt(clients, fd);
	if (err)
		md_log(MD_DEBUG, "a process is refused: %s", md_strerror(err));
	return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

int md_clients_start(struct md_clients *clients, int listen_fd)
{
	const int on = 1;
	int err;

	clients->listen_fd = listen_fd;
	/* Accepted sockets inherit the option, so that the first packet has credentials. */
	setsockopt(listen_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	md_resqp_open(&clients->questions.resqp);
	TAILQ_INIT(&clients->questions.asking);
	TAILQ_INIT(&clients->backlog.accounts);
	clients->closing.closer.hurries = clients->closing.strays_closer.hurries = true;
	err = md_jobs_start(&clients->closing.closer, clients->event);
	if (!err)
		err = md_jobs_start(&clients->closing.strays_closer, clients->event);
	if (!err)
		err = sd_event_add_time(clients->event, &clients->questions.turn, CLOCK_MONOTONIC, 0, 1, md_clients_on_turn,
					clients);
	if (err >= 0)
		err = sd_event_add_time(clients->event, &clients->backlog.next, CLOCK_MONOTONIC, 0, 1, md_clients_on_backlog,
					clients);
	if (err < 0)
		return err;
	sd_event_source_set_enabled(clients->questions.turn, SD_EVENT_OFF);
	sd_event_source_set_enabled(clients->backlog.next, SD_EVENT_OFF);
	err = sd_event_add_io(clients->event, &clients->source, listen_fd, EPOLLIN, on_connection,
			      clients);
	return err < 0 ? err : 0;
}

bool md_clients_stop(struct md_clients *clients)
{
	struct md_client *client, *next;
	bool closed;

	HASH_ITER(hh, clients->by_number, client, next)
	md_client_close(client);
	clients->source = sd_event_source_disable_unref(clients->source);
	clients->questions.turn = sd_event_source_disable_unref(clients->questions.turn);
	clients->backlog.next = sd_event_source_disable_unref(clients->backlog.next);
	if (clients->listen_fd >= 0)
		close(clients->listen_fd);
	clients->listen_fd = -1;
	md_resqp_close(&clients->questions.resqp);
	while ((client = LIST_FIRST(&clients->closing.unread))) {
		LIST_REMOVE(client, leaving.link);
		client->account = NULL; /* its data no longer counts */
		give_to_closer(client);
	}
	md_qps_fini(&clients->qps);
	closed = md_jobs_stop(&clients->closing.strays_closer);
	closed = md_jobs_stop(&clients->closing.closer) && closed;
	for (client = LIST_FIRST(&clients->closing.leaving); closed && client; client = next) {
		next = LIST_NEXT(client, leaving.link);
		free(client);
	}
	return closed;
}
