/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages between processes of different hosts: from a process to the network, and from the network to a process. */
#include <errno.h>
#include <string.h>

#include <sodium.h>

#include "agent.h"
#include "paths.h"
#include "say.h"

/* @from: host of the sender. Return: number of QPs of this host to which the message was delivered. */
static unsigned int deliver(struct md_agent *agent, const struct mv_host_id *from, const struct mv_ctl_msg *msg,
			    const uint8_t *data, uint16_t len)
{
	const char *devices[MD_RAILS_MAX];
	size_t n = md_view_devices(agent->watch.view, &msg->to.gid, devices, MD_RAILS_MAX);
	unsigned int delivered = 0;

	/* A link-local address may be on several devices. A QP for which the message is not meant recognises that by its ends. */
	for (size_t i = 0; i < n; i++) {
		if (!msg->to_attempt)
			md_clients_doubt(&agent->clients, devices[i], msg->to.qpn);
		delivered +=
			md_clients_deliver(&agent->clients, from, devices[i], msg->to.qpn, data, len);
	}
	return delivered;
}

/* Does the message name a path? Its GID has to be one of the sender's host. */
static bool names_path(const struct mv_ctl_msg *msg)
{
	return !mv_gid_is_zero(&msg->path.gid);
}

/* ---- out ------------------------------------------------------------------------------------- */

static int on_send(void *arg, struct md_client *client, const union ibv_gid *dgid,
		   const struct mv_ctl_msg *msg, const uint8_t *data, uint16_t len)
{
	struct md_agent *agent = arg;
	int err;

	if (names_path(msg) && !md_view_has_gid(agent->watch.view, &msg->path.gid)) {
		agent->counts.messages.not_theirs++;
		return -EADDRNOTAVAIL;
	}
	if (md_view_has_gid(agent->watch.view, dgid)) {
		/* No process has claimed the QP yet. After the claim that process asks by itself. */
		if (!deliver(agent, &agent->hosts.self, msg, data, len))
			agent->counts.messages.unclaimed++;
		return 0;
	}
	if (!md_has_room(agent->post.carry.n, MD_PARCELS_MAX, client->account->id))
		return -ENOSPC;
	client->n_parcels++;
	client->account->n_parcels++;
	err = md_carry_send(&agent->post.carry, client->number, dgid, msg->to.qpn, data, len, md_now());
	if (err) {
		client->n_parcels--;
		client->account->n_parcels--;
	}
	return err == MD_CARRY_MERGED ? 0 : err;
}

static size_t on_devices(void *arg, const union ibv_gid *gid, const char **ret, size_t max)
{
	struct md_agent *agent = arg;

	return md_view_devices(agent->watch.view, gid, ret, max);
}

static void on_gone(void *arg, struct md_client *client)
{
	struct md_agent *agent = arg;

	md_carry_orphan(&agent->post.carry, client->number);
	md_probes_drop(&agent->prober.probes, &client->watches);
}

/*
 * A process may watch a path from an address of this host to an address of a host with an agent; other hosts get no
 * probes. For a path that the process watches already, the mask may change although one of the addresses is gone,
 * because the process would not ask again later.
 */
static int on_watch(void *arg, struct md_client *client, const union ibv_gid *local, const union ibv_gid *remote,
		    uint8_t watch)
{
	const struct md_probe_key path = {.local = *local, .remote = *remote};
	struct md_agent *agent = arg;

	if (watch && !md_probes_watches(&agent->prober.probes, &path, client->number) &&
	    (!md_view_has_gid(agent->watch.view, local) || !md_gidmap_find(&agent->gidmap, remote)))
		return -EADDRNOTAVAIL;
	return md_probes_watch(&agent->prober.probes, &path, watch, client->number, client->account->id,
			       &client->watches, md_now());
}

static bool probes(void *arg)
{
	struct md_agent *agent = arg;

	return agent->prober.probes.interval_ns;
}

static size_t find_endpoints(void *arg, const union ibv_gid *dgid, struct md_endpoint *ret,
			     size_t max)
{
	struct md_agent *agent = arg;
	const struct md_holder *holder = md_gidmap_find(&agent->gidmap, dgid);

	for (unsigned int h = 0; holder && h < holder->n; h++) {
		struct md_host *host = md_hosts_find(&agent->hosts, &holder->hosts[h]);

		if (host)
			host->wanted_ns = md_now();
	}
	return md_paths_find(agent->watch.view, &agent->hosts, &agent->gidmap, &agent->targets,
			     &agent->prober.probes, dgid, ret, max);
}

static bool is_at(void *arg, const struct mv_host_id *host, const union ibv_gid *gid)
{
	struct md_agent *agent = arg;

	return md_gidmap_holds(&agent->gidmap, host, gid);
}

