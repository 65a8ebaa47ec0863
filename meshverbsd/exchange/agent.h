/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_AGENT_H
#define MD_AGENT_H

#include <systemd/sd-event.h>

#include "announce.h"
#include "async_job.h"
#include "bundles.h"
#include "client.h"
#include "control.h"
#include "dir_publish.h"
#include "drained.h"
#include "expiry.h"
#include "gidmap.h"
#include "hosts.h"
#include "members.h"
#include "msg_relay.h"
#include "probes.h"
#include "qualify.h"
#include "routes.h"
#include "rundir.h"
#include "secure.h"
#include "targets.h"
#include "trust.h"
#include "udp.h"
#include "watch.h"

struct json_object;

/* Options of the command line. */
struct md_options {
	const char *run_dir, *control_dir, *sysfs;
	const char *state_dir; /* holds the identity; NULL: this host has none */
	const char *tool; /* path of the program `meshverbs` */
	const char *config_file;
	const char *conf_dir; /* the unit passes a copy of this folder: LoadCredential= */
	struct mv_config config; /* --port included */
	bool trusts; /* see struct md_clients */
};

/* Shares of rate limits, as in secure.h: index 0 for what routers have forwarded, one for each link. */
#define MD_SHARES (1 + MD_LINK_SHARES)

/** md_share_of - the share that limits a datagram: below MD_SHARES */
static inline unsigned int md_share_of(const struct md_received *received)
{
	return received->hop_limit == 255 ? 1 + received->ifindex % MD_LINK_SHARES : 0;
}

/* Counters. Counters of a part, e.g. md_probes, are in its struct. */
struct md_counts {
	struct {
		uint64_t sent, received, rejected;
		uint64_t unchanged; /* the part of @received that changed nothing */
	} beacons;
	struct {
		uint64_t sent, received, refused;
	} queries;
	struct {
		uint64_t sent, received, rejected;
	} entries;
	struct {
		uint64_t sent, failed, held, received;
	} datagrams;
	uint64_t verdicts[MD_OPEN_N_VERDICTS];
	struct {
		uint64_t malformed, version;
	} payloads;
	struct {
		uint64_t not_ours, unregistered, not_theirs, throttled;
	} messages;
	struct {
		uint64_t sent, received;
	} bundles;
	struct {
		uint64_t received, astray, refused;
	} probes;
	struct {
		uint64_t sent, held;
	} echoes;
	uint64_t published, publish_failed;
};

/* Who this agent is. Constant once md_agent_start() has returned. */
struct md_self {
	struct mv_host_id id;
	char name[64];
	uint64_t start, begun_ns;
};

/* A beacon and a statement to be sent to a single address. */
struct md_greeting {
	uint64_t due_ns;
	struct in6_addr ip;
	uint32_t ifindex;
	size_t room; /* the greeting is no longer than the newcomer's beacon; both with headers */
};

/*
 * Newcomers waiting for a greeting on links with many hosts. Further ones hear the next beacon. Links with fewer
 * newcomers have theirs in any case.
 */
#define MD_GREETINGS_MAX 256

struct md_greetings {
	size_t n;
	struct md_greeting list[MD_GREETINGS_MAX];
};

/* Kinds of datagrams to addresses that have shown no cookie. */
enum md_unproven {
	MD_UNPROVEN_GREETING,
	MD_UNPROVEN_QUERY, /* question for a description */
	MD_UNPROVEN_KEY, /* question to a host for its key */
	MD_UNPROVEN_KEY_WANTED, /* likewise, to a host that md_host_is_wanted() */
	MD_N_UNPROVEN,
};

struct md_unproven_limits {
	struct md_limit all, groups[MD_SOURCE_GROUPS]; /* groups of addresses that are sent to */
};

/* Content of our beacons. */
struct md_said {
	uint64_t generation;
	uint32_t len; /* of @desc */
	uint8_t desc[MD_DESC_BYTES_MAX];
};

