/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PROBES_H
#define MD_PROBES_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "bounds.h"
#include "ctl.h"
#include "hash.h"
#include "probe_wire.h"

/*
 * Which paths that live queue pairs use still carry anything: small datagrams from one address of a path to the other, which
 * the agent there echoes. No clock and no I/O.
 *
 * A path that falls silent proves little: the agent over there may be busy, stopped, or started again; our own may not have had a
 * processor. Times decide nothing here. A path is DOWN only by comparison: in one turn a probe goes out on it and, right behind,
 * one on each other path that we know to the same host (witnesses); then the echo of a witness is there and that of the path is
 * not. Who has answered the later datagram has had the earlier one for at least as long, however long that was: echoes may be on their
 * way for MD_PROBE_TURNS turns, and each round counts what is there by then. MD_PROBE_PARTS * (multiplier - 1)
 * such rounds, a part of the interval apart, after a probe that had such a part to be answered, or twice as long as slow ones took, and
 * not one echo in between, however late, make a path DOWN: some three intervals after its last echo. A busy agent at either end makes
 * rounds late; a dead one has no witness. A path that has never answered is never DOWN; neither is one to a host that no other path reaches, for
 * there is nowhere to go. Datagrams that an end had no room for would be missed without guilt of the path, so ends count
 * them, and each that is counted begins the rounds anew.
 *
 * Nor is room that is missing here: a probe that could not be sent is none, and its round is void. A netdev that stands still keeps
 * what it was given, in the send buffer that all paths share; so once a part of that is in use, paths that do not answer get
 * little more (MD_SCARCE_PERCENT), and what they are not given makes rounds void, too.
 *
 * Who works on a path is warned when MD_PROBE_WARN_ROUNDS rounds speak against it, or later if there are so many suspects that the rest
 * takes long, and may prepare to leave it. That ends with the next that is told of the path, and comes seldom on one that answers after all.
 *
 * Nothing is sent as long as no path is watched for WORK or HOME; witnesses that are spare paths are only probed while some
 * path is suspect.
 *
 * Where both ends have a path watched, the probes of one do: each says whether the answer to the one before has arrived, which is all that
 * an echo could tell the other end. That one probes when the next does not come in time, or says that the answer has not, and once in
 * MD_PROBE_OWN_NS.
 */

#define MD_PROBE_PARTS       4 /* rounds in one interval, while a path is suspect */
#define MD_PROBE_WARN_ROUNDS 2
#define MD_PROBE_TURNS       32 /* of the newest probes of a path it is known in which turn they were sent */
#define MD_PROBE_OWN_NS      MD_S /* of an end that the peer's probes tell enough: its own one, so that it knows how long they take */

struct md_probes;

struct md_probe_key {
	union ibv_gid local, remote;
};

/* What one process has watched; all zero: nothing. It stays where it is while there is anything in it. */
struct md_probe_watch_list {
	LIST_HEAD(, md_probe_watch) watches;
	size_t n;
};

/* A process has a path watched. */
struct md_probe_watch {
	LIST_ENTRY(md_probe_watch) of_path, of_client;
	struct md_probe *probe;
	struct md_probe_watch_list *list; /* the client's */
	uint64_t client; /* its number */
	uint64_t account; /* the client's */
	uint8_t watch; /* mask of enum mv_watch */
	bool told; /* what follows */
	bool warned; /* since that */
	uint8_t told_probed;
};

struct md_probe {
	UT_hash_handle hh;
	struct md_probe_key key;
	LIST_HEAD(, md_probe_watch) watches;
	unsigned int n_scheduled; /* watches for more than SPARE */
	enum mv_probed state; /* readable, as are the next four */
	bool suspect;
	bool awaited; /* its newest probe, sent while it was not suspect, has had neither an answer nor a look since */
	bool has_host;
	struct mv_host_id host; /* who answers, or whose it is said to be */
	uint32_t rtt_us; /* of the newest echo */
	uint32_t slow_us; /* of the slowest one lately */
	uint64_t timed_ns; /* when that was looked at last */
	uint64_t nonce;
	uint64_t begun_ns, sent_ns, next_ns; /* 0: not yet; next_ns UINT64_MAX: not by itself */
	uint64_t number, answered; /* newest probe sent, newest one answered; 0: none */
	uint64_t answered_ns; /* when it last carried both ways, as far as is known: an echo came, or went and is known to have arrived */
	uint64_t heard_nonce, heard_number, heard_ns; /* of the peer's newest probe that was answered; 0: none */
	unsigned int n_answered; /* in a row */
	uint32_t peer_dropped; /* as the newest echo said */
	uint32_t dropped; /* here, when its newest probe was sent: what was lost since may have been its echo */
	uint64_t suspect_ns; /* since when */
	uint64_t turn_answered; /* the newest of @turns whose probe was answered */
	uint64_t turn_counted_from; /* of a suspect: its first one that has not been in a round that counted; 0: none yet */
	unsigned int rounds; /* that speak against it */
	bool warned; /* who works there, in this suspicion */
	uint64_t no_warning_ns; /* until then: the last one was in vain */
	uint64_t turns[MD_PROBE_TURNS]; /* in which its newest probes were sent as suspect's or witness's, by number; 0: in none */
};

