/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_CLIENTPAIRS_H
#define UNIT_CLIENTPAIRS_H

#include "unit.h"

#include "client.h"
#include "control.h"

/*
 * Clients of the agent over socket pairs, without a daemon around them. The operations that the daemon gives to md_clients
 * are recorded here: messages sent, clients gone, paths watched.
 */

extern struct md_clients clients;
extern const struct mv_host_id sender; /* the host that messages for clients come from */
extern unsigned int n_sent, n_gone; /* messages sent, clients gone */
extern struct mv_ctl_msg sent; /* the last message sent */

extern bool probing; /* the agent probes paths */
extern struct md_client *watcher; /* the client that watched a path last */
extern uint8_t watched; /* the last watch */
extern int watch_result; /* returned to the next watches */

extern bool asks; /* returned when a client looks for a GID */

/** setup, teardown - @clients without a kernel to ask: every registration is trusted */
int setup(void **state);
int teardown(void **state);

void run_events(void);
/** join - returns the client's end of a new connection */
int join(void);
/** put - sends @frame to the agent, and lets the agent run */
void put(int fd, const struct mv_frame *frame);
/** next_frame - returns the type of the next frame; 0: none; -1: the connection is closed */
int next_frame(int fd, struct mv_frame *ret);
/** registered - returns a new connection that is registered; all frames of the registration are read */
int registered(void);
void register_qp(int fd, const char *device, uint32_t qpn);
void unregister_qp(int fd, const char *device, uint32_t qpn);

extern uint32_t named; /* the receiver's attempt in the next messages */

/** send_message - from QP @from_qpn at GID @from to QP 9 at 10.1.0.2 */
void send_message(int fd, const char *from, uint32_t from_qpn);

/**
 * pack, pack_registration - append a frame, or the registration of a QP of mlx5_0, to the @len bytes in @buf; return
 * the new length
 */
size_t pack(uint8_t *buf, size_t len, const struct mv_frame *frame);
size_t pack_registration(uint8_t *buf, size_t len, uint32_t qpn);
/** has_qp - is the QP of mlx5_0 registered? */
bool has_qp(uint32_t qpn);
/** send_registrations - registrations of the QPs @from to @to of mlx5_0 in one pack; the agent does not run yet */
void send_registrations(int fd, uint32_t from, uint32_t to);

#endif
