/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_CLIENT_H
#define MD_CLIENT_H

#include <systemd/sd-event.h>

#include "ctl.h"
#include "async_job.h"
#include "probes.h"
#include "peer.h"
#include "process_counts.h"
#include "qps.h"
#include "resqp.h"

/*
 * Processes of this host: connections to RUN_DIR/agent, and the frames on them. The agent handles messages by struct
 * md_client_ops. All functions: event loop's thread.
 */
struct md_clients;

/* Frames to be sent at the end of the loop iteration. Event loop's thread. */
struct md_client_out {
	bool packs; /* the process accepts several frames in one packet */
	bool senders; /* the process wants to know the sender's host of a message */
	uint32_t owed; /* frames that answer REGISTER and are not sent yet: mask of 1 << enum mv_frame_type */
	bool waits; /* in clients->waiting: there are such frames, or @owed */
	bool blocked; /* there are, too, but the socket is full: they are sent when it is writable, or tried at the client's turn */
	LIST_ENTRY(md_client) waiting;
	uint8_t *bytes; /* MV_PACK_MAX_BYTES; NULL without @packs */
	size_t len;
};

/* Frames that wait, from the first that needs a look-up on: see struct md_clients_questions. Event loop's thread. */
struct md_client_rest {
	uint8_t *bytes; /* NULL: none */
	size_t len;
	TAILQ_ENTRY(md_client) asking;
};

/* The end of a connection: see md_clients_closing. Event loop's thread; a closer's while @job is out. */
struct md_client_leaving {
	bool ended; /* the socket was read to its end, and is empty */
	int strays[MD_STRAYS_MAX]; /* file descriptors that came unasked */
	size_t n_strays;
	struct md_job job;
	LIST_ENTRY(md_client) link;
};

struct md_client {
	UT_hash_handle hh;
	struct md_clients *clients;
	uint64_t number; /* never reused */
	int fd;
	sd_event_source *source;
	pid_t pid; /* of the process that connected; 0: in another PID namespace */
	pid_t sender; /* the same, and the only process that may send on the connection */
	int process; /* result of md_peer_open() */
	uid_t uid;
	struct md_account *account; /* account that the client counts for; NULL: refused */
	bool registered;
	struct md_client_out out;
	char name[64]; /* from the process; printable */
	struct md_client_rest rest;
	bool backlogged; /* in account->backlog: data is to be read */
	TAILQ_ENTRY(md_client) of_backlog;
	size_t n_qps, n_msgs; /* QPs; messages under way */
	struct md_qp_list qps;
	struct md_probe_watch_list watches; /* paths that the process watches */
	uint64_t begun_ns;
	const struct mv_counts_page *page; /* its counters; NULL: it has not sent the page */
	struct md_client_leaving leaving;
};

struct md_client_ops {
	/* A message that the client may send. Return: 0: n_msgs was counted up if needed; -errno. */
	int (*send)(void *arg, struct md_client *client, const union ibv_gid *dgid, const struct mv_ctl_msg *msg,
		    const uint8_t *data, uint16_t len);
	/* Devices of this host that have the GID, as md_view_devices(). */
	size_t (*devices)(void *arg, const union ibv_gid *gid, const char **ret, size_t max);
	/* The client is gone; its n_msgs no longer count, but its messages may be under way. */
	void (*gone)(void *arg, struct md_client *client);
	/* The client watches a path: as md_probes_watch(). */
	int (*watch)(void *arg, struct md_client *client, const union ibv_gid *local, const union ibv_gid *remote,
		     uint8_t watch);
	/* Are paths probed at all? NULL: no. */
	bool (*probes)(void *arg);
	/* The client will connect to an address. Return: false: the address is known, or cannot be queried. NULL: none is queried. */
	bool (*look)(void *arg, const struct md_client *client, const union ibv_gid *dgid);
};

/*
 * Clients that are gone, and refused connections. Event loop's thread; a closer's thread has a client while its job
 * is out.
 *
 * The closers are threads for close(2), which may block on objects of clients: a TCP socket that lingers, or a Unix
 * socket in which such descriptors are unread. @closer closes sockets, and waits at most a millisecond for each.
 * @strays_closer closes descriptors that were received: a file on a client's own FUSE mount can block it forever. Only
 * clients that sent unwanted descriptors wait behind such a file. Leaving clients count, and an account is not read
 * while its stray descriptors are being closed.
 */
struct md_clients_closing {
	struct md_jobs closer, strays_closer;
	LIST_HEAD(, md_client) leaving;
	/*
	 * Clients that are gone and have unread data. The data takes memory until it is read, or the other end is
	 * closed, and counts until then.
	 */
	LIST_HEAD(, md_client) unread;
	size_t n, n_refused; /* in these lists; of these, refused connections */
	size_t unread_bytes; /* of all accounts except root's, as in md_account */
	uint64_t weigh_ns; /* the kernel is not asked again before */
	bool full; /* no connection is accepted, since MD_REFUSED_MAX wait to be closed */
};

