/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_AGENT_H
#define MD_AGENT_H

#include <systemd/sd-event.h>

#include "announce.h"
#include "bundles.h"
#include "carry.h"
#include "client.h"
#include "control.h"
#include "drained.h"
#include "errands.h"
#include "expiry.h"
#include "gidmap.h"
#include "hosts.h"
#include "members.h"
#include "probes.h"
#include "publish.h"
#include "qualify.h"
#include "routes.h"
#include "rundir.h"
#include "secure.h"
#include "targets.h"
#include "trust.h"
#include "udp.h"
#include "watch.h"

struct json_object;

/* What was asked for on the command line. */
struct md_options {
	const char *run_dir, *control_dir, *sysfs;
	const char *state_dir; /* where the identity is; NULL: this host has none */
	const char *tool; /* the program `meshverbs` */
	const char *config_file;
	const char *conf_dir; /* of which the unit hands on a copy: LoadCredential= */
	struct mv_config config; /* with --port in it */
	bool trusts; /* see struct md_clients */
};

/* A beacon that is due for one address only. */
struct md_greeting {
	uint64_t due_ns;
	struct in6_addr ip;
	uint32_t ifindex;
};

#define MD_GREETINGS_MAX 256 /* newcomers of one moment on links with many; others hear the next beacon */

/* Counters; those of one part stand in that part. */
struct md_counts {
	uint64_t beacons_sent, beacons_received, beacons_rejected;
	uint64_t beacons_unchanged; /* of those received */
	uint64_t queries_sent, queries_received, queries_refused, entries_sent, entries_received, entries_rejected;
	uint64_t datagrams_sent, datagrams_failed, datagrams_held, datagrams_received;
	uint64_t verdicts[MD_OPEN_N_VERDICTS];
	uint64_t payloads_malformed, payloads_version;
	uint64_t messages_not_ours, messages_unclaimed, messages_not_theirs, messages_throttled;
	uint64_t bundles_sent, bundles_received;
	uint64_t probes_received, probes_astray, probes_refused, echoes_sent, echoes_held;
	uint64_t published, publish_failed;
};

/* Everything. The event loop's thread, but for what is out on errands. */
struct md_agent {
	const struct md_options *options;
	sd_event *event;
	uint64_t say_theirs_ns; /* no message of somebody else's host is told of in the log before */
	struct md_rundir rundir;
	/* Messages of hosts that are wanted; of others that are not sealed and that are; and of hosts that are not known. */
	struct md_limit messages_wanted, messages[2], messages_unknown;
	/* Answers to hosts that are wanted, and to others. */
	struct md_limit answers_wanted, answers, answers_of[MD_SOURCE_GROUPS];
	struct md_limit wakes; /* directories that what nobody has proven asks for */
	uint64_t refused_order_ns; /* nobody is named in the log as one whose order is refused before */
	struct mv_host_id id;
	char name[64];
	uint64_t start, begun_ns;

	struct md_drained drained;
	struct md_errands errands;
	struct md_watch watch;
	struct md_udp udp;
	struct md_members members;
	struct md_secure *secure;
	struct md_trust trust;
	struct md_hosts hosts;
	struct md_expiry expiry;
	struct md_gidmap gidmap;
	struct md_targets targets;
	struct md_routes routes;
	struct mv_netlink route_netlink; /* its requests; not subscribed */
	struct md_announce announce;
	struct md_carry carry;
	struct md_bundles bundles;
	struct md_probes probes;
	struct md_clients clients;
	struct md_controls controls;
	struct md_published published;
	struct md_qualify qualify;
	struct md_counts counts;

	/* What beacons say. */
	uint64_t generation;
	uint32_t desc_len;
	uint8_t desc[MD_DESC_BYTES_MAX];

	struct md_greeting greetings[MD_GREETINGS_MAX];
	size_t n_greetings;
	uint64_t ipv4_until_ns[MD_NETS_MAX]; /* by place in view->nets: somebody there speaks IPv4 only */

	/* When what is due; 0: at once. */
	uint64_t publish_ns; /* UINT64_MAX: nothing to publish */
	bool publish_unproven; /* for what counts in @wakes, besides others perhaps */
	uint64_t published_ns, publish_cost_ns;
	uint64_t renew_ns; /* of md_renew_next() */
	uint64_t heartbeat_ns, targets_ns, count_ns;
	uint64_t echoes_room_ns; /* MD_ECHOES_PER_S */

	sd_event_source *io6, *io4, *timer, *post, *sigterm, *sigint, *sighup;
};

/**
 * md_agent_start - bring everything up
 * @agent: zeroed
 *
 * What is wrong has been logged.
 *
 * Return: 0 or -errno; in either case md_agent_stop() is to be called.
 */
int md_agent_start(struct md_agent *agent, const struct md_options *options);

/** md_agent_run - until a signal ends it; 0 or -errno */
int md_agent_run(struct md_agent *agent);

/**
 * md_agent_stop - take everything down
 *
 * Return: true; false: a system call of an errand, or of md_clients.closer, has not come back, so the process has to end by
 * _exit(2), and nothing may be released before. What the next agent needs has been, if it is the closer's.
 */
bool md_agent_stop(struct md_agent *agent);

/* ---- between the files of the agent ------------------------------------------------------------ */

/** md_now - CLOCK_BOOTTIME in ns */
uint64_t md_now(void);
/** md_realtime_s - CLOCK_REALTIME in seconds */
uint64_t md_realtime_s(void);

/* due.c: what is due when */
int md_due_start(struct md_agent *agent);
/* It has to be written anew; @urgent: somebody's port went down, and connections wait for that. */
void md_due_directory(struct md_agent *agent, bool urgent);
/* The same after what that host has said, no more often than MD_WAKES_RATE unless that is proven, or urgent or signed for paths that are watched. */
void md_due_heard(struct md_agent *agent, const struct md_host *host, bool urgent, bool proven);