/* Rate limits of answers to queries: to hosts that are wanted; to all others, all together and by md_share_of(). */
struct md_answers {
	struct md_wanted_limits wanted;
	struct md_limit all;
	struct {
		struct md_limit all, groups[MD_SOURCE_GROUPS]; /* groups of source addresses */
	} of[MD_SHARES];
};

/* What this agent says of itself. Owner: datagram_tx.c; datagram_rx.c writes @ipv4_until_ns. */
struct md_tx {
	struct md_announce announce;
	struct md_said said;
	struct md_greetings greetings;
	struct md_unproven_limits unproven[MD_N_UNPROVEN][MD_HOSTS_SHARES]; /* by md_link_share(); 0: no link */
	struct md_limit scarce[MD_SHARES]; /* likewise: datagrams while the send buffer has little room */
	struct md_answers answers;
	/* By index in view->nets: until then some host on that net is taken to speak IPv4 only. */
	uint64_t ipv4_until_ns[MD_NETS_MAX];
};

/*
 * Rate limits of messages: of hosts that are wanted; of other hosts, index 0 not sealed, index 1 sealed, all together
 * and by md_share_of(); of unknown hosts.
 */
struct md_message_limits {
	struct md_wanted_limits wanted;
	struct md_limit all[2], of[2][MD_SHARES], unknown[MD_SHARES];
	struct {
		struct md_wanted_limits wanted;
		struct md_limit all, of[MD_SHARES];
	} questions; /* of messages for which the kernel is asked */
};

/* Messages of processes. Owner: msg_router.c. */
struct md_msg_router {
	struct md_msg_relay relay;
	struct md_bundles bundles;
	struct md_message_limits limits;
	uint64_t log_theirs_ns; /* md_log() does not report messages in the name of other hosts before this time */
};

/* Probes of paths. Owner: prober.c. */
struct md_prober {
	struct md_probes probes;
	struct {
		struct md_limit all, of[2][MD_LINK_SHARES]; /* of each link: what routers have forwarded; all else */
	} echoes;
	uint64_t rest_ns; /* no tick before */
};

/* When the directory is written. Owner: due.c. */
struct md_publishing {
	struct md_published published;
	uint64_t due_ns; /* 0: at once; UINT64_MAX: no directory is to be written */
	bool rationed; /* @due_ns is late because @wakes has no room: other changes do not wait for it */
	bool unproven; /* the next directory has unproven changes, which @wakes pays for */
	uint64_t last_ns, cost_ns; /* when the last one was written; how long that took */
	struct md_limit wakes; /* rate limit of directories that are written for unproven changes */
};

/* Times of the next run, 0: at once, and the timer. Owner: due.c; others set a time to 0. */
struct md_due {
	struct md_expiry expiry;
	uint64_t renew_ns; /* of md_cookie_refresh_next() */
	uint64_t heartbeat_ns, targets_ns, count_ns;
	uint64_t targets_rest_ns; /* of md_due_targets_next() */
	sd_event_source *timer, *post;
};

/* Routes to hosts beyond routers. Owner: daemon/agent.c. */
struct md_routing {
	struct md_routes routes;
	struct mv_netlink netlink; /* for look-ups; not subscribed to notifications */
};

/* Datagrams that arrive. Owner: datagram_rx.c. */
struct md_listening {
	sd_event_source *io6, *io4;
};

/* Owner: daemon/agent.c. */
struct md_signals {
	sd_event_source *term, *interrupt, *hup;
};

/*
 * The whole agent. Only the event loop's thread uses it, except fields that a job's thread has for the time of a job.
 */
