/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Codec of frames between a process and its agent. */
#include "ctl.h"

#include <errno.h>
#include <string.h>

#include "bytes.h"

/* Members that a type of frame has; all others are 0. */
enum {
	HAS_VERSION = 1,
	HAS_QP_TYPE = 2,
	HAS_DEVICE = 4,
	HAS_QPN = 8,
	HAS_DGID = 16,
	HAS_MESSAGE = 32,
	HAS_TEXT = 64,
	HAS_PATH = 128, /* instead of a payload: @sgid, @watch, @probed */
};

#define PATH_BYTES 18

static const struct {
	const char *name;
	unsigned int has;
} types[MV_FRAME_TYPE_END] = {
	[MV_FRAME_REGISTER] = {"register", HAS_VERSION | HAS_TEXT},
	[MV_FRAME_WELCOME] = {"welcome", HAS_VERSION},
	[MV_FRAME_REGISTER_QP] = {"register_qp", HAS_DEVICE | HAS_QPN | HAS_QP_TYPE},
	[MV_FRAME_UNREGISTER_QP] = {"unregister_qp", HAS_DEVICE | HAS_QPN},
	[MV_FRAME_SEND] = {"send", HAS_DGID | HAS_MESSAGE},
	[MV_FRAME_DELIVER] = {"deliver", HAS_DEVICE | HAS_QPN | HAS_DGID | HAS_MESSAGE},
	[MV_FRAME_UNREACHABLE] = {"unreachable", HAS_DGID | HAS_QPN | HAS_MESSAGE},
	[MV_FRAME_CHANGED] = {"changed", HAS_VERSION},
	[MV_FRAME_STATUS] = {"status", HAS_DEVICE | HAS_QPN | HAS_TEXT},
	[MV_FRAME_PROBES] = {"probes", HAS_VERSION},
	[MV_FRAME_WATCH] = {"watch", HAS_DGID | HAS_PATH},
	[MV_FRAME_PATH] = {"path", HAS_DGID | HAS_PATH},
	[MV_FRAME_PACKS] = {"packs", HAS_VERSION},
	[MV_FRAME_SUSPECT] = {"suspect", HAS_DGID | HAS_PATH},
	[MV_FRAME_REFUSED] = {"refused", HAS_DEVICE | HAS_QPN},
	[MV_FRAME_LOOK] = {"look", HAS_DGID},
	[MV_FRAME_LOOKED] = {"looked", HAS_DGID},
	[MV_FRAME_SENDERS] = {"senders", HAS_VERSION},
};

static unsigned int has_of(unsigned int type)
{
	return type < MV_FRAME_TYPE_END ? types[type].has : 0;
}

const char *mv_frame_type_name(unsigned int type)
{
	return has_of(type) ? types[type].name : "unknown";
}

const char *mv_probed_name(unsigned int probed)
{
	static const char *const names[MV_PROBED_END] = {"unknown", "up", "silent", "down"};

	return probed < MV_PROBED_END ? names[probed] : "invalid";
}

static bool lengths_valid(unsigned int has, size_t device_len, size_t len)
{
	if ((has & HAS_DEVICE) ? !device_len || device_len >= IBV_SYSFS_NAME_MAX : device_len)
		return false;
	if (has & HAS_MESSAGE)
		return len && len <= MV_CTL_MAX_BYTES;
	if (has & HAS_PATH)
		return len == PATH_BYTES;
	return (has & HAS_TEXT) ? len < MV_CTL_MAX_BYTES : !len;
}

