/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "parcel_wire.h"

#include <errno.h>

#include "fields.h"
#include "ctl.h"

#define PARCEL_VERSION 1

_Static_assert(MV_CTL_MAX_BYTES + 20 <= MD_PAYLOAD_MAX_BYTES, "a message fits a datagram");

size_t md_parcel_encode(const struct md_parcel_wire *parcel, uint8_t *buf)
{
	struct md_writer w = {.buf = buf, .size = MD_PAYLOAD_MAX_BYTES};

	md_put8(&w, PARCEL_VERSION);
	md_put8(&w, (uint8_t)parcel->op);
	md_put16(&w, parcel->len);
	md_put64(&w, parcel->id);
	md_put64(&w, parcel->start);
	if (parcel->len)
		md_put(&w, parcel->data, parcel->len);
	return w.len;
}

int md_parcel_decode(const uint8_t *buf, size_t len, struct md_parcel_wire *ret)
{
	struct md_reader r = {.buf = buf, .len = len};
	struct md_parcel_wire parcel;

	if (len && buf[0] != PARCEL_VERSION)
		return -EPROTONOSUPPORT;
	md_get8(&r);
	parcel.op = md_get8(&r);
	parcel.len = md_get16(&r);
	parcel.id = md_get64(&r);
	parcel.start = md_get64(&r);
	parcel.data = md_get(&r, parcel.len);
	if (r.bad || r.at != r.len)
		return -EBADMSG;
	switch (parcel.op) {
	case MD_PARCEL_CARRY:
		if (!parcel.len || parcel.len > MV_CTL_MAX_BYTES || parcel.start)
			return -EBADMSG;
		break;
	case MD_PARCEL_RECEIPT:
		if (parcel.len)
			return -EBADMSG;
		break;
	default:
		return -EBADMSG;
	}
	*ret = parcel;
	return 0;
}