/*
 * Questions to the kernel that wait. Event loop's thread.
 *
 * The kernel is asked who owns a QP, and its answer decides: at a registration, unless the asker has the QP already,
 * and at a message that begins a conversation. That may take long, so there are at most MD_QUESTIONS_PER_TURN questions
 * in a loop iteration. Accounts take turns, and so do processes of an account. A process whose question waits is not
 * read. Messages of other hosts do not wait: see MD_QUESTIONS_RATE.
 */
struct md_clients_questions {
	struct md_resqp resqp;
	TAILQ_HEAD(, md_client) asking;
	sd_event_source *turn; /* a timer that has expired, because sd-event runs its defer sources before all others */
	uint64_t n_turns;
	unsigned int n_left; /* questions left in this iteration */
};

/*
 * Accounts with clients that wait to be read. Event loop's thread.
 *
 * Without the backlog, each client with data would be read once in an iteration, so an account with hundreds of clients
 * would get hundreds of shares. An account that takes much time (MD_BUSY_NS) queues here: accounts take turns, and so
 * do clients of an account; all others are read in between. Queuing costs nothing while nobody else has data.
 */
struct md_clients_backlog {
	TAILQ_HEAD(, md_account) accounts;
	sd_event_source *next; /* like md_clients_questions.turn */
};

/* Times before which the log does not say something again. Event loop's thread. */
struct md_clients_log_limits {
	uint64_t anothers_ns, registration_ns; /* refused registrations: of another process's QP; other ones */
	uint64_t limit_ns; /* those that exceed a limit */
};

struct md_clients {
	LIST_HEAD(, md_client) waiting;
	sd_event *event;
	const struct md_client_ops *ops;
	void *arg;
	int listen_fd;
	sd_event_source *source;
	struct md_client *by_number;
	uint64_t next_number;
	size_t n, max; /* connections; max: as descriptors allow, at most MD_CLIENTS_MAX */
	struct md_clients_closing closing;
	struct md_qps qps;
	struct md_clients_questions questions;
	struct md_clients_backlog backlog;
	struct md_process_counts counts;
	struct {
		uint64_t connected, refused, malformed, frames, sends, not_its_own, registrations, registrations_refused,
			delivered, not_delivered, watches_refused;
	} count;
	/* For tests: the kernel cannot be asked, so the first process to register a QP has it. */
	bool trusts;
	struct md_clients_log_limits log_limits;
};

/**
 * md_clients_start - accept connections
 * @clients: event, ops, arg and max are filled in
 * @listen_fd: a listening SOCK_SEQPACKET socket; owned by @clients from now on, also on failure
 *
 * Return: 0; -errno of sd-event and md_jobs_start().
 */
int md_clients_start(struct md_clients *clients, int listen_fd);

/** md_clients_stop - close all connections. Return: false: a close(2) still blocks, so the process has to end by _exit(2) */
bool md_clients_stop(struct md_clients *clients);

/** md_clients_adopt - take a connected socket, as if accepted (tests). Return: 0; -errno, and @fd is closed */
int md_clients_adopt(struct md_clients *clients, int fd);

/** md_clients_weigh - ask the kernel for the size of unread data; twice a second, and when a limit is reached */
void md_clients_weigh(struct md_clients *clients);

/** md_clients_counts - sums of all processes' counters; @ret: MV_COUNTS_MAX places */
void md_clients_counts(const struct md_clients *clients, uint64_t *ret);

struct md_client *md_clients_find(const struct md_clients *clients, uint64_t number); /* owned by @clients; NULL: gone */

/**
 * md_clients_deliver - send a message to the process that has registered a QP
 * @from: host of the sender
 *
 * Return: true: the QP has an owner. If its socket is full, the message is lost, as any message may be.
 */
bool md_clients_deliver(struct md_clients *clients, const struct mv_host_id *from, const char *device, uint32_t qpn,
			const uint8_t *data, uint16_t len);

/**
 * md_clients_asks - would a message to a QP need a question to the kernel? Each is perhaps a firmware command
 * @begins: the message has no nonce of its receiver: md_clients_doubt() comes first
 */
bool md_clients_asks(const struct md_clients *clients, const char *device, uint32_t qpn, bool begins);

/**
 * md_clients_doubt - a QP may have another owner now: ask the kernel again, with the QP's next message
 *
 * For messages without the receiver's nonce (ctl.h); only a process that got the nonce can send others.
 */
void md_clients_doubt(struct md_clients *clients, const char *device, uint32_t qpn);

/** md_clients_flush - end of a loop iteration: send batched frames */
void md_clients_flush(struct md_clients *clients);

/** md_clients_changed - tell all processes about the new directory */
void md_clients_changed(struct md_clients *clients);

/** md_clients_path - tell a process the state of a path. Return: false: its socket is full */
bool md_clients_path(struct md_clients *clients, uint64_t number, const union ibv_gid *local,
		     const union ibv_gid *remote, enum mv_probed state);
/** md_clients_suspect - warn a process about a path. Return: false: not warned */
bool md_clients_suspect(struct md_clients *clients, uint64_t number, const union ibv_gid *local, const union ibv_gid *remote);

/** md_client_unreachable - tell a process that a message will not arrive; @data: that message */
void md_client_unreachable(struct md_client *client, const union ibv_gid *dgid, uint32_t qpn, const uint8_t *data,
			   uint16_t len);

#endif
