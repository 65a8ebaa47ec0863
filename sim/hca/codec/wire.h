/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RoCE packets: a packet as a struct, and as an Ethernet frame. Pure functions over caller memory;
 * no state, callable from any thread. Header layouts are those of the InfiniBand Architecture
 * Specification, volume 1, chapter 9, and its annexes A16 (RoCE) and A17 (RoCE v2).
 */
#ifndef SIM_WIRE_H
#define SIM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_ETH_LEN      14
#define WIRE_UDP_LEN      8
#define WIRE_BTH_LEN      12
#define WIRE_UDP_PORT     4791
#define WIRE_ETHERTYPE_V1 0x8915
#define WIRE_MAX_MTU      4096
#define WIRE_MAX_HEADERS  (14 + 40 + 8 + 12 + 28 + 4)
#define WIRE_MAX_FRAME    (WIRE_MAX_HEADERS + WIRE_MAX_MTU + 3 + 4)
#define WIRE_MCAST_QPN    0xffffff

/* BTH opcodes; RC has the prefix 0x00, UC 0x20, UD 0x60. */
enum wire_op {
	OP_SEND_FIRST = 0x00,
	OP_SEND_MIDDLE,
	OP_SEND_LAST,
	OP_SEND_LAST_IMM,
	OP_SEND_ONLY,
	OP_SEND_ONLY_IMM,
	OP_WRITE_FIRST,
	OP_WRITE_MIDDLE,
	OP_WRITE_LAST,
	OP_WRITE_LAST_IMM,
	OP_WRITE_ONLY,
	OP_WRITE_ONLY_IMM,
	OP_READ_REQUEST,
	OP_READ_RESP_FIRST,
	OP_READ_RESP_MIDDLE,
	OP_READ_RESP_LAST,
	OP_READ_RESP_ONLY,
	OP_ACK,
	OP_ATOMIC_ACK,
	OP_CMP_SWAP,
	OP_FETCH_ADD,
	OP_SEND_LAST_INV = 0x16,
	OP_SEND_ONLY_INV = 0x17,
	OP_UC = 0x20,
	OP_UD = 0x60,
};

#define OP_MASK      0x1f
#define OP_TRANSPORT 0xe0

/* What an opcode stands for; see wire_op_flags(). */
enum wire_op_flag {
	WIRE_VALID = 1 << 0,
	WIRE_RETH = 1 << 1,
	WIRE_AETH = 1 << 2,
	WIRE_ATOMIC = 1 << 3,
	WIRE_ATOMIC_ACK = 1 << 4,
	WIRE_IMM = 1 << 5,
	WIRE_DETH = 1 << 6,
	WIRE_IETH = 1 << 7,
	WIRE_PAYLOAD = 1 << 8,
	WIRE_START = 1 << 9, /* first or only packet of a message */
	WIRE_END = 1 << 10, /* last or only packet of a message */
	WIRE_SEND = 1 << 11,
	WIRE_WRITE = 1 << 12,
	WIRE_RESPONSE = 1 << 13, /* travels from responder to requester */
	WIRE_READ_RESP = 1 << 14,
};

/** wire_op_flags() - bits of enum wire_op_flag for a BTH opcode; 0 for one that is not supported
 * here. */
uint32_t wire_op_flags(uint8_t opcode);

/* AETH syndromes: the upper three bits say what, the lower five how much. */
#define AETH_ACK         0x1f /* credit count 31: no end-to-end credits */
#define AETH_RNR         0x20
#define AETH_NAK         0x60
#define AETH_TYPE        0xe0
#define AETH_NAK_SEQ     (AETH_NAK | 0)
#define AETH_NAK_INV_REQ (AETH_NAK | 1)
#define AETH_NAK_REM_ACC (AETH_NAK | 2)
#define AETH_NAK_REM_OP  (AETH_NAK | 3)

/* Everything below Ethernet that both ends of a path agree on. Addresses are GIDs; IPv4 as
 * ::ffff:a.b.c.d. */
struct wire_path {
	uint8_t smac[6], dmac[6];
	uint8_t sgid[16], dgid[16];
	bool v1;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint32_t flow_label;
	uint16_t udp_sport;
};

struct wire_packet {
	uint8_t opcode;
	bool solicited, ack_request;
	uint16_t pkey;
	uint32_t dest_qpn;
	uint32_t psn;

	uint64_t va; /* RETH, AtomicETH */
	uint32_t rkey; /* RETH, AtomicETH, IETH */
	uint32_t dma_len; /* RETH */
	uint64_t swap_add, compare; /* AtomicETH */
	uint8_t syndrome; /* AETH */
	uint32_t msn; /* AETH */
	uint64_t atomic_orig; /* AtomicAckETH */
	uint32_t imm; /* ImmDt: the four bytes as they lie in memory */
	uint32_t qkey, src_qpn; /* DETH */

	uint8_t *payload; /* encode: where to put it (set by wire_begin()); decode: where it is */
	uint32_t payload_len;

	/* decode only */
	uint8_t sgid[16], dgid[16];
	uint8_t smac[6];
	bool v1;
	const uint8_t *l3; /* IP header or GRH */
	uint8_t l3_len; /* 20 or 40 */
};

/**
 * wire_begin() - write all headers of @p into @frame and set @p->payload to the byte after them.
 * @frame: WIRE_MAX_FRAME bytes.
 *
 * @p->payload_len must be final; the caller then copies the payload and calls wire_finish().
 */
void wire_begin(uint8_t *frame, const struct wire_path *path, struct wire_packet *p);

/** wire_finish() - pad the payload and append the ICRC. Return: length of the frame in bytes. */
size_t wire_finish(uint8_t *frame, const struct wire_path *path, const struct wire_packet *p);

/** wire_ipv4_checksum() - of a header of 20 bytes whose checksum is 0 */
uint16_t wire_ipv4_checksum(const uint8_t *ip);

/**
 * wire_bth() - what is before the BTH.
 * @frame: any bytes whatever.
 * @len: of it; shrinks to the length that its headers give.
 * @ret: what is for decode only is filled.
 *
 * Return: the BTH, or NULL if the frame is no RoCE packet.
 */
uint8_t *wire_bth(uint8_t *frame, size_t *len, struct wire_packet *ret);

/** wire_peek_qpn() - the destination QPN of a frame, whatever else is in it. Return: 0 if it is not a RoCE packet. */
uint32_t wire_peek_qpn(uint8_t *frame, size_t len);

/**
 * wire_decode() - parse an Ethernet frame.
 * @frame: any bytes whatever.
 * @ret: filled on success; points into @frame.
 *
 * Return: 0; -EPROTO for something that is not a RoCE packet or not well-formed; -EBADMSG for a
 * wrong ICRC.
 */
int wire_decode(uint8_t *frame, size_t len, struct wire_packet *ret);

#endif
