/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_MOVE_TIMES_H
#define MV_MOVE_TIMES_H

#include <stdint.h>

/* Timers of the transaction (move.h), in ns. */
struct mv_move_times {
	/*
	 * An end in RTR knows only its peer's PSN, and sends nothing for this time. Most programs go on to RTS at once;
	 * some programs that only receive do not. Default 20 ms.
	 */
	uint64_t rtr_ns;
	uint64_t resend_ns; /* first repetition; doubles up to resend_max_ns. Defaults 2 ms, 500 ms */
	uint64_t resend_max_ns;
	/*
	 * The same for a QP at work. The first repetition is late, because hundreds of QPs move at once, and their
	 * messages queue. Default 10 ms.
	 */
	uint64_t failover_resend_ns;
	uint64_t failover_resend_max_ns; /* short, because each repetition delays the program's work. Default 50 ms */
	/*
	 * Longest silence of the peer. Verdict ASK: until this end goes passthrough. Other verdicts: until it tries its
	 * own path, if that seems to work: the path may work, and a peer without plugin may send at once. This end asks
	 * for three quarters of its own patience (mv_move_patience()), at most ask_ns (default 2 s), at least
	 * ask_min_ns (default 400 ms). Example: timeout 14 and retry_cnt 7 (ibv_rc_pingpong, perftest) are a patience
	 * of at least 8 times 4.096 us << 14 (IBTA 9.7.6.1.3): 537 ms.
	 */
	uint64_t ask_ns, ask_min_ns;
	uint64_t give_up_ns; /* longest time for which work waits for the agreement. Default 10 s */
	/*
	 * Between tries of the program's own path: try_ns, doubling up to try_max_ns. The kernel takes about a second
	 * to find that a neighbour does not answer, and verbs calls for that QP block meanwhile. Defaults 1 s, 16 s: in
	 * the end a sixteenth of the time is blocked. Verdict OTHER_SUBNET: try_max_ns from the start.
	 */
	uint64_t try_ns, try_max_ns;
	/*
	 * for the move of a QP at work: half of it before DRAIN, half after; a follower's asking is not counted.
	 * Default 4 s
	 */
	uint64_t move_ns;
};

extern const struct mv_move_times mv_move_default_times;

#endif
