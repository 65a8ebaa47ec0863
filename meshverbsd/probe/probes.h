/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PROBES_H
#define MD_PROBES_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "bounds.h"
#include "ctl.h"
#include "hash.h"
#include "probe_wire.h"

/*
 * Probes tell which of the paths that QPs use still carry packets. A probe is a small datagram from one address of a
 * path to the other; the agent there echoes it. No clock, no I/O, no locks: one thread.
 *
 * Silence of a path proves little: the other agent may be busy, stopped or restarting, and our own may have had no
 * processor. So no timeout decides. A path is declared DOWN by comparison only. In one turn a suspect path is probed,
 * and right after it other paths to the same host (witnesses). If the echo of a witness arrives and that of the suspect
 * does not, the round counts against the suspect: the other agent got the later datagram, and had as much time for the
 * earlier one. Echoes may take MD_PROBE_TURNS turns; each round counts the echoes that have arrived by then.
 *
 * DOWN needs MD_PROBE_PARTS * (multiplier - 1) such rounds, one each interval / MD_PROBE_PARTS, without any echo of the
 * suspect in between, however late. A path becomes suspect when a probe has had no echo for interval / MD_PROBE_PARTS,
 * or for twice the slow round-trip time if that is longer. So a path is DOWN some three intervals after its last echo
 * (multiplier 3). If an agent at either end is busy, rounds are late; if the other agent is dead, there is no witness.
 * A path that has never answered is never DOWN, nor is a path to a host that no other path reaches, because there is no
 * path to move to.
 *
 * Lost datagrams are no evidence if an end dropped them for want of room. Ends count these, and each one counted
 * restarts the rounds. Others can cause such losses, by a flood. So losses excuse a suspect for MD_PROBE_EXCUSED_NS at
 * most, and after MD_PROBE_EXCUSED_NS of ticks that were put off because datagrams waited, every second tick judges.
 * A probe that could not be sent for want of room here voids its round. A netdev that is stuck
 * fills the send buffer, which all paths share. So when the buffer fills (MD_SCARCE_PERCENT), silent paths get few
 * probes, and rounds without probes are void.
 *
 * Processes that work on a path are warned when MD_PROBE_WARN_ROUNDS rounds speak against it (later if many suspects
 * make rounds slow), so that they can prepare to leave. The next state that they are told ends the warning. After a
 * false alarm, warnings pause.
 *
 * Nothing is sent unless some path is watched for WORK or PRIMARY. Alternate paths are probed as witnesses only, while
 * a path is suspect.
 *
 * If both ends watch a path, the probes of one end suffice. Each probe says whether the previous echo has arrived, so
 * the other end learns as much as from an echo of its own. The other end probes if the next probe is late, or says that
 * the echo was lost, and once in MD_PROBE_OWN_NS.
 */

#define MD_PROBE_PARTS       4 /* rounds in one interval, while a path is suspect */
#define MD_PROBE_WARN_ROUNDS 2
#define MD_PROBE_TURNS       32 /* newest probes of a path of which the turn is remembered */
#define MD_PROBE_EXCUSED_NS  MD_S /* of a suspicion: afterwards losses for want of room void no round; also of ticks that are put off */
#define MD_PROBE_OWN_NS      MD_S /* interval of own probes while the peer's probes suffice: they measure the round-trip time */

struct md_probes;

struct md_probe_key {
	union ibv_gid local, remote;
};

/* All watches of one process; zeroed when empty. Must not move while it has watches. */
struct md_probe_watch_list {
	struct md_probe_watch *by_path;
	size_t n;
};

/* An account that watches paths. */
struct md_probe_user {
	UT_hash_handle hh;
	uint64_t account; /* 0: root's, which has no bounds */
	size_t n_paths, n_watches;
	size_t n_scheduled; /* paths that the account watches for WORK or PRIMARY */
};

/* An account watches a path, with one process or more. */
struct md_probe_share {
	LIST_ENTRY(md_probe_share) of_path;
	struct md_probe_user *user;
	size_t n, n_scheduled; /* watches; of these, for WORK or PRIMARY */
};

