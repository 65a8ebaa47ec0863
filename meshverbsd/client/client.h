/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_CLIENT_H
#define MD_CLIENT_H

#include <systemd/sd-event.h>

#include "ctl.h"
#include "errands.h"
#include "probes.h"
#include "peer.h"
#include "process_counts.h"
#include "qps.h"
#include "resqp.h"

/*
 * Processes of this host: connections to RUN_DIR/agent, and the frames on them. What the agent does with a message is
 * behind struct md_client_ops.
 */
struct md_clients;

struct md_client {
	UT_hash_handle hh;
	struct md_clients *clients;
	uint64_t number; /* never used again */
	int fd;
	sd_event_source *source;
	pid_t pid; /* of who connected; 0: of another PID namespace */
	pid_t sender; /* the same: nobody else speaks over this connection */
	int process; /* md_peer_open() */
	uid_t uid;
	struct md_account *account; /* it is counted for; NULL: it was refused */
	bool registered;
	/* Frames that go out at the end of the turn. */
	bool packs; /* it takes several in one packet */
	bool senders; /* it wants to know which host a message is from */
	bool waits; /* in clients->waiting: there are some */
	LIST_ENTRY(md_client) waiting;
	uint8_t *out; /* MV_PACK_MAX_BYTES; NULL without @packs */
	size_t out_len;
	char name[64]; /* as it says; printable */
	/* Frames from one on that has to wait for a question: see md_clients.asking. */
	uint8_t *rest; /* NULL: none */
	size_t rest_len;
	TAILQ_ENTRY(md_client) asking;
	bool backlogged; /* in account->backlog: something of it is to be read */
	TAILQ_ENTRY(md_client) of_backlog;
	size_t n_qps, n_parcels; /* it has; messages of it on their way */
	struct md_qp_list qps;
	struct md_probe_watch_list watches; /* paths */
	uint64_t begun_ns;
	const struct mv_counts_page *page; /* what it counts; NULL: it did not say */
	bool ended; /* its socket has been read to the end, so that nothing is left in it */
	/* Descriptors that it should not have sent, and its socket when it is gone: see md_clients.closer. */
	int strays[MD_STRAYS_MAX];
	size_t n_strays;
	struct md_errand leaving;
	LIST_ENTRY(md_client) of_leaving;
};

struct md_client_ops {
	/* A message that the client may send. Return: 0, then n_parcels has been counted up if need be; -errno. */
	int (*send)(void *arg, struct md_client *client, const union ibv_gid *dgid, const struct mv_ctl_msg *msg,
		    const uint8_t *data, uint16_t len);
	/* Devices of ours that have that GID, as md_view_devices(). */
	size_t (*devices)(void *arg, const union ibv_gid *gid, const char **ret, size_t max);
	/* It is gone; n_parcels no longer count, and what it has sent may still be under way. */
	void (*gone)(void *arg, struct md_client *client);
	/* It has a path watched: as md_probes_watch(). */
	int (*watch)(void *arg, struct md_client *client, const union ibv_gid *local, const union ibv_gid *remote,
		     uint8_t watch);
	/* Are paths probed at all? NULL: no. */
	bool (*probes)(void *arg);
	/* An address that it is about to connect to. Return: false: it is known, or not asked for. NULL: nothing is. */
	bool (*look)(void *arg, const struct md_client *client, const union ibv_gid *dgid);
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
	size_t n, max; /* of connections: what descriptors allow, at most MD_CLIENTS_MAX */
	/*
	 * To close what others have made may wait for them: a TCP socket that lingers, and a Unix socket in which such descriptors have
	 * not been read. One thread does nothing but that, and waits for a millisecond each. A file of their own FUSE mount it would wait
	 * for without end, if the file had been taken; what is left unread does not wait for that. So what has been taken another
	 * thread closes, and who waits behind such a file has sent descriptors that nobody wanted as well. Those that are leaving count, and
	 * no more is read of an account of which stray descriptors are being closed.
	 */
	struct md_errands closer, strays_closer;
	LIST_HEAD(, md_client) leaving;
	/*
	 * Those that are gone and have not read all: it takes memory until they do, or close their end, and counts until then.
	 */
	LIST_HEAD(, md_client) unread;
	size_t n_leaving, n_refused; /* in those lists; of them, connections that were refused */
	size_t unread_bytes; /* of all accounts but root's, as md_account has it */
	uint64_t weigh_ns; /* the kernel is not asked again before */
	bool full; /* nobody is accepted, for MD_REFUSED_MAX wait to be closed */
	struct md_qps qps;
	/*
	 * Whose a QP is that the claimant has not claimed already the kernel is asked, and its answer alone counts, MD_QUESTIONS_PER_TURN times in a turn of the
	 * event loop for all processes together: it may take long. Accounts take turns, and processes of an account; until it is its turn a
	 * process is not read.
	 */
	struct md_resqp resqp;
	TAILQ_HEAD(, md_client) asking;
	sd_event_source *turn; /* a time that is over: sd-event prefers its defer sources to all others */
	uint64_t n_turns;
	unsigned int n_questions; /* that may still be asked in this turn */
	/*
	 * Accounts with clients that wait to be read. Each client that has something to be read has a turn of the event loop, so an account
	 * with hundreds of them would have hundreds. One that takes much time gets in line: accounts take turns, and clients of an account;
	 * others come in between. A queue costs no time while nobody else wants any.
	 */
	TAILQ_HEAD(, md_account) backlog;
	sd_event_source *next_of_backlog; /* as @turn */
	struct md_process_counts counts;
	struct {
		uint64_t connected, refused, malformed, frames, sends, not_its_own, claims, claims_refused,
			delivered, not_delivered, watches_refused;
	} count;
	/* Tests only: where the kernel cannot be asked, who comes first has the queue pair. */
	bool trusts;
	/* No refused registration is told of in the log before: of another process's queue pair; of any other. */
	uint64_t say_anothers_ns, say_claim_ns;
	uint64_t say_ns; /* nobody is named in the log as one that may have no more of something before */
};

