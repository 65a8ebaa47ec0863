/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* mv_ctl_decode() and mv_frame_decode() on any bytes: what they take, the encoders give back. */
#include "fuzz.h"

#include <string.h>

#include "ctl.h"

static void check_text(const char *text, size_t size)
{
	FUZZ_CHECK(strnlen(text, size) < size);
	for (; *text; text++)
		FUZZ_CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_message(const uint8_t *buf, size_t size)
{
	uint8_t again[MV_CTL_MAX_BYTES];
	struct mv_ctl_keys keys;
	struct mv_ctl_msg msg;

	if (mv_ctl_decode_keys(buf, size, &msg, &keys))
		return;
	FUZZ_CHECK(msg.type >= MV_CTL_HELLO && msg.type < MV_CTL_TYPE_END);
	FUZZ_CHECK(msg.from.qpn <= 0xffffff && msg.to.qpn <= 0xffffff && msg.path.qpn <= 0xffffff);
	FUZZ_CHECK(strcmp(mv_ctl_type_name(msg.type), "unknown"));
	FUZZ_CHECK(strcmp(mv_ctl_reason_text(msg.reason), "unknown"));
	FUZZ_CHECK(mv_ctl_encode_keys(&msg, &keys, again) == size);
	FUZZ_CHECK(!memcmp(buf, again, size));
}

static void check_frame(const uint8_t *buf, size_t size)
{
	uint8_t again[MV_FRAME_MAX_BYTES];
	struct mv_frame frame;

	if (mv_frame_decode(buf, size, &frame))
		return;
	FUZZ_CHECK(strcmp(mv_frame_type_name(frame.type), "unknown"));
	FUZZ_CHECK(frame.len <= MV_CTL_MAX_BYTES && frame.qpn <= 0xffffff);
	check_text(frame.device, sizeof(frame.device));
	if (frame.type == MV_FRAME_REGISTER || frame.type == MV_FRAME_STATUS)
		check_text((char *)frame.payload, sizeof(frame.payload));
	FUZZ_CHECK(size <= MV_FRAME_MAX_BYTES);
	FUZZ_CHECK(mv_frame_encode(&frame, again) == size);
	FUZZ_CHECK(!memcmp(buf, again, size));
	check_message(frame.payload, frame.len);
}

/* Frames behind each other: each is what it would be alone. */
static void check_pack(const uint8_t *buf, size_t size)
{
	struct mv_frame frame;
	size_t used;

	while (!mv_frame_take(buf, size, &used, &frame)) {
		FUZZ_CHECK(used && used <= size);
		check_frame(buf, used);
		buf += used;
		size -= used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *buf = malloc(size ? size : 1);

	/* A copy of exact size, so that the sanitizer sees one byte too far. */
	FUZZ_CHECK(buf);
	memcpy(buf, data, size);
	check_message(buf, size);
	check_frame(buf, size);
	check_pack(buf, size);
	free(buf);
	return 0;
}