/* One process watches one path. */
struct md_probe_watch {
	UT_hash_handle hh; /* md_probe_watch_list.by_path, by @probe */
	LIST_ENTRY(md_probe_watch) of_path;
	struct md_probe_watch *untold_prev, *untold_next; /* in md_probes.untold; NULL: not there */
	struct md_probe *probe;
	struct md_probe_watch_list *list; /* of the client */
	struct md_probe_share *share; /* of the client's account */
	uint64_t client; /* number of the client */
	uint8_t watch; /* mask of enum mv_watch */
	bool told; /* the client has been told @told_probed */
	bool warned; /* the client has been warned since it was told */
	uint8_t told_probed;
};

/* Round-trip times of a path. One thread. */
struct md_probe_rtt {
	uint32_t newest_us; /* of the newest echo */
	uint32_t slow_us; /* slowest one lately; decays */
	uint64_t timed_ns; /* when @slow_us was last updated */
};

/* The peer's newest probe that was answered. One thread. */
struct md_probe_heard {
	uint64_t nonce, number, at_ns; /* 0: none */
};

/* Evidence against a path that is suspect, and warnings of it. One thread. */
struct md_probe_suspicion {
	uint64_t since_ns; /* begin of the suspicion, or when a witness came up */
	uint64_t counted_from; /* first turn of the path that is not in a counted round yet; 0: none */
	uint64_t excused_until_ns; /* until then losses for want of room, at either end, void rounds; 0: no witness was there yet */
	unsigned int rounds; /* counted rounds against the path */
	bool warned; /* processes at work have been warned in this suspicion */
	uint64_t no_warning_ns; /* no warning before: the last one was a false alarm */
};

/* A host at the remote end of watched paths. One thread. */
struct md_probe_host {
	UT_hash_handle hh;
	struct mv_host_id id;
	TAILQ_HEAD(, md_probe) paths;
	uint64_t wakes_room_ns; /* token bucket: probes of its suspects ahead of their schedule, MD_PROBES_BURST_PER_S */
	uint64_t turn; /* the next two are valid in this turn, while no path leaves; 0: in none */
	struct md_probe *newest; /* the path with the newest echo */
	struct md_probe *next[2]; /* no path before it is left as witness: of those that do not answer; of those that do */
};

struct md_probe {
	UT_hash_handle hh;
	struct md_probe_key key;
	LIST_HEAD(, md_probe_watch) watches;
	LIST_HEAD(, md_probe_share) shares;
	unsigned int n_scheduled; /* watches for WORK or PRIMARY */
	enum mv_probed state; /* readable by others, as are the next four */
	bool suspect;
	bool awaited; /* not suspect; its newest probe has had neither an answer nor a review */
	bool met; /* an echo, a challenge or a probe has come over it: somebody is there */
	bool host_told; /* by an echo; else the map of GIDs is asked again */
	struct md_probe_host *host; /* the host that answers, or that holds the address; NULL: not known */
	TAILQ_ENTRY(md_probe) of_host; /* in md_probe_host.paths */
	struct md_probe_rtt rtt;
	uint64_t nonce;
	uint64_t want_ns; /* until then the accounts that watch the path need not be told apart: exchange/cookie_refresh.c */
	uint64_t begun_ns, sent_ns, next_ns; /* 0: not yet; next_ns UINT64_MAX: no probe of its own is scheduled */
	uint64_t number, answered; /* newest probe sent, newest probe answered; 0: none */
	uint64_t answered_ns; /* when the path last carried both ways: our probe was echoed, or the peer says that our echo arrived */
	struct md_probe_heard heard;
	unsigned int n_answered; /* answers in a row */
	uint32_t peer_dropped; /* md_probe_wire.dropped of the newest echo */
	uint32_t dropped; /* md_probes.dropped when the newest probe was sent: a later loss may have been the echo */
	struct md_probe_suspicion suspicion;
	uint64_t turn_answered; /* the newest of @turns whose probe was answered */
	/* by probe number: the turn of suspects and witnesses in which the probe was sent; 0: sent by itself */
	uint64_t turns[MD_PROBE_TURNS];
};

