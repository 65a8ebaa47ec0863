/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "qps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct md_qp_key md_qp_key_make(const char *device, uint32_t qpn)
{
	struct md_qp_key key;

	memset(&key, 0, sizeof(key));
	/* hot: thousands of calls when queue pairs move */
	memcpy(key.device, device, strnlen(device, sizeof(key.device) - 1));
	key.qpn = qpn;
	return key;
}

struct md_account *md_qps_account(struct md_qps *qps, uint64_t id)
{
	struct md_account *count;

	HASH_FIND(hh, qps->accounts, &id, sizeof(id), count);
	if (count)
		return count;
	count = calloc(1, sizeof(*count));
	if (!count)
		return NULL;
	count->id = id;
	TAILQ_INIT(&count->backlog);
	HASH_ADD(hh, qps->accounts, id, sizeof(count->id), count);
	if (!count->hh.tbl) {
		free(count);
		return NULL;
	}
	return count;
}

void md_qps_account_put(struct md_qps *qps, struct md_account *count)
{
	if (count->n_qps || count->n_clients)
		return;
	HASH_DEL(qps->accounts, count);
	free(count);
}

/* Hashes without the padding; hot: called for each message. */
static unsigned int hash_of(const struct md_qp_key *key)
{
	size_t len = strnlen(key->device, sizeof(key->device));
	char bytes[sizeof(key->qpn) + sizeof(key->device)];

	memcpy(bytes, &key->qpn, sizeof(key->qpn));
	memcpy(bytes + sizeof(key->qpn), key->device, len);
	return md_hash(bytes, (unsigned int)(sizeof(key->qpn) + len));
}

struct md_qp *md_qps_find(const struct md_qps *qps, const struct md_qp_key *key)
{
	unsigned int hash = hash_of(key); /* the macro would compute it for each entry */
	struct md_qp *qp;

	HASH_FIND_BYHASHVALUE(hh, qps->by_key, key, sizeof(*key), hash, qp);
	return qp;
}

static int add(struct md_qps *qps, const struct md_qp_key *key, struct md_account *count,
	       struct md_qp **ret)
{
	unsigned int hash = hash_of(key);
	struct md_qp *qp;

	if (!md_has_room(qps->n, MD_QPS_MAX, count->id) || (count->id && count->n_qps >= MD_QPS_PER_ACCOUNT))
		return -ENOSPC;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->key = *key;
	HASH_ADD_BYHASHVALUE(hh, qps->by_key, key, sizeof(qp->key), hash, qp);
	if (!qp->hh.tbl) {
		free(qp);
		return -ENOMEM;
	}
	qps->n++;
	count->n_qps++;
	*ret = qp;
	return 0;
}

int md_qps_register(struct md_qps *qps, const struct md_qp_key *key, uint8_t type, uint64_t owner,
		 uint64_t account, struct md_qp_list *list)
{
	struct md_qp *qp = md_qps_find(qps, key);
	struct md_account *count;
	int err;

	if (qp && qp->owner != owner)
		return -EBUSY;
	if (qp) {
		qp->type = type;
		return 0;
	}
	count = md_qps_account(qps, account);
	if (!count)
		return -ENOMEM;
	err = add(qps, key, count, &qp);
	if (err) {
		md_qps_account_put(qps, count);
		return err;
	}
	qp->type = type;
	qp->owner = owner;
	qp->account = account;
	LIST_INSERT_HEAD(list, qp, of_owner);
	return 0;
}

static void drop(struct md_qps *qps, struct md_qp *qp)
{
	struct md_account *count = md_qps_account(qps, qp->account);

	/* The account exists, because the QP counted for it, so no memory is needed. */
	if (count) {
		count->n_qps--;
		md_qps_account_put(qps, count);
	}
	LIST_REMOVE(qp, of_owner);
	HASH_DEL(qps->by_key, qp);
	qps->n--;
	free(qp->status);
	free(qp);
}

int md_qps_unregister(struct md_qps *qps, const struct md_qp_key *key, uint64_t owner)
{
	struct md_qp *qp = md_qps_find(qps, key);

	if (!qp || qp->owner != owner)
		return -ENOENT;
	drop(qps, qp);
	return 0;
}

int md_qps_status(struct md_qps *qps, const struct md_qp_key *key, uint64_t owner, char *text)
{
	struct md_qp *qp = md_qps_find(qps, key);

	if (!qp || qp->owner != owner)
		return -ENOENT;
	free(qp->status);
	qp->status = text;
	return 0;
}

void md_qps_fini(struct md_qps *qps)
{
	struct md_account *count, *next_count;
	struct md_qp *qp, *next;

	HASH_ITER(hh, qps->by_key, qp, next)
	drop(qps, qp);
	HASH_ITER(hh, qps->accounts, count, next_count)
	{
		HASH_DEL(qps->accounts, count);
		free(count);
	}
}