/* files.c: what the administrator writes; mistakes are logged */
void md_files_hosts(struct md_agent *agent);
/*
 * Return: 0, also without a key file if nobody named one; -errno: there is one that cannot be used, or was to be one, and going on
 * without would be no protection.
 */
int md_files_keys(const struct md_options *options, struct md_keys *ret);
void md_files_reload_keys(struct md_agent *agent);

/* talk.c: what goes out */
struct md_addr md_talk_addr(const struct in6_addr *ip, uint16_t port, uint32_t ifindex);
/* Return: 0; -ENETDOWN: nothing would come of it, see md_paths_leave(); another -errno. Counted. */
int md_talk_raw(struct md_agent *agent, const struct in6_addr *ip, uint16_t port, uint32_t ifindex,
		const struct in6_addr *from, const void *bytes, size_t len);
void md_talk_send(struct md_agent *agent, enum md_kind kind, const struct in6_addr *ip, uint16_t port,
		  uint32_t ifindex, const struct in6_addr *from, const void *payload, size_t len);
/* What only that host shall read, if it seals: md_seal_for(). */
void md_talk_send_for(struct md_agent *agent, const struct mv_host_id *host, enum md_kind kind, const struct in6_addr *ip,
		      uint16_t port, uint32_t ifindex, const struct in6_addr *from, const void *payload, size_t len);
void md_talk_describe(struct md_agent *agent); /* the view has changed: make the description anew */
void md_talk_beacons(struct md_agent *agent, uint64_t now_ns); /* all that are due */
void md_talk_beacon_to(struct md_agent *agent, const struct in6_addr *ip, uint32_t ifindex);
void md_talk_greet(struct md_agent *agent, const struct in6_addr *ip, uint32_t ifindex, uint64_t now_ns);
uint64_t md_talk_next(const struct md_agent *agent);
void md_talk_entry(struct md_agent *agent, const struct md_received *query, const struct md_opened *opened);
void md_talk_query(struct md_agent *agent, const struct in6_addr *ip, uint32_t ifindex);
void md_talk_ask(void *agent, const struct md_target *target);

/* ident/trust.c, ident/peers.c: identities of hosts, and who is believed to be whom. Without one of our own all this does nothing. */
int md_trust_start(struct md_agent *agent); /* before the network; 0 or -errno: it could not be tried */
void md_trust_stop(struct md_agent *agent); /* after the errands' thread */
void md_trust_describe(struct md_agent *agent); /* what we say of ourselves has changed: sign it */
size_t md_trust_own_statement(struct md_agent *agent, bool asks, const uint8_t **ret); /* 0: there is none */
void md_trust_send(struct md_agent *agent, const struct in6_addr *ip, uint16_t port, uint32_t ifindex, const struct in6_addr *from,
		   bool asks);
/* Return: mask of enum md_news. */
unsigned int md_trust_statement(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened,
				uint64_t now_ns);
void md_trust_confirm(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_trust_confirmed(struct md_agent *agent, const struct mv_host_id *host);
void md_trust_stranger(struct md_agent *agent, const struct md_received *received, uint64_t now_ns);
void md_trust_learned(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_trust_look(struct md_agent *agent, uint64_t now_ns); /* what is due; see md_trust_next() */
uint64_t md_trust_next(const struct md_agent *agent);
void md_trust_ask(struct md_agent *agent, struct md_host *host, uint64_t now_ns); /* for a statement, or a confirmation */
uint64_t md_trust_look_hosts(struct md_agent *agent, uint64_t now_ns); /* Return: in how long to look again */
/* Other keys are pinned now: hosts of that name, or all whose standing that changes (NULL), have to show theirs again. */
void md_trust_review(struct md_agent *agent, const char *name);
/* ident/orders.c: "key-..."; @answer gets what was done, or "error". For who may give orders. */
void md_trust_carry_out(struct md_agent *agent, const struct md_order *order, struct json_object *answer);
/* Is that key believed of a host of that name? */
bool md_trust_is_right(const struct md_trust *trust, const struct md_statement *said);
/* Does what that host says come with its pinned key, or the fleet's? */
bool md_trust_is_authenticated(const struct md_agent *agent, const struct md_host *host);

/* Routes to a host that has answered, and further addresses of it to be asked. */
void md_due_routes(struct md_agent *agent, struct md_host *host);

/* listen.c: what comes in */
int md_listen_start(struct md_agent *agent);
bool md_listen_drain(struct md_agent *agent); /* take all that has arrived; false: there may be more */

/* post.c: messages of processes */
void md_post_init(struct md_agent *agent);
void md_post_message(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_post_bundle(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_post_flush(struct md_agent *agent); /* the end of a turn: what waits for company has waited enough */

/* An empty bundle, sent as a message would be; the answer is another one. */
void md_post_ask(struct md_agent *agent, const struct md_endpoint *to);

/* renew.c: cookies */
void md_renew_look(struct md_agent *agent, uint64_t now_ns);
uint64_t md_renew_next(const struct md_agent *agent); /* when to call it; UINT64_MAX: nothing is to be done */

/* prober.c: probes of paths, to and from the network and processes */
void md_prober_init(struct md_agent *agent);
void md_prober_tick(struct md_agent *agent);
/* Came in by a netdev that has not the address it was sent to? Counted. */
bool md_prober_is_astray(struct md_agent *agent, const struct md_received *received);
void md_prober_probe(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_prober_echo(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened);
void md_prober_challenged(struct md_agent *agent, const struct md_received *received);

#endif
