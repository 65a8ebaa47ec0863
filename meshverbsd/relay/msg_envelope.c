/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "msg_envelope.h"

#include <errno.h>

#include "fields.h"
#include "ctl.h"

#define ENVELOPE_VERSION 1

_Static_assert(MV_CTL_MAX_BYTES + 20 <= MD_PAYLOAD_MAX_BYTES, "a message fits a datagram");

size_t md_envelope_encode(const struct md_envelope *envelope, uint8_t *buf)
{
	struct md_writer w = {.buf = buf, .size = MD_PAYLOAD_MAX_BYTES};

	md_put8(&w, ENVELOPE_VERSION);
	md_put8(&w, (uint8_t)envelope->op);
	md_put16(&w, envelope->len);
	md_put64(&w, envelope->id);
	md_put64(&w, envelope->start);
	if (envelope->len)
		md_put(&w, envelope->data, envelope->len);
	return w.len;
}

int md_envelope_decode(const uint8_t *buf, size_t len, struct md_envelope *ret)
{
	struct md_reader r = {.buf = buf, .len = len};
	struct md_envelope envelope;

	if (len && buf[0] != ENVELOPE_VERSION)
		return -EPROTONOSUPPORT;
	md_get8(&r);
	envelope.op = md_get8(&r);
	envelope.len = md_get16(&r);
	envelope.id = md_get64(&r);
	envelope.start = md_get64(&r);
	envelope.data = md_get(&r, envelope.len);
	if (r.bad || r.at != r.len)
		return -EBADMSG;
	switch (envelope.op) {
	case MD_MSG_DATA:
		if (!envelope.len || envelope.len > MV_CTL_MAX_BYTES || envelope.start)
			return -EBADMSG;
		break;
	case MD_MSG_ACK:
		if (envelope.len)
			return -EBADMSG;
		break;
	default:
		return -EBADMSG;
	}
	*ret = envelope;
	return 0;
}
