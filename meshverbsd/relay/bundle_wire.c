/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "bundle_wire.h"

#include <errno.h>

#include "ctl.h"

#define BUNDLE_VERSION 2 /* version 1 had complete messages */
#define N_AT           2 /* offset of the number of entries */

#define ID_BYTES       8
#define LENGTH_BYTES   2

_Static_assert(ID_BYTES + MV_CTL_MAX_BYTES <= MD_DELTA_RECORD_MAX_BYTES, "any message is a record");
_Static_assert(MD_BUNDLE_HEADER_BYTES + LENGTH_BYTES + MD_DELTA_WIRE_BYTES(ID_BYTES + MV_CTL_MAX_BYTES) <= MD_PAYLOAD_MAX_BYTES,
	       "a bundle has room for one message at least");

void md_bundle_begin(struct md_bundle_writer *w, uint8_t *buf, enum md_msg_op op, uint64_t start)
{
	w->w = (struct md_writer){.buf = buf, .size = MD_PAYLOAD_MAX_BYTES};
	memset(&w->delta, 0, sizeof(w->delta));
	md_put8(&w->w, BUNDLE_VERSION);
	md_put8(&w->w, (uint8_t)op);
	md_put16(&w->w, 0);
	md_put64(&w->w, start);
}

static bool add_message(struct md_bundle_writer *w, const struct md_envelope *envelope)
{
	const struct md_writer before = w->w;
	uint8_t record[ID_BYTES + MV_CTL_MAX_BYTES];
	uint64_t id = htobe64(envelope->id);

	memcpy(record, &id, ID_BYTES);
	memcpy(record + ID_BYTES, envelope->data, envelope->len);
	md_put16(&w->w, envelope->len);
	if (md_delta_put(&w->w, &w->delta, record, ID_BYTES + (size_t)envelope->len))
		return true;
	w->w = before;
	return false;
}

bool md_bundle_add(struct md_bundle_writer *w, const struct md_envelope *envelope)
{
	if (envelope->op == MD_MSG_DATA)
		return add_message(w, envelope);
	if (w->w.size - w->w.len < MD_BUNDLE_ACK_BYTES)
		return false;
	md_put64(&w->w, envelope->id);
	return true;
}

size_t md_bundle_end(struct md_bundle_writer *w, uint16_t n)
{
	n = htobe16(n);
	memcpy(w->w.buf + N_AT, &n, sizeof(n));
	return w->w.len;
}

static void get_message(struct md_bundle_wire *bundle, struct md_envelope *ret)
{
	uint64_t id;

	ret->len = md_get16(&bundle->left);
	if (!ret->len || ret->len > MV_CTL_MAX_BYTES)
		bundle->left.bad = true;
	else
		md_delta_get(&bundle->left, &bundle->delta, ID_BYTES + (size_t)ret->len);
	memcpy(&id, bundle->delta.last, ID_BYTES);
	ret->id = be64toh(id);
	ret->data = bundle->delta.last + ID_BYTES;
}

void md_bundle_next(struct md_bundle_wire *bundle, struct md_envelope *ret)
{
	*ret = (struct md_envelope){.op = bundle->op, .start = bundle->start};
	if (bundle->op == MD_MSG_DATA)
		get_message(bundle, ret);
	else
		ret->id = md_get64(&bundle->left);
}

/* @bundle: a copy */
static bool envelopes_valid(struct md_bundle_wire bundle)
{
	struct md_envelope envelope;

	for (unsigned int i = 0; i < bundle.n && !bundle.left.bad; i++)
		md_bundle_next(&bundle, &envelope);
	return !bundle.left.bad && bundle.left.at == bundle.left.len;
}

int md_bundle_decode(const uint8_t *buf, size_t len, struct md_bundle_wire *ret)
{
	struct md_reader r = {.buf = buf, .len = len};
	struct md_bundle_wire bundle = {.n = 0};

	if (len && buf[0] != BUNDLE_VERSION)
		return -EPROTONOSUPPORT;
	md_get8(&r);
	bundle.op = md_get8(&r);
	bundle.n = md_get16(&r);
	bundle.start = md_get64(&r);
	bundle.left = r;
	if (r.bad || (bundle.op != MD_MSG_DATA && bundle.op != MD_MSG_ACK) ||
	    (bundle.op == MD_MSG_DATA && bundle.start) || !envelopes_valid(bundle))
		return -EBADMSG;
	*ret = bundle;
	return 0;
}
