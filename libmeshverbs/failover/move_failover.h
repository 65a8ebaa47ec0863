/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_MOVE_FAILOVER_H
#define MV_MOVE_FAILOVER_H

#include "move.h"

/*
 * Move of a QP at work: the transaction of move.h, with an old QP that has to be drained before the new QP may
 * be used. A move begins on an end that is settled (ACTIVE or PASSTHROUGH), on one end or on both at once, with
 * mv_move_start(). Each message names the path that is being left by the number of its offer (0: the program's own):
 *
 *   follower --HELLO--> leader           "I want to leave this path" (only if it begins)
 *   leader   WANTED                      its caller answers with mv_move_start()
 *   leader   PREPARE
 *   leader   --OFFER--> follower
 *   follower PREPARE, CONNECT, QUIESCE
 *   follower --ANSWER(READY)--> leader
 *   leader   CONNECT, QUIESCE            up to here the old QP is at work and either end may call the move off: STAY
 *   leader   --CONFIRM--> follower       from here on each end DRAINs its old QP, both at the same time. If many QPs
 *                                        move at once, the leader saves this message: its SYNC stands for CONFIRM
 *   each     --SYNC--> the other         after its drain: what its old QP executed
 *   each     ACTIVATE                    after its drain and with the peer's SYNC: replays, and goes on
 *
 * Standby: the slow steps before CONFIRM can be done while the path still works. An end that has made a QP for its next
 * move, which will answer PREPARE, tells the peer by STANDBY, and connects it to the QP that the peer has told:
 * STANDBY. The states do not depend on this. At CONNECT the caller finds its QP already connected, to the same QP with
 * the same PSNs, or connects it then. So a lost, late or wrong STANDBY costs only time.
 *
 * QUIESCE: the drain discards packets under way. All of these can be repeated, except the result of an atomic. So while
 * the path works, the caller posts no more atomics and waits for outstanding ones. On a dead path they are lost as they
 * would be without a move, so the caller does not wait. Each end finishes this before it tells the other. So neither
 * drain, which cuts both directions, meets an atomic.
 *
 * Order: no end drains before both have connected QPs on the new path (CONFIRM or a SYNC tells so). No end posts there
 * before both have drained. A leader that does not know its peer's attempt asks for it first, by a HELLO that the
 * follower answers by its own. So does a leader whose OFFER is not answered, and whose peer's attempt has not named the
 * leader's. That HELLO reaches the peer in any of its lives; so does the HELLO of a follower in the same position.
 *
 * Before DRAIN, giving up costs nothing: the QP stays, and its own retries go on (STAY). STAY also follows if there is
 * no agreement, or atomics do not finish, in half of move_ns. A leader takes at most seven eighths of that. So its
 * CONFIRM, even if delayed by failover_resend_ns, finds a follower that still waits; a follower's time begins again
 * with each offer.
 *
 * After DRAIN there is no way back. If the peer's SYNC does not come in half of move_ns, or the peer says that it gave
 * up, the QP fails as it would have failed without a move: FLUSH. Messages of the peer after its SYNC change nothing.
 * The peer may be ACTIVE by then; its QP has no other end, as if this end's program had died. No work request is
 * executed twice, because the peer posts only work that, by our SYNC, we have not executed.
 *
 * A QP that is connected to itself is both ends, and leads. Its own steps stand for the other end's answers. So nothing
 * is sent, and the steps are PREPARE, CONNECT, QUIESCE, DRAIN, ACTIVATE.
 *
 * A second failure during a move: before DRAIN, call mv_move_start() again with other paths. After DRAIN, the move ends
 * as usual, because messages do not need the path, and the next move starts from there.
 */

/**
 * mv_move_tell_standby - tell the peer about a standby QP
 * @mine: the standby QP
 * @peer_gid: the other end of its path
 * @lid, @mtu_bytes: as for mv_move_prepared()
 * @ready: it is connected to the peer's standby QP
 *
 * No effect on an end that is not settled. The message may be lost, and the caller may try again. It also tells the
 * peer this end's attempt: a leader that has to ask for the attempt first loses a round trip in the move. A QP that is
 * connected to itself sends nothing, and gets STANDBY.
 */
void mv_move_tell_standby(struct mv_move *m, const struct mv_ctl_end *mine, const union ibv_gid *peer_gid, uint8_t type,
			  uint16_t lid, uint16_t mtu_bytes, bool ready);

