/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_BEACON_H
#define MD_BEACON_H

#include <stddef.h>
#include <stdint.h>

#include "desc.h"
#include "secure.h"

/*
 * Payload of BEACON and ENTRY: a host's description. The header of the datagram (secure.h) has sender, start number and
 * order. The description is cut into pieces, one in each datagram. A sign of life has no piece: receivers that know the
 * generation do not need one.
 *
 * Pure.
 */

#define MD_BEACON_VERSION 1
#define MD_PIECE_BYTES 1000 /* with a header of at most 92 bytes it fits MD_PAYLOAD_MAX_BYTES */
#define MD_PIECES_MAX ((MD_DESC_BYTES_MAX + MD_PIECE_BYTES - 1) / MD_PIECE_BYTES)
#define MD_NO_PIECE 0xff
#define MD_NO_RAIL 0xffff /* an ENTRY does not name a rail */

struct md_beacon {
	char name[64]; /* name of the host; printable ASCII */
	uint16_t rail; /* rail that sends it, an index in the description; or MD_NO_RAIL */
	uint16_t agent_version; /* MV_CTL_VERSION, not 0 */
	uint32_t interval_ms; /* until the next one on this link; 1 .. MD_INTERVAL_MAX_MS */
	uint64_t generation; /* generation of the description, which grows with each change within one start */
	uint32_t desc_bytes; /* length of the whole description, 4 .. MD_DESC_BYTES_MAX */
	uint8_t piece; /* or MD_NO_PIECE */
	uint16_t piece_bytes;
	const uint8_t *data; /* piece_bytes bytes of the encoded description, from piece * MD_PIECE_BYTES */
};

/** md_beacon_pieces - number of pieces of a description of @desc_bytes */
unsigned int md_beacon_pieces(uint32_t desc_bytes);

/**
 * md_beacon_cut - set piece, piece_bytes and data; data points into @desc
 * @desc: encoded, beacon->desc_bytes long
 * @piece: below md_beacon_pieces(), or MD_NO_PIECE
 */
void md_beacon_cut(struct md_beacon *beacon, const uint8_t *desc, uint8_t piece);

/**
 * md_beacon_encode - encode
 * @buf: MD_PAYLOAD_MAX_BYTES
 *
 * Return: its length.
 */
size_t md_beacon_encode(const struct md_beacon *beacon, uint8_t *buf);

/**
 * md_beacon_decode - parse and check
 * @ret: written on success only; its data points into @buf
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_beacon_decode(const uint8_t *buf, size_t len, struct md_beacon *ret);

#endif