struct md_probe_ops {
	/* Sends a probe. Return: 0; -errno: not sent. md_probes_is_shortage(): the error says nothing of the path. */
	int (*send)(void *arg, const struct md_probe_key *path, const struct md_probe_wire *probe);
	/* Return: use of the send buffer towards the path's remote address, in percent. */
	unsigned int (*waiting)(void *arg, const struct md_probe_key *path);
	/* Which host has the remote address? Return: false: not certain. */
	bool (*host)(void *arg, const struct md_probe_key *path, struct mv_host_id *ret);
	/* Tells a process the state. Return: false: try again later. */
	bool (*tell)(void *arg, uint64_t client, const struct md_probe_key *path, enum mv_probed state);
	/* Warns a process that DOWN may follow. Return: false: not warned; not tried again. */
	bool (*warn)(void *arg, uint64_t client, const struct md_probe_key *path);
};

struct md_probes {
	const struct md_probe_ops *ops;
	void *arg;
	uint64_t interval_ns; /* 0: probes are off, nothing can be watched */
	unsigned int multiplier; /* 3 or more */
	uint64_t nonce; /* number of the newest path, from a random one on; its hash is the path's nonce */
	struct md_probe *by_key;
	struct md_probe_host *hosts;
	uint64_t hosts_turn; /* the turn in which hosts of paths were last looked for */
	struct md_probe_user root, *users; /* account 0; the others */
	size_t n_users; /* accounts with scheduled paths */
	size_t n, n_watches;
	size_t n_scheduled, n_suspect, n_down, n_awaited; /* numbers of paths */
	struct md_probe_watch *untold; /* their processes could not be told yet: list of utlist.h, last tried last */
	size_t n_untold;
	size_t n_hurry; /* of the first ones of @untold, some have not been tried: they do not wait for an interval */
	unsigned int n_tells; /* since the tick began, or md_probes_tell_the_rest() ended; MD_TELLS_AT_ONCE */
	uint64_t next_ns; /* md_probes_tick() is due then, or later; UINT64_MAX: no tick */
	/* regular_ns: next probe by schedule. awaited_ns: next missing echo, valid while @n_awaited. next_ns is the earlier one */
	uint64_t regular_ns, awaited_ns;
	uint64_t turn;
	uint64_t begins_room_ns; /* token bucket: first probes of paths, MD_PROBES_BURST_PER_S */
	/* from 1: changes of paths into or out of doubt, and other changes that routing depends on; see md_probe_is_doubted() */
	uint64_t n_changes;
	uint32_t dropped; /* at the last tick */
	unsigned int n_put_off; /* ticks put off because datagrams waited; each other tick takes one back */
	struct {
		uint64_t sent, not_sent, held, spared, echoes, stray, down, recovered, rounds, void_rounds, late, warnings;
		uint64_t compared; /* paths looked at for suspects: of the same host; if the send buffer has little room */
	} count;
};

/* Answer to a probe of another host over a path. */
enum md_probes_answer {
	MD_PROBES_ANSWER,
	MD_PROBES_LEAVE, /* do not answer: the path is dead, and an answer would take room from others */
	MD_PROBES_REFUSE, /* no room: refuse, and count, so that the peer knows that the silence is no evidence */
};

/** md_probes_is_shortage - does this error of a send concern our resources only, and not the path? */
static inline bool md_probes_is_shortage(int err)
{
	return err == -EAGAIN || err == -ENOBUFS || err == -ENOMEM;
}

/** md_probes_init - @interval_ns, @multiplier: see above; @nonce: random. @ops and @arg: kept, owned by the caller */
void md_probes_init(struct md_probes *probes, const struct md_probe_ops *ops, void *arg, uint64_t interval_ns,
		    unsigned int multiplier, uint64_t nonce);
void md_probes_fini(struct md_probes *probes);