static bool is_from(void *arg, const union ibv_gid *gid, const struct md_endpoint *from)
{
	struct md_agent *agent = arg;
	const struct md_holder *holder = md_gidmap_find(&agent->gidmap, gid);

	for (unsigned int h = 0; holder && h < holder->n; h++) {
		const struct md_host *host = md_hosts_find(&agent->hosts, &holder->hosts[h]);

		if (host && md_paths_is_of(host, from))
			return true;
	}
	return false;
}

static bool ask_for(struct md_agent *agent, const union ibv_gid *dgid, uint64_t account)
{
	uint64_t now_ns = md_now();
	struct md_target *target = md_targets_use(&agent->targets, dgid, account, now_ns);

	if (!target || md_target_silent(target, now_ns))
		return false;
	md_targets_ask_now(&agent->targets, target, now_ns, md_talk_ask, agent);
	if (target->next_ns < agent->due.targets_ns)
		agent->due.targets_ns = target->next_ns;
	return true;
}

/*
 * A process asks which host has a GID. Without a holder, GIDs in our subnets are not queried: beacons tell of hosts on
 * our links, and a query would make the kernel resolve a neighbour. A holder in doubt is queried anywhere, because the
 * beacons of the true owner may not get through.
 */
static bool on_look(void *arg, const struct md_client *client, const union ibv_gid *dgid)
{
	enum mv_gid_family family = mv_gid_family(dgid);
	const struct md_netset none = {0};
	struct md_agent *agent = arg;
	const struct md_holder *holder = md_gidmap_find(&agent->gidmap, dgid);
	struct md_netset near;

	if ((family != MV_FAMILY_IPV4 && family != MV_FAMILY_IPV6) || md_view_has_gid(agent->watch.view, dgid))
		return false;
	if (holder)
		return holder->doubts && ask_for(agent, dgid, client->account->id);
	near = md_view_on_link(agent->watch.view, dgid);
	return !memcmp(&near, &none, sizeof(near)) && ask_for(agent, dgid, client->account->id);
}

static const struct md_client_ops client_ops = {on_send, on_devices, on_gone, on_watch, probes, on_look};

/* A query for a process that has ended is charged to the account of other hosts. */
static bool ask(void *arg, const union ibv_gid *dgid, uint64_t number)
{
	struct md_agent *agent = arg;
	const struct md_client *client = md_clients_find(&agent->clients, number);

	return ask_for(agent, dgid, client ? client->account->id : MD_TARGETS_OF_OTHERS);
}

static void send_parcel(void *arg, const struct md_endpoint *to, const struct md_parcel_wire *parcel)
{
	struct md_agent *agent = arg;
	const struct md_bundle_to place = {.host = to->host,
					   .ip = to->ip,
					   .from = to->from,
					   .port = agent->udp.port,
					   .ifindex = to->ifindex,
					   .op = MD_PARCEL_CARRY};
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];

	if (to->bundles)
		md_bundles_add(&agent->post.bundles, &place, parcel, 0);
	else
		md_talk_send_for(agent, &to->host, MD_KIND_MESSAGE, &to->ip, agent->udp.port, to->ifindex,
				 IN6_IS_ADDR_UNSPECIFIED(&to->from) ? NULL : &to->from, payload, md_parcel_encode(parcel, payload));
}

static void send_bundle(void *arg, const struct md_bundle_to *to, const uint8_t *payload, size_t len)
{
	struct md_agent *agent = arg;

	agent->counts.bundles.sent++;
	md_talk_send_for(agent, &to->host, MD_KIND_BUNDLE, &to->ip, to->port, to->ifindex,
			 IN6_IS_ADDR_UNSPECIFIED(&to->from) ? NULL : &to->from, payload, len);
}

void md_post_flush(struct md_agent *agent)
{
	md_bundles_flush(&agent->post.bundles, md_now());
	md_clients_flush(&agent->clients);
}

static void unreachable(void *arg, const struct md_parcel *parcel)
{
	struct md_agent *agent = arg;
	struct md_client *client = md_clients_find(&agent->clients, parcel->client);

	if (client)
		md_client_unreachable(client, &parcel->dgid, parcel->qpn, parcel->data, parcel->len);
}

static void done(void *arg, const struct md_parcel *parcel)
{
	struct md_agent *agent = arg;
	struct md_client *client = md_clients_find(&agent->clients, parcel->client);

	if (!client)
		return;
	client->n_parcels--;
	client->account->n_parcels--;
}

static const struct md_carry_ops carry_ops = {find_endpoints, is_at, is_from, ask,
					      send_parcel,    unreachable, done};

