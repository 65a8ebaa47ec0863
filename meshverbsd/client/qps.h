/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_QPS_H
#define MD_QPS_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "hash.h"
#include "bounds.h"

#include <infiniband/verbs.h>

/* Owners of QPs: one live owner for each (device, QPN). No I/O. One thread. */
struct md_qp_key {
	char device[IBV_SYSFS_NAME_MAX]; /* padded with zeros */
	uint32_t qpn;
};

struct md_qp {
	UT_hash_handle hh;
	LIST_ENTRY(md_qp) of_owner;
	struct md_qp_key key;
	uint64_t owner; /* number of a client */
	uint64_t account; /* account of that client */
	uint8_t type; /* enum ibv_qp_type */
	/* the kernel confirmed the owner when a message was sent or delivered; see md_clients_doubt() */
	bool confirmed;
	uint64_t waiter; /* number of a client that was refused, and gets the QP next; 0: none */
	uint8_t waiter_type; /* QP type that the waiter registered */
	char *status; /* last STATUS text, a JSON object; NULL: none */
};

LIST_HEAD(md_qp_list, md_qp);

/* Account: a user of the host, or a container, see struct md_peer. 0: root of the host. */
struct md_account {
	UT_hash_handle hh;
	uint64_t id;
	size_t n_qps, n_clients;
	uint64_t turn; /* turn in which the kernel was last asked for it: see md_clients_questions */
	size_t n_msgs; /* messages of its clients under way */
	size_t unread_bytes; /* unread bytes: as of md_clients_weigh(), plus what was sent since */
	size_t n_strays; /* clients whose stray descriptors are being closed */
	/* Time used for its clients since @window_ns, and its clients that wait: see md_clients_backlog. */
	uint64_t window_ns, busy_ns;
	TAILQ_HEAD(, md_client) backlog;
	TAILQ_ENTRY(md_account) of_backlog; /* while clients wait */
};

struct md_qps {
	struct md_qp *by_key;
	struct md_account *accounts;
	size_t n;
};

/**
 * md_qps_register - set the owner of a QP
 * @list: the client's, to which the QP is added
 *
 * If the client owns the QP already, only the type is changed.
 *
 * Return: 0; -EBUSY: another client owns it; -ENOSPC: MD_QPS_MAX or MD_QPS_PER_ACCOUNT; -ENOMEM.
 */
int md_qps_register(struct md_qps *qps, const struct md_qp_key *key, uint8_t type, uint64_t owner, uint64_t account,
		 struct md_qp_list *list);

/** md_qps_unregister - the owner gives the QP up. Return: 0; -ENOENT: @owner does not own it */
int md_qps_unregister(struct md_qps *qps, const struct md_qp_key *key, uint64_t owner);

/** md_qps_status - take over the JSON object for display. Return: 0; -ENOENT: @text is still the caller's */
int md_qps_status(struct md_qps *qps, const struct md_qp_key *key, uint64_t owner, char *text);

struct md_qp *md_qps_find(const struct md_qps *qps, const struct md_qp_key *key); /* owned by @qps; NULL: no owner */

/** md_qps_account - find or make an account, owned by @qps; NULL: no memory */
struct md_account *md_qps_account(struct md_qps *qps, uint64_t id);
/** md_qps_account_put - free the account if it is unused */
void md_qps_account_put(struct md_qps *qps, struct md_account *account);

/** md_qp_key_make - make a key; @device: NUL-terminated, shorter than IBV_SYSFS_NAME_MAX */
struct md_qp_key md_qp_key_make(const char *device, uint32_t qpn);

void md_qps_fini(struct md_qps *qps);

#endif
