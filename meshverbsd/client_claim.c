/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Whose a queue pair is: claims of processes. */
#include "client_int.h"

#include <errno.h>

#include "say.h"

void md_clients_let_go(struct md_clients *clients, const struct md_qp *qp)
{
	struct md_client *next = md_clients_find(clients, qp->waiter);
	const struct md_qp_key key = qp->key;
	uint8_t type = qp->waiter_type;

	md_qps_unclaim(&clients->qps, &key, qp->owner);
	if (next && !md_qps_claim(&clients->qps, &key, type, next->number, next->uid, &next->qps))
		clients->count.claims++;
}

/*
 * May the kernel's answer end a claim? Its queue pair may be gone, and the number another process's: one that ends gives back its
 * queue pairs seconds before its connection to us, if much memory is to be deregistered, and an UNCLAIM may be lost.
 * Connections of one pid the answer cannot tell apart: one may have been passed on when its process ended, and the pid be another
 * process's by now. So it counts among those of one user only.
 */
static bool can_be_stale(const struct md_client *claimant, const struct md_qp *qp)
{
	const struct md_client *holder = md_clients_find(claimant->clients, qp->owner);

	return holder && (!claimant->pid || holder->pid != claimant->pid || holder->uid == claimant->uid);
}

/*
 * @held: by whom, if another connection has it
 *
 * Return: 0, or why that process may not have that QP; -EBUSY: because it is held, and nobody says whose it is.
 */
static int check_owner(struct md_client *client, const struct mv_frame *frame, const struct md_qp *held)
{
	struct md_clients *clients = client->clients;
	pid_t owner;

	if (held && !can_be_stale(client, held))
		return -EPERM;
	if (clients->n_questions)
		clients->n_questions--;
	owner = md_resqp_owner(&clients->resqp, frame->device, frame->qpn, md_client_now_ns());
	if (owner < 0)
		return -ENOENT;
	if (client->pid && owner && md_resqp_is_of(&clients->resqp, owner, client->pid))
		return 0;
	if (held)
		return owner ? -EPERM : -EBUSY;
	/* A pid of another namespace cannot be compared, and the first claim counts. */
	return owner && client->pid ? -EPERM : 0;
}

bool md_client_has_to_wait(const struct md_client *client, const struct mv_frame *frame)
{
	const struct md_clients *clients = client->clients;
	const struct md_qp *qp;
	struct md_qp_key key;

	if (frame->type != MV_FRAME_CLAIM || !client->registered || clients->resqp.fd < 0 || clients->n_questions)
		return false;
	key = md_qp_key_make(frame->device, frame->qpn);
	qp = md_qps_find(&clients->qps, &key);
	return !qp || (qp->owner != client->number && can_be_stale(client, qp));
}

void md_client_claim(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	struct md_qp_key key = md_qp_key_make(frame->device, frame->qpn);
	struct md_qp *qp = md_qps_find(&clients->qps, &key);
	struct md_qp *held = qp && qp->owner != client->number ? qp : NULL;
	int err = qp && !held ? 0 : check_owner(client, frame, held);

	if (held && err == -EBUSY && !md_clients_find(clients, held->waiter)) {
		held->waiter = client->number;
		held->waiter_type = frame->qp_type;
	}
	if (!err && held) {
		md_say(MD_DEBUG, "QP %u of %s is process %d's (%s) now", frame->qpn, frame->device, (int)client->pid,
		       client->name);
		md_qps_unclaim(&clients->qps, &key, held->owner);
	}
	if (!err)
		err = md_qps_claim(&clients->qps, &key, frame->qp_type, client->number, client->uid,
				   &client->qps);
	if (err) {
		clients->count.claims_refused++;
		md_say(MD_DEBUG, "process %d (%s) may not have QP %u of %s: %s", (int)client->pid,
		       client->name, frame->qpn, frame->device, md_strerror(err));
		return;
	}
	clients->count.claims++;
}

void md_client_unclaim(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	struct md_qp_key key = md_qp_key_make(frame->device, frame->qpn);
	struct md_qp *qp = md_qps_find(&clients->qps, &key);

	if (qp && qp->owner == client->number)
		md_clients_let_go(clients, qp);
	else if (qp && qp->waiter == client->number)
		qp->waiter = 0;
}