struct md_agent {
	const struct md_options *options;
	sd_event *event;
	struct md_signals signals;
	struct md_self self;
	struct md_rundir rundir;
	struct md_drained drained;
	struct md_jobs jobs;
	struct md_watch watch;
	struct md_udp udp;
	struct md_members members;
	struct md_listening listening;
	struct md_secure *secure;
	struct md_trust trust;
	struct md_hosts hosts;
	struct md_gidmap gidmap;
	struct md_targets targets;
	struct md_routing routing;
	struct md_tx tx;
	struct md_msg_router msg_router;
	struct md_prober prober;
	struct md_clients clients;
	struct md_controls controls;
	uint64_t refused_order_ns; /* the log does not name anybody whose order is refused before this time */
	struct md_publishing publishing;
	struct md_qualify qualify;
	struct md_due due;
	struct md_counts counts;
};

/**
 * md_agent_start - start all parts of the agent; errors are logged
 * @agent: zeroed
 *
 * Return: 0 or -errno; in either case call md_agent_stop().
 */
int md_agent_start(struct md_agent *agent, const struct md_options *options);

/** md_agent_run - run the event loop until a signal ends it; Return: 0 or -errno */
int md_agent_run(struct md_agent *agent);

/**
 * md_agent_stop - stop all parts and free them
 *
 * Return: true. False: a system call of a job, or of a closer of @agent->clients, still blocks. Then free nothing
 * and end by _exit(2). If the closer's call blocks, all that the next agent needs has been released.
 */
bool md_agent_stop(struct md_agent *agent);

/* ---- between the files of the agent ------------------------------------------------------------ */

/** md_now - Return: CLOCK_BOOTTIME in ns */
uint64_t md_now(void);
/** md_realtime_s - Return: CLOCK_REALTIME in seconds */
uint64_t md_realtime_s(void);

/* due.c: the timer. Return: 0 or -errno. */
int md_due_start(struct md_agent *agent);
/* The directory has to be written anew. @urgent: a port of some host went down, and connections wait for the directory. */
void md_due_directory(struct md_agent *agent, bool urgent);
/*
 * The directory has to be written anew for changes of @host. Limited to MD_WAKES_RATE, except for proven changes, and for
 * urgent or signed changes of a host on a path that is watched.
 */
void md_due_heard(struct md_agent *agent, const struct md_host *host, bool urgent, bool proven);
/* Look at all targets, and query those that are due. */
void md_due_targets(struct md_agent *agent, uint64_t now_ns);
/*
 * Return: when that is to be done. Looks are MD_TARGETS_EACH_NS apart for each target: answers of others, and processes,
 * can make a look due without end.
 */
uint64_t md_due_targets_next(const struct md_agent *agent);

/* files.c: files that the administrator writes; mistakes are logged. */
void md_files_hosts(struct md_agent *agent);
/*
 * Return: 0, also if no key file was named and none exists. -errno: the key file cannot be used, or was named and does
 * not exist; to go on without a key would leave the host without the protection that was asked for.
 */
int md_files_keys(const struct md_options *options, struct md_keys *ret);
void md_files_reload_keys(struct md_agent *agent);

/* datagram_tx.c: datagrams that are sent. */
struct md_addr md_tx_addr(const struct in6_addr *ip, uint16_t port, uint32_t ifindex);
/*
 * @ifindex: 0: as routes say. @from: source address; NULL: the kernel chooses. Return: 0; -ENETDOWN: not sent, because
 * the netdev has no carrier, see md_paths_leave(); another -errno. Counts the datagram.
 */
int md_tx_raw(struct md_agent *agent, const struct in6_addr *ip, uint16_t port, uint32_t ifindex,
	      const struct in6_addr *from, const void *bytes, size_t len);
/* Return: as md_tx_raw(). */
int md_tx_send(struct md_agent *agent, enum md_kind kind, const struct in6_addr *ip, uint16_t port,
	       uint32_t ifindex, const struct in6_addr *from, const void *payload, size_t len);
/* Like md_tx_send(), sealed for @host if both hosts have each other's keys: md_seal_for(). */
int md_tx_send_for(struct md_agent *agent, const struct mv_host_id *host, enum md_kind kind, const struct in6_addr *ip,
		    uint16_t port, uint32_t ifindex, const struct in6_addr *from, const void *payload, size_t len);
