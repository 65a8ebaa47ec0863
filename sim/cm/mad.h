/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Messages of the communication manager as a struct and as the 256 bytes of a MAD. Pure functions.
 * Layouts: InfiniBand Architecture Specification, volume 1, chapters 12.6 (messages), 12.11 (SIDR)
 * and 13.4.3 (MAD header).
 */
#ifndef SIM_CM_MAD_H
#define SIM_CM_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAD_BYTES          256
#define MAD_MAX_PRIVATE    224
#define MAD_ARI_BYTES      72
#define MAD_LID_PERMISSIVE 0xffff

/* AttributeID of the ComMgt class. */
enum mad_attr {
	MAD_REQ = 0x10,
	MAD_MRA,
	MAD_REJ,
	MAD_REP,
	MAD_RTU,
	MAD_DREQ,
	MAD_DREP,
	MAD_SIDR_REQ,
	MAD_SIDR_REP,
};

/* Which message an MRA or a REJ is about. */
enum mad_about { MAD_ABOUT_REQ, MAD_ABOUT_REP, MAD_ABOUT_OTHER };

enum mad_transport { MAD_RC, MAD_UC, MAD_RD };

/* Reasons of a REJ. */
enum mad_reason {
	MAD_REJ_NO_RESOURCES = 3,
	MAD_REJ_TIMEOUT = 4,
	MAD_REJ_UNSUPPORTED = 5,
	MAD_REJ_INVALID_SERVICE_ID = 8,
	MAD_REJ_STALE_CONN = 10,
	MAD_REJ_CONSUMER = 28,
};

/* Status of a SIDR_REP. */
enum mad_sidr_status { MAD_SIDR_OK, MAD_SIDR_UNSUPPORTED, MAD_SIDR_REJECT };

/* The primary path of a REQ, as its sender sees it. */
struct mad_path {
	uint8_t local_gid[16], remote_gid[16];
	uint16_t local_lid, remote_lid;
	uint32_t flow_label; /* 20 bits */
	uint8_t rate, traffic_class, hop_limit, sl;
	bool subnet_local;
	uint8_t ack_timeout; /* 4.096 us * 2^n */
};

/* What only a REQ has. Owned by whoever has the message: no lock. */
struct mad_req {
	uint8_t remote_timeout, local_timeout; /* CM response timeouts, 4.096 us * 2^n */
	uint8_t transport; /* enum mad_transport */
	uint8_t max_cm_retries;
	uint8_t mtu; /* IBV_MTU_* */
	struct mad_path path;
};

/* What only a REJ has. Owned by whoever has the message: no lock. */
struct mad_rej {
	uint16_t reason; /* enum mad_reason */
	uint8_t ari[MAD_ARI_BYTES], ari_len;
};

/* Of each message the members that its layout has; the others are zero. Host byte order. */
struct mad {
	uint16_t attr; /* enum mad_attr */
	uint64_t tid;
	uint32_t local_id, remote_id; /* communication IDs of sender and receiver; SIDR: the request
					 ID is local_id in both */
	uint64_t service_id; /* REQ, SIDR */
	uint64_t ca_guid; /* REQ, REP */
	uint32_t qpn; /* REQ, REP, SIDR_REP: the sender's; DREQ: the receiver's */
	uint32_t qkey; /* SIDR_REP */
	uint32_t starting_psn; /* REQ, REP: what the receiver is to send first */
	uint8_t responder_resources, initiator_depth;
	bool flow_control, srq;
	uint8_t retry_count, rnr_retry_count;
	uint8_t ack_delay, failover; /* REP */
	uint16_t pkey; /* REQ, SIDR_REQ */
	struct mad_req req;
	uint8_t about; /* MRA, REJ: enum mad_about */
	uint8_t service_timeout; /* MRA */
	struct mad_rej rej;
	uint8_t status; /* SIDR_REP: enum mad_sidr_status */
	uint8_t private_data[MAD_MAX_PRIVATE];
	uint8_t private_len; /* encode: the rest is zero; decode: always mad_private_size() */
};

/** mad_private_size() - bytes of private data that messages of this kind have; 0 for an unknown
 * kind. */
uint8_t mad_private_size(uint16_t attr);

/**
 * mad_encode() - @m as a MAD.
 * @bytes: MAD_BYTES, all written.
 *
 * @m->attr must be one of enum mad_attr and @m->private_len at most mad_private_size().
 */
void mad_encode(const struct mad *m, uint8_t *bytes);

/**
 * mad_decode() - any bytes whatever as a message.
 *
 * Return: 0; -EPROTO for something that is no message of the communication manager, or one that is
 * not known here.
 */
int mad_decode(const uint8_t *bytes, size_t len, struct mad *ret);

#endif
