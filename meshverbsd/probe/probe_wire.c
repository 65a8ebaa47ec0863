/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "probe_wire.h"

#include <errno.h>

#include "fields.h"

#define PROBE_VERSION 1

size_t md_probe_encode(const struct md_probe_wire *probe, uint8_t *buf)
{
	struct md_writer w = {.buf = buf, .size = MD_PROBE_BYTES};

	md_put8(&w, PROBE_VERSION);
	md_put8(&w, 0);
	md_put16(&w, 0);
	md_put32(&w, probe->dropped);
	md_put64(&w, probe->nonce);
	md_put64(&w, probe->number);
	return w.len;
}

int md_probe_decode(const uint8_t *buf, size_t len, struct md_probe_wire *ret)
{
	struct md_reader r = {.buf = buf, .len = len};
	struct md_probe_wire probe;

	if (len && buf[0] != PROBE_VERSION)
		return -EPROTONOSUPPORT;
	md_get8(&r);
	if (md_get8(&r) || md_get16(&r))
		return -EBADMSG;
	probe.dropped = md_get32(&r);
	probe.nonce = md_get64(&r);
	probe.number = md_get64(&r);
	if (r.bad || r.at != r.len)
		return -EBADMSG;
	*ret = probe;
	return 0;
}