void md_post_init(struct md_agent *agent)
{
	uint64_t first_id;

	/* A quarter of the range at most, so that numbers never wrap around; not 0. */
	randombytes_buf(&first_id, sizeof(first_id));
	md_carry_init(&agent->post.carry, &carry_ops, agent, (first_id >> 2) + 1);
	agent->post.bundles.send = send_bundle;
	agent->post.bundles.arg = agent;
	agent->clients.ops = &client_ops;
	agent->clients.arg = agent;
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Answers go to the source of a datagram, from the address to which it was sent. */
static struct md_bundle_to back_to(const struct md_received *received, const struct md_opened *opened)
{
	return (struct md_bundle_to){.host = opened->sender,
				     .ip = received->ip,
				     .from = received->to,
				     .port = received->port,
				     .ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0,
				     .op = MD_PARCEL_RECEIPT,
				     .start = opened->start};
}

static void send_receipt(struct md_agent *agent, const struct md_received *received,
			 const struct md_opened *opened, uint64_t id, uint64_t now_ns)
{
	const struct md_parcel_wire wire = {
		.op = MD_PARCEL_RECEIPT, .id = id, .start = opened->start};
	const struct md_bundle_to to = back_to(received, opened);
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];

	/* A host that sends bundles takes bundles. */
	if (opened->kind == MD_KIND_BUNDLE)
		md_bundles_add(&agent->post.bundles, &to, &wire, now_ns);
	else
		md_talk_send_for(agent, &to.host, MD_KIND_MESSAGE, &to.ip, to.port, to.ifindex, &to.from, payload,
				 md_parcel_encode(&wire, payload));
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
	       (!names_path(msg) || md_gidmap_holds(&agent->gidmap, &host->id, &msg->path.gid)) &&
	       (opened->sealed || md_paths_is_of(host, &from));
}

/* A query to the source of the message concerns no other host. The agent there repeats the message later. */
static void ask_who_is_there(struct md_agent *agent, const struct md_received *received)
{
	const union ibv_gid gid = md_paths_gid(&received->ip);

	if (!IN6_IS_ADDR_LINKLOCAL(&received->ip))
		ask_for(agent, &gid, MD_TARGETS_OF_OTHERS);
}

/* One line each MD_SAY_AGAIN_NS. Nothing about a GID without holder: that may be a first contact. */
static void complain(struct md_agent *agent, const struct md_received *received, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	const union ibv_gid at = md_paths_gid(&received->ip);
	char where[MV_GID_STRLEN], who[MV_GID_STRLEN], path[MV_GID_STRLEN];

	if (!md_gidmap_find(&agent->gidmap, &msg->from.gid) || now_ns < agent->post.say_theirs_ns)
		return;
	agent->post.say_theirs_ns = now_ns + MD_SAY_AGAIN_NS;
	md_say(MD_WARNING, "dropped a message from %s in the name of %s, path %s: the host there does not have these GIDs",
	       mv_gid_format(&at, where), mv_gid_format(&msg->from.gid, who),
	       names_path(msg) ? mv_gid_format(&msg->path.gid, path) : "none");
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
	struct md_message_limits *limits = &agent->post.limits;

	if (!n || md_secure_has_key(agent->secure) ||
	    (host && md_host_is_wanted(host, now_ns) &&
	     md_limit_take_some(&limits->questions.wanted, &questions_wanted_rate, n, now_ns)) ||
	    (md_limit_take_some(&limits->questions.of[md_share_of(received)], &questions_rate, n, now_ns) &&
	     md_limit_take_some(&limits->questions.all, &questions_together_rate, n, now_ns)))
		return true;
	agent->counts.messages.throttled++;
	return false;
}

static void on_carry(struct md_agent *agent, const struct md_received *received,
		     const struct md_opened *opened, const struct md_parcel_wire *parcel, uint64_t now_ns)
{
	struct mv_ctl_msg msg;

	if (mv_ctl_decode(parcel->data, parcel->len, &msg)) {
		agent->counts.payloads.malformed++;
		return;
	}
	/* No receipt: the sender's directory is wrong, and the sending process has to learn that. */
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
	/* Before the message counts as arrived, and no QP is in doubt for a message that is dropped. */
	if (!may_ask(agent, received, opened, questions_of(agent, &msg), now_ns))
		return;
	if (md_carry_first(&agent->post.carry, &opened->sender, opened->start, parcel, now_ns) &&
	    !deliver(agent, &opened->sender, &msg, parcel->data, parcel->len))
		agent->counts.messages.unclaimed++;
	send_receipt(agent, received, opened, parcel->id, now_ns);
}