size_t mv_frame_encode(const struct mv_frame *frame, uint8_t *buf)
{
	static const union ibv_gid no_gid;
	unsigned int has = has_of(frame->type);
	size_t device_len, len;
	struct mv_put put = {.at = buf};

	device_len = (has & HAS_DEVICE) ? strnlen(frame->device, sizeof(frame->device)) : 0;
	len = (has & (HAS_MESSAGE | HAS_TEXT)) ? frame->len : (has & HAS_PATH) ? PATH_BYTES : 0;
	if (!has || !lengths_valid(has, device_len, len))
		return 0;
	mv_put_u8(&put, frame->type);
	mv_put_u8(&put, (has & HAS_VERSION) ? frame->version : 0);
	mv_put_u8(&put, (has & HAS_QP_TYPE) ? frame->qp_type : 0);
	mv_put_u8(&put, (uint8_t)device_len);
	mv_put_u32(&put, (has & HAS_QPN) ? frame->qpn : 0);
	mv_put_bytes(&put, (has & HAS_DGID) ? frame->dgid.raw : no_gid.raw, sizeof(no_gid.raw));
	mv_put_u16(&put, (uint16_t)len);
	mv_put_bytes(&put, frame->device, device_len);
	if (has & HAS_PATH) {
		mv_put_bytes(&put, frame->sgid.raw, sizeof(frame->sgid.raw));
		mv_put_u8(&put, frame->type == MV_FRAME_WATCH ? frame->watch : 0);
		mv_put_u8(&put, frame->type == MV_FRAME_PATH ? frame->probed : 0);
	} else {
		mv_put_bytes(&put, frame->payload, len);
	}
	return (size_t)(put.at - buf);
}

/* Texts go to the agent's log and to terminals: no control characters, and so no NUL. */
static bool text_valid(const void *text, size_t len)
{
	const uint8_t *bytes = text;

	for (size_t i = 0; i < len; i++)
		if (bytes[i] < 0x20 || bytes[i] == 0x7f)
			return false;
	return true;
}

static bool unused_are_zero(const struct mv_frame *frame, unsigned int has)
{
	return ((has & HAS_VERSION) || !frame->version) &&
	       ((has & HAS_QP_TYPE) || !frame->qp_type) && ((has & HAS_QPN) || !frame->qpn) &&
	       ((has & HAS_DGID) || mv_gid_is_zero(&frame->dgid));
}

static void get_path(struct mv_get *get, struct mv_frame *frame)
{
	mv_get_bytes(get, frame->sgid.raw, sizeof(frame->sgid.raw));
	frame->watch = mv_get_u8(get);
	frame->probed = mv_get_u8(get);
}

static bool path_valid(const struct mv_frame *frame)
{
	uint8_t watches = frame->type == MV_FRAME_WATCH ? MV_WATCH_ALL : 0;
	uint8_t states = frame->type == MV_FRAME_PATH ? MV_PROBED_END : 1;

	return !(frame->watch & ~watches) && frame->probed < states;
}

int mv_frame_take(const uint8_t *buf, size_t len, size_t *ret_used, struct mv_frame *ret)
{
	struct mv_get get = {.at = buf, .left = len};
	struct mv_frame frame = {0};
	unsigned int has;
	size_t device_len;

	frame.type = mv_get_u8(&get);
	frame.version = mv_get_u8(&get);
	frame.qp_type = mv_get_u8(&get);
	device_len = mv_get_u8(&get);
	frame.qpn = mv_get_u32(&get);
	mv_get_bytes(&get, frame.dgid.raw, sizeof(frame.dgid.raw));
	frame.len = mv_get_u16(&get);
	has = has_of(frame.type);
	if (get.short_read || !has || !lengths_valid(has, device_len, frame.len) ||
	    get.left < device_len + frame.len)
		return -EBADMSG;
	mv_get_bytes(&get, frame.device, device_len);
	if (has & HAS_PATH) {
		get_path(&get, &frame);
		frame.len = 0;
	} else {
		mv_get_bytes(&get, frame.payload, frame.len);
	}
	if (frame.qpn > 0xffffff || !unused_are_zero(&frame, has) ||
	    !text_valid(frame.device, device_len) || !path_valid(&frame) ||
	    ((has & HAS_TEXT) && !text_valid(frame.payload, frame.len)))
		return -EBADMSG;
	*ret = frame;
	*ret_used = len - get.left;
	return 0;
}

int mv_frame_decode(const uint8_t *buf, size_t len, struct mv_frame *ret)
{
	struct mv_frame frame;
	size_t used;

	if (mv_frame_take(buf, len, &used, &frame) || used != len)
		return -EBADMSG;
	*ret = frame;
	return 0;
}
