/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_FAILOVER_WORLD_H
#define UNIT_FAILOVER_WORLD_H

#include "unit.h"

#include "move.h"
#include "move_failover.h"
#include "network.h"

/*
 * The world of test_move_failover_property.c: two ends of a connection with work under way, a control network between
 * them, and small NICs that count what they execute. Everything is drawn from the seed of random.h.
 */

#define MS 1000000ull
#define START (1000 * MS)
#define SLACK (60 * MS) /* what PREPARE, CONNECT and DRAIN take here */

#define N_PATHS 5 /* 0: the program's own */
#define MAX_QPS 400

/* Each work request takes one PSN here; psn.h counts the PSNs of real ones. */
struct qp {
	bool alive, connected, err;
	struct mv_ctl_end self, peer;
	unsigned int path;
	uint32_t my_psn, peer_psn;
	unsigned int first_wr; /* number of the work request with my_psn */
	unsigned int sent; /* work requests that have left */
	unsigned int executed; /* work requests of the peer */
};

struct end {
	struct mv_move m;
	struct mv_ctl_end name;
	uint8_t host;
	uint32_t psn, attempt;
	uint64_t nonce; /* of @attempt */
	bool dead, begun;
	struct qp qps[MAX_QPS];
	size_t n_qps;
	struct qp *work, *next;
	struct qp *standby; /* made for the next move, and connected perhaps */
	bool failed; /* FLUSH: the program has been given errors */
	bool wants_off; /* its path is bad as far as it knows */
	bool quiet, lossy; /* QUIESCE; its path is dead: outstanding work is not waited for */
	unsigned int posted, completed, executed; /* work requests of the program */
	uint64_t failover_since; /* 0: no move under way */
	unsigned int n_moves, n_stays, lost_in_a_row;
	bool stops_at_prepare; /* refuses all moves */
};

enum event_type {
	EV_MESSAGE,
	EV_OUTCOME,
	EV_BAD,
	EV_SUSPECT,
	EV_SURE,
	EV_HEAL,
	EV_DIE,
	EV_BYE,
	EV_ABORT,
	EV_RETRY,
	EV_ARM
};

struct event {
	uint64_t at;
	enum event_type type;
	unsigned int end, path;
	bool ok;
	struct mv_ctl_msg msg;
};

#define MAX_EVENTS 1024

struct world {
	uint64_t now, seed;
	struct end ends[2];
	struct event events[MAX_EVENTS];
	size_t n_events;
	uint32_t next_qpn;
	bool up[N_PATHS], makeable[2][N_PATHS];
	struct network net;
	uint32_t repeat, delay_max_ms, unreachable;
	bool calm; /* only loss, repetition, delays and dead paths: all work has to survive */
	bool held; /* the first path was agreed in a connect */
	bool echoes; /* messages of the QPs' last connection come */
	unsigned int n_messages;
};

extern struct world w;

extern bool trace;
extern unsigned int n_connects, n_standbys; /* of all runs: CONNECTs; CONNECTs of a QP connected in advance */
extern unsigned int n_expected, n_early; /* moves that began on a suspicion; ends that used what was agreed then */

#define TRACE(...)                                                                                 \
	do {                                                                                       \
		if (trace) {                                                                       \
			print_message("%8.3f ms ", (double)(w.now - START) / MS);                  \
			print_message(__VA_ARGS__);                                                \
		}                                                                                  \
	} while (0)

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("seed %llu, %.3f ms: not true: %s (states %s, %s)",               \
				 (unsigned long long)w.seed, (double)(w.now - START) / MS,         \
				 #condition, mv_move_state_name(w.ends[0].m.state),                \
				 mv_move_state_name(w.ends[1].m.state));                           \
	} while (0)

/** schedule - returns a new event of end @end, in @in_ns */
struct event *schedule(uint64_t in_ns, enum event_type type, unsigned int end);
/** network_send - end @from sends; the network loses, repeats, delays and forges messages */
void network_send(unsigned int from, const struct mv_ctl_msg *msg);
bool same(const struct mv_ctl_end *a, const struct mv_ctl_end *b);
struct qp *make_qp(struct end *e, unsigned int path, const union ibv_gid *gid);
struct qp *peer_of(unsigned int i, const struct qp *qp);
/** traffic - programs post, NICs execute and acknowledge */
void traffic(void);
union ibv_gid path_gid(unsigned int path, uint8_t host);

#endif