static void on_parcel(struct md_agent *agent, const struct md_received *received,
		      const struct md_opened *opened, const struct md_parcel_wire *parcel, uint64_t now_ns)
{
	const struct md_endpoint from = {
		.ip = received->ip,
		.ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0};

	if (parcel->op == MD_PARCEL_CARRY)
		on_carry(agent, received, opened, parcel, now_ns);
	else if (parcel->start == agent->self.start)
		md_carry_receipt(&agent->post.carry, parcel->id, &from, now_ns);
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
		       enum md_parcel_op op)
{
	const struct md_bundle_to to = back_to(received, opened);
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	struct md_bundle_writer w;

	md_bundle_begin(&w, payload, op, op == MD_PARCEL_RECEIPT ? to.start : 0);
	send_bundle(agent, &to, payload, md_bundle_end(&w, 0));
}

void md_post_ask(struct md_agent *agent, const struct md_endpoint *to)
{
	const struct md_bundle_to place = {
		.host = to->host, .ip = to->ip, .port = agent->udp.port, .ifindex = to->ifindex, .op = MD_PARCEL_CARRY};
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	struct md_bundle_writer w;

	md_bundle_begin(&w, payload, MD_PARCEL_CARRY, 0);
	send_bundle(agent, &place, payload, md_bundle_end(&w, 0));
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
	send_empty(agent, received, opened, MD_PARCEL_CARRY);
}

static const struct md_rate messages_rate = {.per_second = MD_MESSAGES_RATE, .burst = MD_MESSAGES_BURST};
static const struct md_rate unknown_rate = {.per_second = MD_MESSAGES_RATE / 16, .burst = MD_MESSAGES_BURST / 16};
static const struct md_rate all_rate = {.per_second = MD_MESSAGES_ALL_RATE, .burst = MD_MESSAGES_ALL_BURST};
static const struct md_rate together_rate = {.per_second = MD_LINKS_TOGETHER * MD_MESSAGES_ALL_RATE,
					     .burst = MD_LINKS_TOGETHER * MD_MESSAGES_ALL_BURST};

/* May hosts of the kind of @host (NULL: unknown host) send @n messages now? */
static bool may_all_send(struct md_message_limits *limits, unsigned int share, bool is_sealed,
			 const struct md_host *host, uint32_t n, uint64_t now_ns)
{
	if (host && md_host_is_wanted(host, now_ns))
		return md_limit_take_some(&limits->wanted, &all_rate, n, now_ns);
	return md_limit_take_some(&limits->of[is_sealed][share], &all_rate, n, now_ns) &&
	       md_limit_take_some(&limits->all[is_sealed], &together_rate, n, now_ns);
}

/* May @host (NULL: unknown host) send @n messages now? A dropped message has no receipt, so its sender repeats it. */
static bool may_send(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened, struct md_host *host,
		     uint32_t n, uint64_t now_ns)
{
	struct md_message_limits *limits = &agent->post.limits;
	unsigned int share = md_share_of(received);
	struct md_limit *own = host ? &host->messages : &limits->unknown[share];

	if (md_secure_has_key(agent->secure) ||
	    (md_limit_take_some(own, host ? &messages_rate : &unknown_rate, n, now_ns) &&
	     may_all_send(limits, share, opened->sealed, host, n, now_ns)))
		return true;
	agent->counts.messages.throttled += n;
	return false;
}

void md_post_message(struct md_agent *agent, const struct md_received *received,
		     const struct md_opened *opened)
{
	struct md_host *host = host_at(agent, received, opened);
	struct md_parcel_wire parcel;
	uint64_t now_ns = md_now();
	int err = md_parcel_decode(opened->payload, opened->payload_len, &parcel);

	if (err) {
		count_bad(agent, err);
		return;
	}
	if (parcel.op == MD_PARCEL_CARRY && !may_send(agent, received, opened, host, 1, now_ns))
		return;
	on_parcel(agent, received, opened, &parcel, now_ns);
	ask_for_bundles(agent, received, opened);
}

void md_post_bundle(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened)
{
	struct md_host *host = host_at(agent, received, opened);
	struct md_bundle_wire bundle;
	struct md_parcel_wire parcel;
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
	if (!bundle.n && bundle.op == MD_PARCEL_CARRY)
		send_empty(agent, received, opened, MD_PARCEL_RECEIPT);
	if (bundle.op == MD_PARCEL_CARRY && bundle.n && !may_send(agent, received, opened, host, bundle.n, now_ns))
		return;
	for (unsigned int i = 0; i < bundle.n; i++) {
		md_bundle_next(&bundle, &parcel);
		on_parcel(agent, received, opened, &parcel, now_ns);
	}
}
