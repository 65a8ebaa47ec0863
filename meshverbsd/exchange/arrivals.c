/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages between processes of different hosts, from the network to a process: bundles, single messages, and acks. */
#include <errno.h>
#include <string.h>

#include "agent.h"
#include "agent_log.h"
#include "paths.h"

/* Answers go to the source of a datagram, from the address to which it was sent. */
static struct md_bundle_to back_to(const struct md_received *received, const struct md_opened *opened)
{
	return (struct md_bundle_to){.host = opened->sender,
				     .ip = received->ip,
				     .from = received->to,
				     .port = received->port,
				     .ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0,
				     .op = MD_MSG_ACK,
				     .start = opened->start};
}

static void send_ack(struct md_agent *agent, const struct md_received *received,
		     const struct md_opened *opened, uint64_t id, uint64_t now_ns)
{
	const struct md_envelope wire = {
		.op = MD_MSG_ACK, .id = id, .start = opened->start};
	const struct md_bundle_to to = back_to(received, opened);
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];

	/* A host that sends bundles takes bundles. */
	if (opened->kind == MD_KIND_BUNDLE)
		md_bundles_add(&agent->msg_router.bundles, &to, &wire, now_ns);
	else
		md_tx_send_for(agent, &to.host, MD_KIND_MESSAGE, &to.ip, to.port, to.ifindex, &to.from, payload,
			       md_envelope_encode(&wire, payload));
}

/*
 * Does the sender's host hold the GID that the message is from, and the GID of the path that the message names? A
 * message that is not sealed proves its source address only, which has to be an address of that host.
 */
static bool is_theirs(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened,
		      const struct mv_ctl_msg *msg)
{
	const struct md_host *host = md_hosts_find(&agent->hosts, &opened->sender);
	const struct md_endpoint from = {
		.ip = received->ip,
		.ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0};

	return host && md_gidmap_holds(&agent->gidmap, &host->id, &msg->from.gid) &&
	       (!md_msg_router_names_path(msg) || md_gidmap_holds(&agent->gidmap, &host->id, &msg->path.gid)) &&
	       (opened->sealed || md_paths_is_of(host, &from));
}

/* A query to the source of the message concerns no other host. The agent there repeats the message later. */
static void ask_who_is_there(struct md_agent *agent, const struct md_received *received)
{
	const union ibv_gid gid = md_paths_gid(&received->ip);

	if (!IN6_IS_ADDR_LINKLOCAL(&received->ip))
		md_msg_router_ask_for(agent, &gid, MD_TARGETS_OF_OTHERS);
}

/* One line each MD_LOG_AGAIN_NS. Nothing about a GID without holder: that may be a first contact. */
static void complain(struct md_agent *agent, const struct md_received *received, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	const union ibv_gid at = md_paths_gid(&received->ip);
	char where[MV_GID_STRLEN], who[MV_GID_STRLEN], path[MV_GID_STRLEN];

	if (!md_gidmap_find(&agent->gidmap, &msg->from.gid) || now_ns < agent->msg_router.log_theirs_ns)
		return;
	agent->msg_router.log_theirs_ns = now_ns + MD_LOG_AGAIN_NS;
	md_log(MD_WARNING, "dropped a message from %s in the name of %s, path %s: the host there does not have these GIDs",
	       mv_gid_format(&at, where), mv_gid_format(&msg->from.gid, who),
	       md_msg_router_names_path(msg) ? mv_gid_format(&msg->path.gid, path) : "none");
}

static const struct md_rate questions_rate = {.per_second = MD_QUESTIONS_RATE, .burst = MD_QUESTIONS_BURST};
static const struct md_rate questions_wanted_rate = {.per_second = MD_QUESTIONS_WANTED_RATE, .burst = MD_QUESTIONS_WANTED_BURST};
static const struct md_rate questions_together_rate = {.per_second = MD_LINKS_TOGETHER * MD_QUESTIONS_RATE,
						       .burst = MD_LINKS_TOGETHER * MD_QUESTIONS_BURST};

/* How many times will the kernel be asked before the message is delivered? */
static uint32_t questions_of(const struct md_agent *agent, const struct mv_ctl_msg *msg)
{
	const char *devices[MD_RAILS_MAX];
	size_t n = md_view_devices(agent->watch.view, &msg->to.gid, devices, MD_RAILS_MAX);
	uint32_t n_questions = 0;

	for (size_t i = 0; i < n; i++)
		n_questions += md_clients_asks(&agent->clients, devices[i], msg->to.qpn, !msg->to_attempt);
	return n_questions;
}