/**
 * md_probes_watch - a process begins to watch a path, or changes its mask, or ends
 * @watch: mask of enum mv_watch; 0: ends
 * @client: number of the process
 * @account: of the process
 * @list: of the process
 *
 * The process is told the state, at once or by a tick soon.
 *
 * Return: 0; -EOPNOTSUPP: probes are off; -ENOSPC: beyond MD_PROBES_MAX paths, MD_WATCHES_PER_CLIENT or MD_WATCHES_MAX;
 * -EDQUOT: beyond MD_PATHS_PER_ACCOUNT or MD_WATCHES_PER_ACCOUNT; -ENOMEM.
 */
int md_probes_watch(struct md_probes *probes, const struct md_probe_key *path, uint8_t watch, uint64_t client, uint64_t account,
		    struct md_probe_watch_list *list, uint64_t now_ns);

/** md_probes_has_host - does a watched path lead to the host? */
bool md_probes_has_host(const struct md_probes *probes, const struct mv_host_id *id);

/** md_probe_leads_to - is the host known to be at the remote end of the path? */
static inline bool md_probe_leads_to(const struct md_probe *p, const struct mv_host_id *id)
{
	return p->host && !memcmp(&p->host->id, id, sizeof(*id));
}

/** md_probe_set_host - the path leads to that host; without memory: to an unknown one */
void md_probe_set_host(struct md_probes *probes, struct md_probe *p, const struct mv_host_id *id);

/** md_probes_watches - does the process watch the path? */
bool md_probes_watches(const struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_watch_list *list);

/** md_probes_drop - a process is gone: remove its watches */
void md_probes_drop(struct md_probes *probes, struct md_probe_watch_list *list);

/**
 * md_probes_echo - an ECHO has arrived over a path
 * @sender: host that has sent it; NULL: not certain
 */
void md_probes_echo(struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_wire *echo,
		    const struct mv_host_id *sender, uint64_t now_ns);

/**
 * md_probes_heard - a PROBE has arrived over a path, and was answered
 * @sender: host that has sent it
 *
 * Our own next probe may become needless, or urgent.
 */
void md_probes_heard(struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_wire *probe,
		     const struct mv_host_id *sender, uint64_t now_ns);

/**
 * md_probes_challenged - our probe was refused for want of a cookie, and the cookie is here now
 *
 * So the path carries packets, though its host is not known yet. The probe is sent again.
 */
void md_probes_challenged(struct md_probes *probes, const struct md_probe_key *path, uint64_t now_ns);

/**
 * md_probes_tick - review and send all probes that are due
 * @drained: all datagrams that had arrived have been read; false: nothing is judged, and the tick is put off, but not always
 * @dropped: datagrams lost here for want of room, since the start
 */
void md_probes_tick(struct md_probes *probes, bool drained, uint32_t dropped, uint64_t now_ns);

/**
 * md_probes_tell_the_rest - tell processes that could not be told before, in turn; part of each tick
 *
 * MD_TELLS_PER_TURN of them, or MD_TELLS_AT_ONCE where some have not been tried yet.
 */
void md_probes_tell_the_rest(struct md_probes *probes);

/**
 * md_probes_hurries - is md_probes_tell_the_rest() due at once, before the next md_probes_tick() at probes->next_ns?
 *
 * They are apart: a tick that is not due probes suspects ahead of their schedule, so that rounds would be too short.
 */
static inline bool md_probes_hurries(const struct md_probes *probes)
{
	return probes->n_hurry;
}

/** md_probes_answer - a probe has arrived over a path, known or not: is it answered? */
enum md_probes_answer md_probes_answer(const struct md_probes *probes, const struct md_probe_key *path);

/** md_probes_find - Return: the path, owned by @probes; NULL: not watched */
struct md_probe *md_probes_find(const struct md_probes *probes, const struct md_probe_key *path);

/** md_probes_doubt - may any path be doubted? */
static inline bool md_probes_doubt(const struct md_probes *probes)
{
	return probes->n_suspect || probes->n_down;
}

/**
 * md_probe_is_doubted - does evidence speak against the path, and none since for it? Messages had better take another
 * path.
 *
 * False for a path that is DOWN but no longer scheduled: it may have been mended.
 */
static inline bool md_probe_is_doubted(const struct md_probe *p)
{
	return p->n_scheduled && (p->suspicion.rounds || p->state == MV_PROBED_DOWN);
}

#endif
