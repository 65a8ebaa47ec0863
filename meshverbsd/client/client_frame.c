/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Handles frames of processes. */
#include "client_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent_log.h"
#include "control.h"

static int on_register(struct md_client *client, const struct mv_frame *frame)
{
	const struct mv_frame welcome = {.type = MV_FRAME_WELCOME, .version = MV_CTL_VERSION};
	const struct md_client_ops *ops = client->clients->ops;
	size_t len = frame->len < sizeof(client->name) ? frame->len : sizeof(client->name) - 1;

	memset(client->name, 0, sizeof(client->name));
	memcpy(client->name, frame->payload, len);
	/* The codec allows UTF-8; tables and logs are ASCII. */
	for (size_t i = 0; i < len; i++)
		if (client->name[i] < ' ' || client->name[i] > '~')
			client->name[i] = '?';
	if (frame->version != MV_CTL_VERSION) {
		md_client_put(client, &welcome);
		return -EPROTONOSUPPORT;
	}
	client->registered = true;
	md_client_welcome(client, ops->probes && ops->probes(client->clients->arg));
	return 0;
}

/* Without memory the process gets frames one by one. */
static void on_packs(struct md_client *client)
{
	if (!client->out.bytes)
		client->out.bytes = malloc(MV_PACK_MAX_BYTES);
	client->out.packs = client->out.bytes;
}

/* Is the message from a QP of this process? @begins: the message has no nonce of its receiver */
static bool is_its_own(const struct md_client *client, const struct mv_ctl_end *from, bool begins)
{
	struct md_clients *clients = client->clients;
	const char *devices[MD_RAILS_MAX];
	size_t n = clients->ops->devices(clients->arg, &from->gid, devices, MD_RAILS_MAX);

	for (size_t i = 0; i < n; i++) {
		struct md_qp_key key = md_qp_key_make(devices[i], from->qpn);
		struct md_qp *qp = md_qps_find(&clients->qps, &key);

		if (!qp || qp->owner != client->number)
			continue;
		if (begins)
			qp->confirmed = false;
		if (md_clients_confirm(clients, qp))
			return true;
	}
	return false;
}

static void on_send(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	struct mv_ctl_msg msg;
	int err;

	clients->count.sends++;
	if (mv_ctl_decode(frame->payload, frame->len, &msg)) {
		clients->count.malformed++;
		return;
	}
	if (!is_its_own(client, &msg.from, !msg.to_attempt)) {
		clients->count.not_its_own++;
		return;
	}
	err = client->n_msgs < MD_MSGS_PER_CLIENT &&
			      (!client->account->id || client->account->n_msgs < MD_MSGS_PER_ACCOUNT)
		      ? clients->ops->send(clients->arg, client, &frame->dgid, &msg, frame->payload,
					   frame->len)
		      : -ENOSPC;
	if (err)
		md_log(MD_DEBUG, "a message of process %d (%s) is lost: %s", (int)client->pid,
		       client->name, md_strerror(err));
}

static void on_status(struct md_client *client, const struct mv_frame *frame)
{
	struct md_qp_key key = md_qp_key_make(frame->device, frame->qpn);
	char *text = md_control_object((const char *)frame->payload, frame->len);

	if (!text) {
		client->clients->count.malformed++;
		return;
	}
	if (md_qps_status(&client->clients->qps, &key, client->number, text))
		free(text);
}

/* A refused path gets no state, as if it never answered. */
static void on_watch(struct md_client *client, const struct mv_frame *frame)
{
	struct md_clients *clients = client->clients;
	int err = clients->ops->watch(clients->arg, client, &frame->sgid, &frame->dgid, frame->watch);

	if (!err)
		return;
	clients->count.watches_refused++;
	if (err == -EDQUOT && md_client_now_ns() >= clients->log_limits.limit_ns) {
		clients->log_limits.limit_ns = md_client_now_ns() + MD_LOG_AGAIN_NS;
		md_log(MD_WARNING,
		       "user %u%s may have no further path watched, for process %d (%s): all processes of a user may watch %u paths, and "
		       "hold %u watches",
		       (unsigned int)client->uid, client->account->id > UINT32_MAX ? " in a container" : "", (int)client->pid,
		       client->name, (unsigned int)MD_PATHS_PER_ACCOUNT, (unsigned int)MD_WATCHES_PER_ACCOUNT);
	}
	md_log(MD_DEBUG, "a path of process %d (%s) is not watched: %s", (int)client->pid, client->name,
	       md_strerror(err));
}

static void on_look(struct md_client *client, const struct mv_frame *frame)
{
	const struct mv_frame looked = {.type = MV_FRAME_LOOKED, .dgid = frame->dgid};
	const struct md_client_ops *ops = client->clients->ops;

	if (!ops->look || !ops->look(client->clients->arg, client, &frame->dgid))
		md_client_put(client, &looked);
}

int md_client_frame(struct md_client *client, const struct mv_frame *frame)
{
	client->clients->count.frames++;
	if (frame->type == MV_FRAME_REGISTER)
		return on_register(client, frame);
	if (!client->registered)
		return -EPROTO;
	switch (frame->type) {
	case MV_FRAME_REGISTER_QP:
		md_client_register_qp(client, frame);
		return 0;
	case MV_FRAME_UNREGISTER_QP:
		md_client_unregister_qp(client, frame);
		return 0;
	case MV_FRAME_SEND:
		on_send(client, frame);
		return 0;
	case MV_FRAME_STATUS:
		on_status(client, frame);
		return 0;
	case MV_FRAME_WATCH:
		on_watch(client, frame);
		return 0;
	case MV_FRAME_SENDERS:
		client->out.senders = true;
		return 0;
	case MV_FRAME_PACKS:
		on_packs(client);
		return 0;
	case MV_FRAME_LOOK:
		on_look(client, frame);
		return 0;
	}
	return -EPROTO;
}
