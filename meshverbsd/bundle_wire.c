/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "bundle_wire.h"

#include <errno.h>

#include "ctl.h"

#define BUNDLE_VERSION 1
#define N_AT           2 /* where in the payload the number of them is */

_Static_assert(MV_CTL_MAX_BYTES + MD_BUNDLE_HEADER_BYTES + MD_BUNDLE_CARRY_BYTES <= MD_PAYLOAD_MAX_BYTES,
	       "a bundle has room for one message at least");

void md_bundle_begin(struct md_writer *w, uint8_t *buf, enum md_parcel_op op, uint64_t start)
{
	*w = (struct md_writer){.buf = buf, .size = MD_PAYLOAD_MAX_BYTES};
	md_put8(w, BUNDLE_VERSION);
	md_put8(w, (uint8_t)op);
	md_put16(w, 0);
	md_put64(w, start);
}

bool md_bundle_add(struct md_writer *w, const struct md_parcel_wire *parcel)
{
	bool carry = parcel->op == MD_PARCEL_CARRY;
	size_t bytes = carry ? MD_BUNDLE_CARRY_BYTES + (size_t)parcel->len : MD_BUNDLE_RECEIPT_BYTES;

	if (bytes > w->size - w->len)
		return false;
	md_put64(w, parcel->id);
	if (carry) {
		md_put16(w, parcel->len);
		md_put(w, parcel->data, parcel->len);
	}
	return true;
}

size_t md_bundle_end(struct md_writer *w, uint16_t n)
{
	n = htobe16(n);
	memcpy(w->buf + N_AT, &n, sizeof(n));
	return w->len;
}

static void get_parcel(struct md_reader *r, enum md_parcel_op op, uint64_t start, struct md_parcel_wire *ret)
{
	*ret = (struct md_parcel_wire){.op = op, .start = start, .id = md_get64(r)};
	if (op != MD_PARCEL_CARRY)
		return;
	ret->len = md_get16(r);
	ret->data = md_get(r, ret->len);
}

static bool parcels_valid(struct md_bundle_wire bundle)
{
	struct md_parcel_wire parcel;

	for (unsigned int i = 0; i < bundle.n && !bundle.left.bad; i++) {
		md_bundle_next(&bundle, &parcel);
		if (bundle.op == MD_PARCEL_CARRY && (!parcel.len || parcel.len > MV_CTL_MAX_BYTES))
			return false;
	}
	return !bundle.left.bad && bundle.left.at == bundle.left.len;
}

int md_bundle_decode(const uint8_t *buf, size_t len, struct md_bundle_wire *ret)
{
	struct md_reader r = {.buf = buf, .len = len};
	struct md_bundle_wire bundle;

	if (len && buf[0] != BUNDLE_VERSION)
		return -EPROTONOSUPPORT;
	md_get8(&r);
	bundle.op = md_get8(&r);
	bundle.n = md_get16(&r);
	bundle.start = md_get64(&r);
	bundle.left = r;
	if (r.bad || (bundle.op != MD_PARCEL_CARRY && bundle.op != MD_PARCEL_RECEIPT) ||
	    (bundle.op == MD_PARCEL_CARRY && bundle.start) || !parcels_valid(bundle))
		return -EBADMSG;
	*ret = bundle;
	return 0;
}

void md_bundle_next(struct md_bundle_wire *bundle, struct md_parcel_wire *ret)
{
	get_parcel(&bundle->left, bundle->op, bundle->start, ret);
}
