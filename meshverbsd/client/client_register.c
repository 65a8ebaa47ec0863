/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Registrations of processes: who owns a QP? */
#include "client_int.h"

#include <errno.h>
#include <string.h>

#include "agent_log.h"

void md_clients_let_go(struct md_clients *clients, const struct md_qp *qp)
{
	struct md_client *next = md_clients_find(clients, qp->waiter);
	const struct md_qp_key key = qp->key;
	uint8_t type = qp->waiter_type;

	md_qps_unregister(&clients->qps, &key, qp->owner);
	if (next && !md_qps_register(&clients->qps, &key, type, next->number, next->account->id, &next->qps))
		clients->count.registrations++;
}

/*
 * May the kernel's answer end an existing registration? The registered QP may be gone, and its number reused by another
 * process: a process that ends gives back its QPs seconds before its connection to us if much memory is deregistered,
 * and an UNREGISTER_QP may be lost. But the answer cannot tell connections with the same PID apart. If the kernel does
 * not say which process has ended, one connection may have been passed on, and the PID reused. So between equal PIDs
 * the answer counts only for the same user.
 */
static bool can_be_stale(const struct md_client *asker, const struct md_qp *qp)
{
	const struct md_client *holder = md_clients_find(asker->clients, qp->owner);

	return holder && (!asker->pid || holder->pid != asker->pid || holder->uid == asker->uid || md_peer_has_ended(holder->process));
}

/*
 * Only the kernel's answer counts. Nothing counts for a process that has ended, whoever has its PID now.
 *
 * Return: 0; -EPERM: another process owns the QP; -ENOENT: no such QP; -ESRCH: the kernel names no process to compare;
 * -EOPNOTSUPP: the kernel cannot be asked.
 */
static int ask_kernel(const struct md_client *client, const char *device, uint32_t qpn)
{
	struct md_clients_questions *questions = &client->clients->questions;
	struct md_resqp *resqp = &questions->resqp;
	pid_t owner;

	if (questions->n_left)
		questions->n_left--;
	if (md_peer_has_ended(client->process))
		return -EPERM;
	owner = md_resqp_owner(resqp, device, qpn, md_client_now_ns());
	if (!owner)
		return -EOPNOTSUPP;
	if (owner < 0)
		return owner;
	if (!client->pid)
		return -ESRCH;
	return md_resqp_is_of(resqp, owner, client->pid) ? 0 : -EPERM;
}

/*
 * @held: the present registration, if of another connection
 *
 * Return: 0: the process may have the QP; -EBUSY: it is registered, and the owner is not known; another -errno:
 * refused.
 */
static int check_owner(struct md_client *client, const struct mv_frame *frame, const struct md_qp *held)
{
	struct md_clients *clients = client->clients;
	int err;

	if (held && !can_be_stale(client, held))
		return -EPERM;
	err = ask_kernel(client, frame->device, frame->qpn);
	if (err == -EOPNOTSUPP && clients->trusts)
		return held ? -EBUSY : 0;
	return err;
}

static const char *why_refused(int err)
{
	switch (err) {
	case -EPERM:
		return "it is another process's";
	case -ENOENT:
		return "there is no such queue pair";
	case -ESRCH:
		return "the kernel names no process that made it: of this PID namespace and alive";
	case -EOPNOTSUPP:
		return "the kernel does not say whose queue pairs there are on that device";
	}
	return md_strerror(err);
}

/* The process goes on without us. The log reports it once in a while. */
static void refuse(struct md_client *client, const struct md_qp_key *key, int err)
{
	struct mv_frame refused = {.type = MV_FRAME_REFUSED, .qpn = key->qpn};
	struct md_clients *clients = client->clients;
	uint64_t *log_again_ns = err == -EPERM ? &clients->log_limits.anothers_ns : &clients->log_limits.registration_ns;
	enum md_level level = MD_DEBUG;

	clients->count.registrations_refused++;
	if (md_client_now_ns() >= *log_again_ns) {
		*log_again_ns = md_client_now_ns() + MD_LOG_AGAIN_NS;
		level = MD_WARNING;
	}
	md_log(level, "user %u, process %d (%s) may not register QP %u of %s: %s", (unsigned int)client->uid,
	       (int)client->pid, client->name, key->qpn, key->device, why_refused(err));
	memcpy(refused.device, key->device, sizeof(refused.device));
	md_client_put(client, &refused);
}