/* May so many questions be asked now for a message of another host? A wanted host has the share of its link, too. */
static bool may_ask(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened, uint32_t n,
		    uint64_t now_ns)
{
	const struct md_host *host = md_hosts_find(&agent->hosts, &opened->sender);
	struct md_message_limits *limits = &agent->msg_router.limits;

	if (md_secure_has_key(agent->secure) ||
	    (host && md_host_take(host, &limits->questions.wanted, &questions_wanted_rate, n, now_ns)) ||
	    (md_limit_take_some(&limits->questions.of[md_share_of(received)], &questions_rate, n, now_ns) &&
	     md_limit_take_some(&limits->questions.all, &questions_together_rate, n, now_ns)))
		return true;
	agent->counts.messages.throttled++;
	return false;
}

static void on_data(struct md_agent *agent, const struct md_received *received,
		    const struct md_opened *opened, const struct md_envelope *envelope, uint64_t now_ns)
{
	struct mv_ctl_msg msg;
	uint32_t n_questions;

	if (mv_ctl_decode(envelope->data, envelope->len, &msg)) {
		agent->counts.payloads.malformed++;
		return;
	}
	/* No ack: the sender's directory is wrong, and the sending process has to learn that. */
	if (!md_view_has_gid(agent->watch.view, &msg.to.gid)) {
		agent->counts.messages.not_ours++;
		return;
	}
	if (!is_theirs(agent, received, opened, &msg)) {
		agent->counts.messages.not_theirs++;
		complain(agent, received, &msg, now_ns);
		ask_who_is_there(agent, received);
		return;
	}
	/*
	 * A message that is dropped puts no QP in doubt, and does not count as arrived. A copy of a message that has arrived
	 * asks nothing, and has its ack.
	 */
	n_questions = questions_of(agent, &msg);
	if (n_questions && !md_msg_relay_is_copy(&agent->msg_router.relay, &opened->sender, opened->start, envelope) &&
	    !may_ask(agent, received, opened, n_questions, now_ns))
		return;
	if (md_msg_relay_first(&agent->msg_router.relay, &opened->sender, opened->start, envelope, now_ns) &&
	    !md_msg_router_deliver(agent, &opened->sender, &msg, envelope->data, envelope->len))
		agent->counts.messages.unregistered++;
	send_ack(agent, received, opened, envelope->id, now_ns);
}

static void on_envelope(struct md_agent *agent, const struct md_received *received,
			const struct md_opened *opened, const struct md_envelope *envelope, uint64_t now_ns)
{
	const struct md_endpoint from = {
		.ip = received->ip,
		.ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0,
		.host = opened->sender};

	if (envelope->op == MD_MSG_DATA)
		on_data(agent, received, opened, envelope, now_ns);
	else if (envelope->start == agent->self.start)
		md_msg_relay_acked(&agent->msg_router.relay, envelope->id, &from, now_ns);
}

static void count_bad(struct md_agent *agent, int err)
{
	if (err == -EPROTONOSUPPORT)
		agent->counts.payloads.version++;
	else
		agent->counts.payloads.malformed++;
}

/* ---- does the host take bundles? --------------------------------------------------------------- */

/* Return: the host that a datagram names as sender, if the datagram comes from an address of that host; else NULL. */
static struct md_host *host_at(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened)
{
	struct md_host *host = md_hosts_find(&agent->hosts, &opened->sender);
	const struct md_endpoint from = {
		.ip = received->ip,
		.ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0};

	return host && host->start == opened->start && md_paths_is_of(host, &from) ? host : NULL;
}

static void send_empty(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened,
		       enum md_msg_op op)
{
	const struct md_bundle_to to = back_to(received, opened);
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	struct md_bundle_writer w;

	md_bundle_begin(&w, payload, op, op == MD_MSG_ACK ? to.start : 0);
	md_msg_router_send_bundle(agent, &to, payload, md_bundle_end(&w, 0));
}

void md_msg_router_ask(struct md_agent *agent, const struct md_endpoint *to)
{
	const struct md_bundle_to place = {
		.host = to->host, .ip = to->ip, .port = agent->udp.port, .ifindex = to->ifindex, .op = MD_MSG_DATA};
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	struct md_bundle_writer w;

	md_bundle_begin(&w, payload, MD_MSG_DATA, 0);
	md_msg_router_send_bundle(agent, &place, payload, md_bundle_end(&w, 0));
}