/**
 * md_clients_start - accept connections
 * @clients: event, ops, arg and max are filled
 * @listen_fd: a listening SOCK_SEQPACKET socket; taken over also on failure
 *
 * Return: 0 or -errno of sd-event, and of md_errands_start().
 */
int md_clients_start(struct md_clients *clients, int listen_fd);

/** md_clients_stop - drop all; false: a close(2) has not come back, so the process has to end by _exit(2) */
bool md_clients_stop(struct md_clients *clients);

/** md_clients_adopt - take a connected socket, as if it had been accepted (tests); 0 or -errno, then it is closed */
int md_clients_adopt(struct md_clients *clients, int fd);

/** md_clients_weigh - ask the kernel what has not been read; twice a second, and where there is no room */
void md_clients_weigh(struct md_clients *clients);

/** md_clients_counts - what all processes have counted together; @ret: MV_COUNTS_MAX places */
void md_clients_counts(const struct md_clients *clients, uint64_t *ret);

struct md_client *md_clients_find(const struct md_clients *clients, uint64_t number); /* NULL: gone */

/**
 * md_clients_deliver - hand a message to who has claimed a QP
 * @from: the host that it is from
 *
 * Return: whether somebody has. Where the socket is full the message is lost, as it may be anywhere.
 */
bool md_clients_deliver(struct md_clients *clients, const struct mv_host_id *from, const char *device, uint32_t qpn,
			const uint8_t *data, uint16_t len);

/**
 * md_clients_doubt - is a queue pair still its owner's? The kernel is to be asked again, with the next message of it
 *
 * For messages that name no random number of their receiver's (ctl.h): all others can only be said by who was told it.
 */
void md_clients_doubt(struct md_clients *clients, const char *device, uint32_t qpn);

/** md_clients_flush - the end of a turn: hand over what waits for company */
void md_clients_flush(struct md_clients *clients);

/** md_clients_changed - tell all processes that there is a new directory */
void md_clients_changed(struct md_clients *clients);

/** md_clients_path - tell a process of a path; false: its socket is full */
bool md_clients_path(struct md_clients *clients, uint64_t number, const union ibv_gid *local,
		     const union ibv_gid *remote, enum mv_probed state);
/** md_clients_suspect - warn a process of a path; false: it is not warned */
bool md_clients_suspect(struct md_clients *clients, uint64_t number, const union ibv_gid *local, const union ibv_gid *remote);

/** md_client_unreachable - tell that a message to an end will not arrive; @data: that message */
void md_client_unreachable(struct md_client *client, const union ibv_gid *dgid, uint32_t qpn, const uint8_t *data,
			   uint16_t len);

#endif
