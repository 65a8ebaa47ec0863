/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_CLIENT_INT_H
#define MD_CLIENT_INT_H

/* Shared by client*.c only. */

#include <time.h>

#include "client.h"

static inline uint64_t md_client_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * MD_S + (uint64_t)now.tv_nsec;
}

/* client.c */

/** md_client_close - end a connection; frees @client, perhaps later */
void md_client_close(struct md_client *client);

/** md_client_unread - bytes that the process has not read, as the kernel counts them */
size_t md_client_unread(const struct md_client *client);

/* client_read.c: event sources */

/** md_client_on_readable - a socket is readable; @arg: the client */
int md_client_on_readable(sd_event_source *source, int fd, uint32_t revents, void *arg);
/** md_clients_on_backlog - read the next client of the next account in line; @arg: the clients */
int md_clients_on_backlog(sd_event_source *source, uint64_t usec, void *arg);
/** md_client_leave_backlog - remove the client from its account's queue, if it is there */
void md_client_leave_backlog(struct md_client *client);
/** md_clients_on_turn - the next process in line may ask the kernel; @arg: the clients */
int md_clients_on_turn(sd_event_source *source, uint64_t usec, void *arg);

/* client_frame.c */

/** md_client_frame - handle a frame. Return: 0; -errno: close the connection */
int md_client_frame(struct md_client *client, const struct mv_frame *frame);

/* client_register.c */

/**
 * md_client_has_to_wait - does the frame need a question to the kernel, while none is left in this iteration?
 *
 * A registration needs none for a QP that is the client's already, or cannot become so. A message needs one if
 * md_clients_asks() for its own QP, or for the receiver's on this host.
 */
bool md_client_has_to_wait(const struct md_client *client, const struct mv_frame *frame);
/* Handle REGISTER_QP and UNREGISTER_QP. A refused registration is counted, and the process is told. */
void md_client_register_qp(struct md_client *client, const struct mv_frame *frame);
void md_client_unregister_qp(struct md_client *client, const struct mv_frame *frame);
/**
 * md_clients_let_go - the owner of a QP gives it up
 * @qp: freed
 *
 * A client that was refused the QP gets it.
 */
void md_clients_let_go(struct md_clients *clients, const struct md_qp *qp);
/**
 * md_clients_confirm - does the owner of a QP still own it? Called when its first message is sent or delivered
 * @qp: freed if not; then the process is told. If the kernel cannot be asked now, the registration stays, and the next
 * message asks again
 *
 * The number may have been reused since the registration. The kernel is asked once, and again after md_clients_doubt()
 * (client.h).
 */
bool md_clients_confirm(struct md_clients *clients, struct md_qp *qp);

/* client_put.c */

/**
 * md_client_welcome - answer REGISTER: WELCOME, PROBES if @probes, PACKS, SENDERS
 *
 * Those for which there is no room now are sent before any other frame.
 */
void md_client_welcome(struct md_client *client, bool probes);
/**
 * md_client_put - send a frame to a client, now or at the end of the iteration
 *
 * If the process does not read, messages are lost. If it is gone, the socket hangs up.
 *
 * Return: true: sent, or will be.
 */
bool md_client_put(struct md_client *client, const struct mv_frame *frame);
/** md_client_on_writable - the socket of a client that was @out.blocked has room, or may have */
void md_client_on_writable(struct md_client *client);

#endif