/* Old agents drop the question. So it is asked seldom, and before there is anything to send in bundles. */
static void ask_for_bundles(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened)
{
	struct md_host *host = host_at(agent, received, opened);
	uint64_t now_ns = md_now();

	if (!host || md_host_takes_bundles(host) || now_ns < host->bundles.ask_ns)
		return;
	host->bundles.ask_ns = now_ns + (MD_BUNDLES_ASK_NS << host->bundles.n_asked);
	if (host->bundles.n_asked < MD_BUNDLES_ASK_MAX)
		host->bundles.n_asked++;
	send_empty(agent, received, opened, MD_MSG_DATA);
}

static const struct md_rate messages_rate = {.per_second = MD_MESSAGES_RATE, .burst = MD_MESSAGES_BURST};
static const struct md_rate unknown_rate = {.per_second = MD_MESSAGES_RATE / 16, .burst = MD_MESSAGES_BURST / 16};
static const struct md_rate all_rate = {.per_second = MD_MESSAGES_ALL_RATE, .burst = MD_MESSAGES_ALL_BURST};
static const struct md_rate together_rate = {.per_second = MD_LINKS_TOGETHER * MD_MESSAGES_ALL_RATE,
					     .burst = MD_LINKS_TOGETHER * MD_MESSAGES_ALL_BURST};

/* May hosts of the kind of @host (NULL: unknown host) send @n messages now? A wanted host has the share of its link, too. */
static bool may_all_send(struct md_message_limits *limits, unsigned int share, bool is_sealed,
			 const struct md_host *host, uint32_t n, uint64_t now_ns)
{
	if (host && md_host_take(host, &limits->wanted, &all_rate, n, now_ns))
		return true;
	return md_limit_take_some(&limits->of[is_sealed][share], &all_rate, n, now_ns) &&
	       md_limit_take_some(&limits->all[is_sealed], &together_rate, n, now_ns);
}

/* May @host (NULL: unknown host) send @n messages now? A dropped message has no ack, so its sender repeats it. */
static bool may_send(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened, struct md_host *host,
		     uint32_t n, uint64_t now_ns)
{
	struct md_message_limits *limits = &agent->msg_router.limits;
	unsigned int share = md_share_of(received);
	struct md_limit *own = host ? &host->messages : &limits->unknown[share];

	if (md_secure_has_key(agent->secure) ||
	    (md_limit_take_some(own, host ? &messages_rate : &unknown_rate, n, now_ns) &&
	     may_all_send(limits, share, opened->sealed, host, n, now_ns)))
		return true;
	agent->counts.messages.throttled += n;
	return false;
}

void md_msg_router_message(struct md_agent *agent, const struct md_received *received,
			   const struct md_opened *opened)
{
	struct md_host *host = host_at(agent, received, opened);
	struct md_envelope envelope;
	uint64_t now_ns = md_now();
	int err = md_envelope_decode(opened->payload, opened->payload_len, &envelope);

	if (err) {
		count_bad(agent, err);
		return;
	}
	if (envelope.op == MD_MSG_DATA && !may_send(agent, received, opened, host, 1, now_ns))
		return;
	on_envelope(agent, received, opened, &envelope, now_ns);
	ask_for_bundles(agent, received, opened);
}

void md_msg_router_bundle(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened)
{
	struct md_host *host = host_at(agent, received, opened);
	struct md_bundle_wire bundle;
	struct md_envelope envelope;
	uint64_t now_ns = md_now();
	int err = md_bundle_decode(opened->payload, opened->payload_len, &bundle);

	if (err) {
		count_bad(agent, err);
		return;
	}
	agent->counts.bundles.received++;
	if (host) {
		host->bundles.start = opened->start;
		host->bundles.n_asked = 0;
	}
	if (!bundle.n && bundle.op == MD_MSG_DATA)
		send_empty(agent, received, opened, MD_MSG_ACK);
	if (bundle.op == MD_MSG_DATA && bundle.n && !may_send(agent, received, opened, host, bundle.n, now_ns))
		return;
	for (unsigned int i = 0; i < bundle.n; i++) {
		md_bundle_next(&bundle, &envelope);
		on_envelope(agent, received, opened, &envelope, now_ns);
	}
}
