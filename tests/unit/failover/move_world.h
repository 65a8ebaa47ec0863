/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_MOVE_WORLD_H
#define UNIT_MOVE_WORLD_H

#include "unit.h"

#include "move.h"
#include "network.h"

/*
 * The world of test_move_property.c: two machines (move.h), what their callers do with actions, and
 * a network that loses, repeats, delays, reorders and forges messages. Everything is drawn from the
 * seed of random.h. One thread calls these functions; each of them fails the test where something
 * is not as it has to be.
 */

#define MS 1000000ull

enum event_type { EV_BEGIN, EV_RTS, EV_WORK, EV_MESSAGE, EV_UNREACHABLE, EV_OUTCOME };

struct event {
	uint64_t at;
	enum event_type type;
	unsigned int end, life; /* an event of an earlier life is void, but for messages */
	bool ok, repeated;
	struct mv_ctl_msg msg;
};

/* A QP on the agreed path. */
struct path_qp {
	bool alive, can_receive;
	struct mv_ctl_end self, peer;
};

struct end {
	struct mv_move m;
	bool held; /* false: passthrough from the start (no machine) */
	bool begun, passthrough_begun, restart_wanted;
	unsigned int life;
	uint32_t attempt, psn;
	uint32_t sq_psn; /* @psn once in RTS */
	uint64_t begun_at;
	uint64_t nonce; /* of @attempt */
	struct mv_ctl_end name;
	uint8_t host, type;
	enum mv_path_verdict verdict;
	struct mv_path paths[4];
	size_t n_paths;
	bool path_fails[4]; /* PREPARE or CONNECT of it, whoever wants it */
	bool fails_by_connect;
	bool will_rts, will_work;
	bool path_is_back; /* the program's own seems to work, but is refused now and then */
	struct path_qp qp;
	unsigned int lost_in_a_row;
	/* what the caller has been told to do */
	bool active, passthrough, doubtful, passthrough_timed_out;
	uint8_t passthrough_type;
	enum mv_ctl_reason passthrough_reason;
};

#define MAX_EVENTS 512

struct world {
	uint64_t now, seed;
	struct end ends[2];
	struct event events[MAX_EVENTS];
	size_t n_events;
	uint32_t next_qpn;
	/* of the network */
	struct network net;
	uint32_t repeat, delay_max_ms, unreachable;
	bool calm; /* nothing but loss, repetition and short delays: all that can move has to */
	bool restarts;
	bool long_cut; /* longer than anybody waits: the ends may differ */
	unsigned int n_messages;
};

extern struct world w; /* large; one at a time */

extern bool trace; /* of all that happens */

#define TRACE(...)                                                                                 \
	do {                                                                                       \
		if (trace) {                                                                       \
			print_message("%8.3f ms ", (double)w.now / MS - 1000);                     \
			print_message(__VA_ARGS__);                                                \
		}                                                                                  \
	} while (0)

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("seed %llu, %llu ms: not true: %s (states %s, %s)",               \
				 (unsigned long long)w.seed, (unsigned long long)(w.now / MS),     \
				 #condition, mv_move_state_name(w.ends[0].m.state),                \
				 mv_move_state_name(w.ends[1].m.state));                           \
	} while (0)

/** schedule - returns a new event of end @end, in @in_ns; it is @w's, until the next one happens */
struct event *schedule(uint64_t in_ns, enum event_type type, unsigned int end);
/** network_send - end @from sends; the message comes to the other end once, more than once, late,
 * or not at all */
void network_send(unsigned int from, const struct mv_ctl_msg *msg);
/** drain - what machine @i gives out is done; @by_message: a message came, for which at most one is
 * sent */
void drain(unsigned int i, bool by_message);
/** same - are both the same end of a connection? */
bool same(const struct mv_ctl_end *a, const struct mv_ctl_end *b);

#endif
