/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "beacon.h"

#include <errno.h>

#include "fields.h"

_Static_assert(MD_PIECES_MAX < MD_NO_PIECE, "the number of a piece is one byte");
_Static_assert(MD_PIECE_BYTES + 92 <= MD_PAYLOAD_MAX_BYTES, "a piece fits a datagram");

unsigned int md_beacon_pieces(uint32_t desc_bytes)
{
	return (desc_bytes + MD_PIECE_BYTES - 1) / MD_PIECE_BYTES;
}

/* Length of a piece; 0: MD_NO_PIECE, or beyond the last one. */
static uint16_t piece_bytes(uint32_t desc_bytes, uint8_t piece)
{
	uint32_t from = (uint32_t)piece * MD_PIECE_BYTES;

	if (piece == MD_NO_PIECE || from >= desc_bytes)
		return 0;
	return (uint16_t)(desc_bytes - from < MD_PIECE_BYTES ? desc_bytes - from : MD_PIECE_BYTES);
}

void md_beacon_cut(struct md_beacon *beacon, const uint8_t *desc, uint8_t piece)
{
	beacon->piece = piece;
	beacon->piece_bytes = piece_bytes(beacon->desc_bytes, piece);
	beacon->data = piece == MD_NO_PIECE ? NULL : desc + (size_t)piece * MD_PIECE_BYTES;
}

size_t md_beacon_encode(const struct md_beacon *beacon, uint8_t *buf)
{
	struct md_writer w = {.buf = buf, .size = MD_PAYLOAD_MAX_BYTES};

	md_put8(&w, MD_BEACON_VERSION);
	md_put8(&w, beacon->piece);
	md_put16(&w, beacon->rail);
	md_put16(&w, beacon->agent_version);
	md_put16(&w, beacon->piece_bytes);
	md_put32(&w, beacon->interval_ms);
	md_put32(&w, beacon->desc_bytes);
	md_put64(&w, beacon->generation);
	md_put_text(&w, beacon->name);
	if (beacon->piece_bytes)
		md_put(&w, beacon->data, beacon->piece_bytes);
	return w.len;
}

int md_beacon_decode(const uint8_t *buf, size_t len, struct md_beacon *ret)
{
	struct md_reader r = {.buf = buf, .len = len};
	struct md_beacon beacon;

	if (len && buf[0] != MD_BEACON_VERSION)
		return -EPROTONOSUPPORT;
	md_get8(&r);
	beacon.piece = md_get8(&r);
	beacon.rail = md_get16(&r);
	beacon.agent_version = md_get16(&r);
	beacon.piece_bytes = md_get16(&r);
	beacon.interval_ms = md_get32(&r);
	beacon.desc_bytes = md_get32(&r);
	beacon.generation = md_get64(&r);
	md_get_text(&r, beacon.name, sizeof(beacon.name));
	beacon.data = md_get(&r, beacon.piece_bytes);
	if (r.bad || r.at != r.len)
		return -EBADMSG;
	if (!beacon.agent_version || !beacon.interval_ms || beacon.interval_ms > MD_INTERVAL_MAX_MS)
		return -EBADMSG;
	if (beacon.rail >= MD_RAILS_MAX && beacon.rail != MD_NO_RAIL)
		return -EBADMSG;
	if (beacon.desc_bytes < 4 || beacon.desc_bytes > MD_DESC_BYTES_MAX)
		return -EBADMSG;
	/* Also refuses a piece beyond the last one, whose length would be 0. */
	if (beacon.piece_bytes != piece_bytes(beacon.desc_bytes, beacon.piece) ||
	    (beacon.piece != MD_NO_PIECE && !beacon.piece_bytes))
		return -EBADMSG;
	*ret = beacon;
	return 0;
}