void md_clients_doubt(struct md_clients *clients, const char *device, uint32_t qpn)
{
	const struct md_qp_key key = md_qp_key_make(device, qpn);
	struct md_qp *qp = md_qps_find(&clients->qps, &key);

	if (qp)
		qp->confirmed = false;
}

bool md_clients_confirm(struct md_clients *clients, struct md_qp *qp)
{
	struct md_client *client = md_clients_find(clients, qp->owner);
	const struct md_qp_key key = qp->key;
	int err;

	if (!client || qp->confirmed)
		return client;
	err = ask_kernel(client, key.device, key.qpn);
	if (!err || (err == -EOPNOTSUPP && clients->trusts)) {
		qp->confirmed = true;
		return true;
	}
	/* The answer may come later, e.g. after a reset of the card. */
	if (err == -EOPNOTSUPP)
		return false;
	md_clients_let_go(clients, qp);
	refuse(client, &key, err);
	return false;
}

bool md_clients_asks(const struct md_clients *clients, const char *device, uint32_t qpn, bool begins)
{
	const struct md_qp_key key = md_qp_key_make(device, qpn);
	const struct md_qp *qp = md_qps_find(&clients->qps, &key);

	return qp && clients->questions.resqp.fd >= 0 && (begins || !qp->confirmed);
}

static bool registration_asks(const struct md_client *client, const struct mv_frame *frame)
{
	const struct md_qp_key key = md_qp_key_make(frame->device, frame->qpn);
	const struct md_qp *qp = md_qps_find(&client->clients->qps, &key);

	return !qp || (qp->owner != client->number && can_be_stale(client, qp));
}

static bool end_asks(const struct md_clients *clients, const struct mv_ctl_end *end, bool begins)
{
	const char *devices[MD_RAILS_MAX];
	size_t n = clients->ops->devices(clients->arg, &end->gid, devices, MD_RAILS_MAX);

	for (size_t i = 0; i < n; i++)
		if (md_clients_asks(clients, devices[i], end->qpn, begins))
			return true;
	return false;
}

/* The receiver may be a process of this host. */
static bool send_asks(const struct md_client *client, const struct mv_frame *frame)
{
	struct mv_ctl_msg msg;

	return !mv_ctl_decode(frame->payload, frame->len, &msg) && (end_asks(client->clients, &msg.from, !msg.to_attempt) ||
								    end_asks(client->clients, &msg.to, !msg.to_attempt));
}

bool md_client_has_to_wait(const struct md_client *client, const struct mv_frame *frame)
{
	const struct md_clients_questions *questions = &client->clients->questions;

	if (!client->registered || questions->resqp.fd < 0 || questions->n_left)
		return false;
	return (frame->type == MV_FRAME_REGISTER_QP && registration_asks(client, frame)) || (frame->type == MV_FRAME_SEND && send_asks(client, frame));
}

void md_client_register_qp(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	struct md_qp_key key = md_qp_key_make(frame->device, frame->qpn);
	struct md_qp *qp = md_qps_find(&clients->qps, &key);
	struct md_qp *held = qp && qp->owner != client->number ? qp : NULL;
	int err = qp && !held ? 0 : check_owner(client, frame, held);

	if (err == -EBUSY) {
		if (!md_clients_find(clients, held->waiter)) {
			held->waiter = client->number;
			held->waiter_type = frame->qp_type;
		}
		clients->count.registrations_refused++;
		return;
	}
	if (!err && held) {
		md_log(MD_DEBUG, "QP %u of %s is process %d's (%s) now", frame->qpn, frame->device, (int)client->pid,
		       client->name);
		md_qps_unregister(&clients->qps, &key, held->owner);
	}
	if (!err)
		err = md_qps_register(&clients->qps, &key, frame->qp_type, client->number, client->account->id,
				   &client->qps);
	if (err) {
		refuse(client, &key, err);
		return;
	}
	clients->count.registrations++;
}

void md_client_unregister_qp(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	struct md_qp_key key = md_qp_key_make(frame->device, frame->qpn);
	struct md_qp *qp = md_qps_find(&clients->qps, &key);

	if (qp && qp->owner == client->number)
		md_clients_let_go(clients, qp);
	else if (qp && qp->waiter == client->number)
		qp->waiter = 0;
}