struct md_probe_ops {
	/* Sends a probe. Return: 0; -errno: it was not sent; md_probes_is_shortage() says whether that tells nothing of the path. */
	int (*send)(void *arg, const struct md_probe_key *path, const struct md_probe_wire *probe);
	/* How much of the room for what is to go there has not been sent yet? In percent. */
	unsigned int (*waiting)(void *arg, const struct md_probe_key *path);
	/* Whose address is that? Return: false when that is not known for sure. */
	bool (*host)(void *arg, const struct md_probe_key *path, struct mv_host_id *ret);
	/* Tells a process. Return: false: it is to be tried again. */
	bool (*tell)(void *arg, uint64_t client, const struct md_probe_key *path, enum mv_probed state);
	/* Tells a process that it may soon be told DOWN. Return: false: it is not, and need not be. */
	bool (*warn)(void *arg, uint64_t client, const struct md_probe_key *path);
};

/* An account but root's, as long as processes of it have paths watched. */
struct md_probe_user {
	UT_hash_handle hh;
	uint64_t account;
	size_t n_paths;
};

struct md_probes {
	const struct md_probe_ops *ops;
	void *arg;
	uint64_t interval_ns; /* 0: off, nothing can be watched */
	unsigned int multiplier; /* 3 or more */
	uint64_t nonce; /* what those of paths are made from; random */
	struct md_probe *by_key;
	struct md_probe_user *users;
	size_t n, n_watches;
	size_t n_scheduled, n_suspect, n_down, n_awaited; /* paths */
	bool untold; /* some process is still to be told */
	uint64_t next_ns; /* when md_probes_tick() is due, or somewhat before that, never later; UINT64_MAX: not at all */
	uint64_t regular_ns, awaited_ns; /* the earlier of them, the second only while there are @n_awaited */
	uint64_t turn;
	uint64_t n_changes; /* how often a path has come into doubt, or changed otherwise (md_probe_is_doubted()); at first 1 */
	uint32_t dropped; /* here, as of the last tick */
	struct {
		uint64_t sent, not_sent, held, spared, echoes, stray, down, recovered, rounds, void_rounds, late, warnings;
	} count;
};

/* What to do with a probe of somebody else's over a path. */
enum md_probes_answer {
	MD_PROBES_ANSWER,
	MD_PROBES_LEAVE, /* the path is dead, and an answer would take room from others */
	MD_PROBES_REFUSE, /* there is no room for it; who asks has to be told that this is no evidence */
};

/** md_probes_is_shortage - does this error of a send say something of us alone, and nothing of the path? */
static inline bool md_probes_is_shortage(int err)
{
	return err == -EAGAIN || err == -ENOBUFS || err == -ENOMEM;
}

/** md_probes_init - @interval_ns, @multiplier: see above; @nonce: random */
void md_probes_init(struct md_probes *probes, const struct md_probe_ops *ops, void *arg, uint64_t interval_ns,
		    unsigned int multiplier, uint64_t nonce);
void md_probes_fini(struct md_probes *probes);

/**
 * md_probes_watch - a process has a path watched, or changes what for
 * @watch: mask of enum mv_watch; 0: not any more
 * @account: the client's
 * @list: of the client
 *
 * It is told the state, at once or by a tick soon.
 *
 * Return: 0; -EOPNOTSUPP: probes are off; -ENOSPC: beyond MD_PROBES_MAX paths, or MD_WATCHES_PER_CLIENT; -EDQUOT: beyond
 * MD_PATHS_PER_ACCOUNT; -ENOMEM.
 */
int md_probes_watch(struct md_probes *probes, const struct md_probe_key *path, uint8_t watch, uint64_t client, uint64_t account,
		    struct md_probe_watch_list *list, uint64_t now_ns);

/** md_probes_has_host - is a path to that host watched? */
bool md_probes_has_host(const struct md_probes *probes, const struct mv_host_id *host);

/** md_probes_watches - does that client have that path watched? */
bool md_probes_watches(const struct md_probes *probes, const struct md_probe_key *path, uint64_t client);

/** md_probes_drop - the client that has this list is gone */
void md_probes_drop(struct md_probes *probes, struct md_probe_watch_list *list);

/** md_probes_echo - an ECHO has come in over a path, from that host */
void md_probes_echo(struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_wire *echo,
		    const struct mv_host_id *sender, uint64_t now_ns);

/**
 * md_probes_heard - a PROBE of that host has come in over a path, and an answer has gone
 *
 * It may make our own next one needless, or urgent.
 */
void md_probes_heard(struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_wire *probe,
		     const struct mv_host_id *sender, uint64_t now_ns);

/**
 * md_probes_challenged - a probe was refused because our cookie was missing; it is there now
 *
 * So the path works, though nothing is known of its host yet. The probe is sent again.
 */
void md_probes_challenged(struct md_probes *probes, const struct md_probe_key *path, uint64_t now_ns);

/**
 * md_probes_tick - send and judge what is due
 * @drained: all datagrams that had arrived have been taken; without, nothing is judged
 * @dropped: datagrams that were lost here for want of room, ever
 */
void md_probes_tick(struct md_probes *probes, bool drained, uint32_t dropped, uint64_t now_ns);

/** md_probes_answer - a probe has come over a path, of which there may be nothing known here: is it to be answered? */
enum md_probes_answer md_probes_answer(const struct md_probes *probes, const struct md_probe_key *path);

/** md_probes_find - NULL: not watched */
struct md_probe *md_probes_find(const struct md_probes *probes, const struct md_probe_key *path);

/** md_probes_doubt - may there be one that is doubted? */
static inline bool md_probes_doubt(const struct md_probes *probes)
{
	return probes->n_suspect || probes->n_down;
}

/**
 * md_probe_is_doubted - does something speak against it, and nothing since for it? What can go another way is better off there.
 *
 * Not of a path that is dead as far as is known, and not probed by itself any more: it may be mended.
 */
static inline bool md_probe_is_doubted(const struct md_probe *p)
{
	return p->n_scheduled && (p->rounds || p->state == MV_PROBED_DOWN);
}

#endif
