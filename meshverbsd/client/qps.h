/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_QPS_H
#define MD_QPS_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "hash.h"
#include "bounds.h"

#include <infiniband/verbs.h>

/*
 * Which process has which QP: one live owner for each (device, QPN). No I/O.
 */
struct md_qp_key {
	char device[IBV_SYSFS_NAME_MAX]; /* filled up with zeros */
	uint32_t qpn;
};

struct md_qp {
	UT_hash_handle hh;
	LIST_ENTRY(md_qp) of_owner;
	struct md_qp_key key;
	uint64_t owner; /* a client's number */
	uint64_t account; /* the client's */
	uint8_t type; /* enum ibv_qp_type */
	bool confirmed; /* it was its owner's when a message of it was sent or delivered; see md_clients_doubt() */
	uint64_t waiter; /* number of a client that was refused it, and has it next; 0: nobody */
	uint8_t waiter_type; /* what it said of it */
	char *status; /* last STATUS text, printable; NULL: none */
};

LIST_HEAD(md_qp_list, md_qp);

/* What is counted for a user of the host, or for a container: see struct md_peer. 0 is root of the host. */
struct md_account {
	UT_hash_handle hh;
	uint64_t id;
	size_t n_qps, n_clients;
	uint64_t turn; /* in which it last had the kernel asked: see md_clients.asking */
	size_t n_parcels; /* messages of its clients on their way */
	size_t unread_bytes; /* sent to its processes and not read, as of md_clients_weigh(), and what was sent since */
	size_t n_strays; /* clients, of which descriptors are being closed */
	/* Time spent on its clients since @window_ns, and those of them that wait: see md_clients.backlog. */
	uint64_t window_ns, busy_ns;
	TAILQ_HEAD(, md_client) backlog;
	TAILQ_ENTRY(md_account) of_backlog; /* while there are some */
};

struct md_qps {
	struct md_qp *by_key;
	struct md_account *accounts;
	size_t n;
};

/**
 * md_qps_claim - note an owner
 * @list: of the client, to which the QP is added
 *
 * A client that claims what is its own already changes the type only.
 *
 * Return: 0; -EBUSY when another client has it; -ENOSPC beyond MD_QPS_MAX or MD_QPS_PER_ACCOUNT; -ENOMEM.
 */
int md_qps_claim(struct md_qps *qps, const struct md_qp_key *key, uint8_t type, uint64_t owner, uint64_t account,
		 struct md_qp_list *list);

/** md_qps_unclaim - its owner lets go; -ENOENT when @owner does not have it */
int md_qps_unclaim(struct md_qps *qps, const struct md_qp_key *key, uint64_t owner);

/** md_qps_status - remember what is to be shown; @len bytes. -ENOENT; -ENOMEM */
int md_qps_status(struct md_qps *qps, const struct md_qp_key *key, uint64_t owner, const void *text, size_t len);

struct md_qp *md_qps_find(const struct md_qps *qps, const struct md_qp_key *key); /* NULL: nobody's */

/** md_qps_account - counts of an account, made when new; NULL without memory */
struct md_account *md_qps_account(struct md_qps *qps, uint64_t id);
/** md_qps_account_put - forget one that has nothing any more */
void md_qps_account_put(struct md_qps *qps, struct md_account *account);

/** md_qp_key_make - @device: NUL-terminated, shorter than IBV_SYSFS_NAME_MAX */
struct md_qp_key md_qp_key_make(const char *device, uint32_t qpn);

void md_qps_fini(struct md_qps *qps);

#endif