/*
 * The view has changed: encode the description anew. @nets_changed: other netdevs run than before, which is a generation
 * of its own. So a netdev that was down and comes back has missed at least one, by which neighbours know that it hears
 * nobody yet. The port goes and comes before its netdev, or after.
 */
void md_tx_describe(struct md_agent *agent, bool nets_changed);
void md_tx_beacons(struct md_agent *agent, uint64_t now_ns); /* send all beacons that are due */
void md_tx_beacon_to(struct md_agent *agent, const struct in6_addr *ip, uint32_t ifindex);
/* @room: bytes that the greeting may have, with headers. Return: false: there is none */
bool md_tx_greet(struct md_agent *agent, const struct in6_addr *ip, uint32_t ifindex, size_t room, uint64_t now_ns);
uint64_t md_tx_next(const struct md_agent *agent);
void md_tx_entry(struct md_agent *agent, const struct md_received *query, const struct md_opened *opened);
bool md_tx_query(struct md_agent *agent, const struct in6_addr *ip, uint32_t ifindex);
bool md_tx_ask(void *agent, const struct md_target *target); /* for md_targets_tick() */

/* unproven.c: limits of datagrams to addresses that have shown no cookie. With a fleet key there are none. */
/* A datagram of the host has been taken, so as many bytes may be sent to it. */
void md_unproven_came(struct md_host *host, size_t payload_len);
/* May a datagram be sent to an address on netdev @ifindex (0: not known)? Takes it from the limits of link and group. @host: or NULL */
bool md_unproven_may(struct md_agent *agent, enum md_unproven kind, struct md_host *host, const struct in6_addr *ip, uint32_t ifindex,
		     uint64_t now_ns);
/*
 * Has the send buffer room for an answer to an address that has shown no cookie? Without this limit, somebody who forges
 * addresses fills the buffer, and no beacon leaves. The limit holds with a fleet key, too. md_unproven_may() includes it.
 */
bool md_unproven_may_answer(struct md_agent *agent, const struct md_received *received, uint64_t now_ns);
/* The same for a query to a target that has never answered: perhaps nobody has its address. */
bool md_unproven_may_query(struct md_agent *agent, const struct md_target *target, uint64_t now_ns);
/* Has the host sent as many bytes as a datagram with that payload has? True with a fleet key. */
bool md_unproven_pays(const struct md_agent *agent, const struct md_host *host, size_t payload_len);
/*
 * md_unproven_may(), if the host has sent as many bytes as the datagram to it has; takes these. An answer to a datagram must not
 * be longer than that datagram, for which md_unproven_came() was called.
 */
bool md_unproven_take(struct md_agent *agent, enum md_unproven kind, struct md_host *host, const struct in6_addr *ip, uint32_t ifindex,
		      size_t payload_len, uint64_t now_ns);
/* A greeting has used up @bytes of the beacon that it answers. */
void md_unproven_greeted(struct md_host *host, size_t bytes);

/* exchange/trust.c, trust_statement.c, peers.c: identities of hosts. None of these does anything while this host has no identity. */
int md_trust_start(struct md_agent *agent); /* to be called before the network is opened; Return: 0 or -errno */
void md_trust_stop(struct md_agent *agent); /* to be called after the jobs' thread has ended */
void md_trust_describe(struct md_agent *agent); /* our description has changed: sign it */
/* Return: length of our statement; 0: none. *@ret: owned by @agent, until the next call */
size_t md_trust_own_statement(struct md_agent *agent, bool asks, const uint8_t **ret);
void md_trust_send(struct md_agent *agent, const struct in6_addr *ip, uint16_t port, uint32_t ifindex, const struct in6_addr *from,
		   bool asks);
/* A statement has arrived. Return: mask of enum md_changes. */
unsigned int md_trust_statement(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened,
				uint64_t now_ns);
