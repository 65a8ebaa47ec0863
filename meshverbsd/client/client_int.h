/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_CLIENT_INT_H
#define MD_CLIENT_INT_H

/* What the files of connections of processes share: client.c client_read.c client_frame.c client_claim.c client_put.c. */

#include <time.h>

#include "client.h"

static inline uint64_t md_client_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * MD_S + (uint64_t)now.tv_nsec;
}

/* client.c */

/** md_client_close - the end of a connection, which is found no more; @client is not the caller's any more */
void md_client_close(struct md_client *client);

/** md_client_unread - bytes that its process has not read, as the kernel counts them */
size_t md_client_unread(const struct md_client *client);

/* client_read.c: of the event loop */

/** md_client_on_readable - something has come in; @arg: the client */
int md_client_on_readable(sd_event_source *source, int fd, uint32_t revents, void *arg);
/** md_clients_on_backlog - the next account's next client may be read; @arg: the clients */
int md_clients_on_backlog(sd_event_source *source, uint64_t usec, void *arg);
/** md_client_leave_backlog - it does not wait to be read, if it did */
void md_client_leave_backlog(struct md_client *client);
/** md_clients_on_turn - the next one in the queue may ask; @arg: the clients */
int md_clients_on_turn(sd_event_source *source, uint64_t usec, void *arg);

/* client_frame.c */

/** md_client_frame - do what a frame asks for. Return: 0; -errno when the connection is of no use. */
int md_client_frame(struct md_client *client, const struct mv_frame *frame);

/* client_claim.c */

/**
 * md_client_has_to_wait - is the kernel to be asked, which may not be asked any more in this turn?
 *
 * What is his, or cannot be, needs no question.
 */
bool md_client_has_to_wait(const struct md_client *client, const struct mv_frame *frame);
/* A CLAIM; an UNCLAIM. A claim that is refused is counted, and its process is told. */
void md_client_claim(struct md_client *client, const struct mv_frame *frame);
void md_client_unclaim(struct md_client *client, const struct mv_frame *frame);
/**
 * md_clients_let_go - its owner has it no more
 * @qp: freed
 *
 * Who was refused because of that has it from now on.
 */
void md_clients_let_go(struct md_clients *clients, const struct md_qp *qp);
/**
 * md_clients_confirm - is the queue pair its owner's still, when the first message of it is sent or delivered?
 * @qp: of no owner any more, and freed, if not; the process is told
 *
 * The number may be another process's since it was claimed. The kernel is asked once, and after md_clients_doubt() (client.h) again.
 */
bool md_clients_confirm(struct md_clients *clients, struct md_qp *qp);

/* client_put.c */

/**
 * md_client_put - send it a frame, now or at the end of the turn
 *
 * One that does not read its socket loses messages; one that is gone shows by its hang-up.
 *
 * Return: whether it was sent, or will be.
 */
bool md_client_put(struct md_client *client, const struct mv_frame *frame);

#endif
