/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One connection of the communication manager: the state machine of IBTA volume 1, 12.9, and the
 * exchange of 12.11 for datagrams. Pure: messages, calls and time go in; what is to be sent and
 * told comes out. Timers and attributes are those of Linux' ib_cm and rdma_cm.
 */
#ifndef SIM_CM_CONN_H
#define SIM_CM_CONN_H

#include "mad.h"

#define CM_RESPONSE_TIMEOUT 20 /* 4.096 us * 2^n */
#define CM_MAX_RETRIES      15
#define CM_MRA_TIMEOUT      24
#define CM_PACKET_LIFETIME  18 /* of RoCE in Linux 6.1 (newer kernels take 16); what OpenSM answers by default */
#define CM_PKEY             0xffff /* of RoCE, and of every netdev of IPoIB */
#define CM_ACK_DELAY        16 /* of the HCA; cmd_dev.c says the same */

/* Where messages and the connection itself go. GIDs of RoCE are addresses, those of InfiniBand the ports' index 0. */
struct cm_path {
	uint32_t dev, port, sgid_index; /* index into the state's devices; port from 1 */
	uint32_t ifindex;
	uint8_t sgid[16], dgid[16], smac[6], dmac[6];
	uint16_t slid, dlid; /* 0 on RoCE */
	uint16_t pkey_index;
	bool v1;
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	uint8_t mtu; /* IBV_MTU_* */
	uint8_t rate; /* IBV_RATE_* */
	uint8_t lifetime; /* 4.096 us * 2^n */
};

enum conn_state {
	CONN_IDLE,
	CONN_REQ_SENT,
	CONN_REQ_RCVD,
	CONN_REP_SENT,
	CONN_REP_RCVD,
	CONN_ESTABLISHED,
	CONN_DREQ_SENT,
	CONN_DREQ_RCVD,
	CONN_TIMEWAIT,
	CONN_SIDR_REQ_SENT,
	CONN_SIDR_REQ_RCVD,
};

struct conn {
	enum conn_state state;
	uint32_t local_id, remote_id;
	uint64_t tid, local_guid, remote_guid;
	uint64_t service_id;
	bool active; /* sent the REQ */
	uint32_t local_qpn, remote_qpn;
	uint32_t rq_psn, sq_psn; /* what we, and what the peer, asked for as the first */
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	uint8_t ack_timeout;
	uint8_t transport; /* enum mad_transport */
	struct cm_path path;
	/* repetition of what awaits an answer */
	struct mad unanswered;
	uint64_t deadline_ns; /* 0 = no timer */
	uint32_t timeout_ms;
	uint8_t retries_left, max_retries;
};

/* What the program says to connect or to accept. */
struct conn_param {
	uint32_t qpn, qkey;
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	bool flow_control, srq;
	const uint8_t *private_data;
	uint8_t private_len;
};

enum conn_event {
	CONN_NOTHING,
	CONN_REP, /* the peer accepted */
	CONN_UP,
	CONN_REJECTED, /* status: enum mad_reason */
	CONN_UNREACHABLE, /* status: -ETIMEDOUT; datagrams: or enum mad_sidr_status */
	CONN_DOWN, /* status: 0, or -ETIMEDOUT if the peer did not answer */
	CONN_SIDR_REP,
	CONN_TIMEWAIT_EXIT,
};

/* Zeroed by every function that takes one. */
struct conn_out {
	bool send;
	struct mad mad;
	enum conn_event event;
	int status;
};

/** conn_ms() - 4.096 us * 2^n as ib_cm rounds it to milliseconds. */
uint32_t conn_ms(uint8_t n);

/** conn_connect() - send a REQ. @c is idle and has IDs, GUID, service, starting rq_psn and path.
 * Return: 0 or -EINVAL. */
int conn_connect(struct conn *c, const struct conn_param *p, uint64_t now_ns, struct conn_out *out);

/** conn_requested() - @c, idle with a local ID and a path, takes what a REQ says. */
void conn_requested(struct conn *c, const struct mad *req);

/** conn_accept() - answer a REQ. Return: 0, or -EINVAL in another state. */
int conn_accept(struct conn *c, const struct conn_param *p, uint64_t now_ns, struct conn_out *out);

/** conn_ready() - the side that sent the REQ is ready: send the RTU. Return: 0 or -EINVAL. */
int conn_ready(struct conn *c, struct conn_out *out);

/** conn_reject() - refuse a REQ, or a REP. Return: 0 or -EINVAL. */
int conn_reject(struct conn *c, uint16_t reason, const uint8_t *data, uint8_t len,
		struct conn_out *out);

/** conn_disconnect() - send a DREQ, or the answer to one. Return: 0 or -EINVAL. */
int conn_disconnect(struct conn *c, uint64_t now_ns, struct conn_out *out);

/** conn_notify() - the HCA saw a request before the RTU came. Return: 0 or -EINVAL. */
int conn_notify(struct conn *c, struct conn_out *out);

/** conn_close() - @c goes away: the last message to the peer, in any state. */
void conn_close(struct conn *c, struct conn_out *out);

/** conn_receive() - a message whose IDs belong to @c; anything that does not fit is ignored. */
void conn_receive(struct conn *c, const struct mad *m, uint64_t now_ns, struct conn_out *out);

/** conn_timer() - time went by. */
void conn_timer(struct conn *c, uint64_t now_ns, struct conn_out *out);

/** conn_ask() - SIDR_REQ with private data. Return: 0 or -EINVAL. */
int conn_ask(struct conn *c, const uint8_t *data, uint8_t len, uint64_t now_ns,
	     struct conn_out *out);

/** conn_asked() - @c, idle, takes what a SIDR_REQ says. */
void conn_asked(struct conn *c, const struct mad *req);

/** conn_tell() - SIDR_REP. @status: enum mad_sidr_status. Return: 0 or -EINVAL. */
int conn_tell(struct conn *c, uint8_t status, const struct conn_param *p, struct conn_out *out);

#endif
