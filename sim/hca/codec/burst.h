/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RoCE v2 packets that travel in one frame. The kernel's way from one host to the other takes a processor longer than all the rest of a
 * small packet, and a real wire does not; with hundreds of queue pairs there are always several on the same way. The frame is a RoCE
 * v2 packet itself, with the addresses and the destination QPN of its first one, so switches, routers and filters do with it what
 * they would do with that:
 *
 *   Ethernet, IP, UDP, BTH of the first, but for its opcode and the lengths | { length: 2 bytes, big-endian | frame } ...
 *
 * Its opcode is one of those that the InfiniBand Architecture Specification (volume 1, section 9.2.1) leaves to manufacturers. It has no
 * ICRC; those in it have theirs. Pure functions over the caller's memory, callable from any thread.
 */
#ifndef SIM_BURST_H
#define SIM_BURST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define BURST_HEAD_MAX (WIRE_ETH_LEN + 40 + WIRE_UDP_LEN + WIRE_BTH_LEN)
#define BURST_LENGTH   2 /* bytes before each frame */

/**
 * burst_head_len() - how many bytes of header a burst that begins with a frame has.
 * @frame: complete, of wire_finish()
 *
 * Return: bytes; 0 if it can be in none: it is not RoCE v2.
 */
size_t burst_head_len(uint8_t *frame, size_t len);

/** burst_joins() - may a frame be in the burst of another? It goes the same way, and its QPN has the same bits from @qpn_shift on.
 * Both are of wire_finish(). */
bool burst_joins(uint8_t *first, size_t first_len, uint8_t *frame, size_t len, unsigned int qpn_shift);

/**
 * burst_head() - write the header of a burst.
 * @ret: burst_head_len() bytes
 * @first: its first frame, of which burst_head_len() is not 0
 * @bytes: all that follows the header
 */
void burst_head(uint8_t *ret, uint8_t *first, size_t len, size_t bytes);

/** burst_length() - write what is before a frame of @len bytes: BURST_LENGTH bytes */
void burst_length(uint8_t *ret, size_t len);

struct burst {
	uint8_t *next, *end;
};

/** burst_open() - Return: whether a frame, any bytes whatever, is a burst; then *ret is before its first frame. */
bool burst_open(struct burst *ret, uint8_t *frame, size_t len);

/** burst_next() - Return: the next frame, in the memory of burst_open(); NULL after the last one, and if what follows is none. */
uint8_t *burst_next(struct burst *b, size_t *ret_len);

#endif