void md_trust_confirm(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_trust_confirmed(struct md_agent *agent, const struct mv_host_id *host);
void md_trust_stranger(struct md_agent *agent, const struct md_received *received, uint64_t now_ns);
void md_trust_learned(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_trust_keep(struct md_agent *agent, const struct md_host *host); /* a vouched host has sealed something: pin and id are its own */
void md_trust_look(struct md_agent *agent, uint64_t now_ns); /* to be called at md_trust_next() */
uint64_t md_trust_next(const struct md_agent *agent);
/* send @host a request for its statement, or for a confirmation. Return: false: not now, or not any more */
bool md_trust_ask(struct md_agent *agent, struct md_host *host, uint64_t now_ns);
uint64_t md_trust_look_hosts(struct md_agent *agent, uint64_t now_ns); /* Return: ns until the next call */
/*
 * Pinned keys have changed: the hosts of that name lose their authentication and have to show their keys again. NULL:
 * all hosts for which the change makes a difference.
 */
void md_trust_review(struct md_agent *agent, const char *name);
/* admin/orders.c: carry out an order "key-...". @answer gets the result, or "error". The caller checks who may give orders. */
void md_trust_carry_out(struct md_agent *agent, const struct md_order *order, struct json_object *answer);
/* Is the key of the statement acceptable for a host of its name? */
bool md_trust_is_right(const struct md_trust *trust, const struct md_statement *said);
/* Do messages of the host come sealed by its pinned key, or by the fleet key? */
bool md_trust_is_authenticated(const struct md_agent *agent, const struct md_host *host);

/* A host has answered: look up routes to it, and add its further addresses as targets. */
void md_due_routes(struct md_agent *agent, struct md_host *host);

/* datagram_rx.c: datagrams that arrive. */
int md_rx_start(struct md_agent *agent);
bool md_rx_drain(struct md_agent *agent); /* read all datagrams that have arrived; false: there may be more */

/* msg_router.c: messages of processes. */
void md_msg_router_init(struct md_agent *agent);
/* @from: host of the sender. Return: number of QPs of this host to which the message was delivered. */
unsigned int md_msg_router_deliver(struct md_agent *agent, const struct mv_host_id *from, const struct mv_ctl_msg *msg, const uint8_t *data,
			     uint16_t len);
/* Does the message name a path? Its GID has to be one of the sender's host. */
bool md_msg_router_names_path(const struct mv_ctl_msg *msg);
/* md_bundles' send function. @arg: the agent */
void md_msg_router_send_bundle(void *arg, const struct md_bundle_to *to, const uint8_t *payload, size_t len);
/* Query who has a GID. @account: whose wish it is, or MD_TARGETS_OF_OTHERS. Return: false: no room, or nobody answered lately. */
bool md_msg_router_ask_for(struct md_agent *agent, const union ibv_gid *dgid, uint64_t account);
void md_msg_router_message(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_msg_router_bundle(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_msg_router_flush(struct md_agent *agent); /* end of a loop iteration: send batched messages and frames */

/* Sends an empty bundle; an agent that takes bundles answers by another empty one. */
void md_msg_router_ask(struct md_agent *agent, const struct md_endpoint *to);

/* cookie_refresh.c: cookies. */
void md_cookie_refresh_look(struct md_agent *agent, uint64_t now_ns);
/* next call of md_cookie_refresh_look(); UINT64_MAX: none */
uint64_t md_cookie_refresh_next(const struct md_agent *agent);

/* prober.c: connects probes of paths with the network and processes. */
void md_prober_init(struct md_agent *agent);
void md_prober_tick(struct md_agent *agent);
/**
 * md_prober_next - when md_prober_tick() is due
 *
 * Each tick looks at all paths, and what others send may make one due at once. So ticks are MD_PROBES_EACH_NS apart for
 * each path.
 */
uint64_t md_prober_next(const struct md_agent *agent);
/* Did the datagram arrive on a netdev that does not have its destination address? Counted. */
bool md_prober_is_astray(struct md_agent *agent, const struct md_received *received);
void md_prober_probe(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_prober_echo(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_prober_challenged(struct md_agent *agent, const struct md_received *received);

#endif