/**
 * mv_move_start - the QP is to leave its path
 * @reason: MV_CTL_REASON_PORT, _PATH, _DRAIN or _PRIMARY
 * @paths: @n_paths, best first, copied; only a leader's are used (the caller of a follower checks the leader's path at
 * PREPARE)
 *
 * On an end that is settled. During a move, as long as nothing is drained, a leader begins anew with these paths. A
 * follower whose leader is unsure tells the leader.
 *
 * Return: 0; -EBUSY: drained already, or still being connected: call again after ACTIVATE; -EINVAL: the QP has failed.
 */
int mv_move_start(struct mv_move *m, enum mv_ctl_reason reason, const struct mv_path *paths, size_t n_paths,
		  uint64_t now_ns);

/**
 * mv_move_expect - the path may be found dead soon: agree on another one meanwhile
 * @paths: as for mv_move_start()
 *
 * On a leader that is settled. As mv_move_start() with MV_CTL_REASON_PATH, but neither end does what its program could notice. PREPARE and
 * CONNECT (@early) take QPs that were made in advance, and fail where there are none. The leader's QUIESCE and all that
 * follows wait for mv_move_sure(); a follower has no QUIESCE. The QPs take their places only then: the leader's with
 * QUIESCE, the follower's with DRAIN. After mv_move_cancel(), or without an agreement, STAY is @unsure.
 *
 * Return: 0; -EBUSY, -EINVAL: not on such an end.
 */
int mv_move_expect(struct mv_move *m, const struct mv_path *paths, size_t n_paths, uint64_t now_ns);

/**
 * mv_move_sure - the path of mv_move_expect() is dead
 * @reason: MV_CTL_REASON_PORT or _PATH
 *
 * The agreement holds. The peer may say the same. Without effect on an end that does not move on a suspicion.
 */
void mv_move_sure(struct mv_move *m, enum mv_ctl_reason reason, uint64_t now_ns);

/**
 * mv_move_cancel - the reason to move is gone (e.g. the port came back before DRAIN)
 *
 * The old QP has to be able to go on: a QP that went to ERR by itself has to be moved. If the peer has a reason of its
 * own, or has got CONFIRM, the move goes on. A follower can call off only its own wish. STAY tells that the move is
 * off.
 */
void mv_move_cancel(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_refuse - no move at all
 * @reason: MV_CTL_REASON_OFF, _UNSUPPORTED, _NO_PATH, ...
 *
 * Answers WANTED, QUIESCE, or (instead of mv_move_prepared()) PREPARE of a live QP. A follower whose leader is unsure calls this when it
 * cannot keep its answer; the leader may be sure by then, and have drained. The peer is told and stays where it is.
 */
void mv_move_refuse(struct mv_move *m, enum mv_ctl_reason reason, uint64_t now_ns);

/**
 * mv_move_abort - the program brought its QP to ERR, and may keep it
 *
 * A move under way is called off (STAY, FLUSH), and the peer is told. No other move begins.
 */
void mv_move_abort(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_drained - outcome of DRAIN
 * @sync: what the old QP executed; NULL: not known (the device is gone): FLUSH follows
 *
 * The receives must be on the new QP by now, for the peer may send.
 */
void mv_move_drained(struct mv_move *m, const struct mv_move_sync *sync, uint64_t now_ns);

/**
 * mv_move_quiesced - outcome of QUIESCE: no atomic is outstanding that the drain could lose
 * @many: many QPs move at once, so a saved message is worth more than a simultaneous drain of both ends: a leader sends
 * no CONFIRM before its SYNC, which implies it, unless the drain takes failover_resend_ns
 */
void mv_move_quiesced(struct mv_move *m, bool many, uint64_t now_ns);

/**
 * mv_move_owes_sync - may the peer have drained its QP, and wait for our SYNC?
 *
 * If so, and the program destroys its QP (or brings it to ERR), the caller drains it and sends mv_move_last_sync()
 * before it tells the peer that the QP is gone. Afterwards nobody could tell what the QP had executed.
 */
bool mv_move_owes_sync(const struct mv_move *m);

/** mv_move_last_sync - make that last SYNC; @sync: as for mv_move_drained(); in DRAINED use @m->sync.mine */
void mv_move_last_sync(const struct mv_move *m, const struct mv_move_sync *sync, struct mv_ctl_msg *ret);

#endif
