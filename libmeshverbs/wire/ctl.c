/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ctl.h"

#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "proof.h"

#define FLAGS_KNOWN                                                                                                    \
	(MV_CTL_PASSTHROUGH | MV_CTL_READY | MV_CTL_KEY_INVALID | MV_CTL_STAYS | MV_CTL_ASKING | MV_CTL_MOVE)

/* Every message has every field, and keys behind them if it brings some. */
#define MESSAGE_BYTES 132
#define KEYS_BYTES    32

static void put_end(struct mv_put *put, const struct mv_ctl_end *end)
{
	mv_put_bytes(put, end->gid.raw, sizeof(end->gid.raw));
	mv_put_u32(put, end->qpn);
}

static bool has_keys(const struct mv_ctl_keys *keys)
{
	bool some = false;
	size_t i;

	for (i = 0; i < MV_CTL_KEYS; i++)
		some |= keys->asked[i].id || keys->given[i].id;
	return some;
}

static void put_keys(struct mv_put *put, const struct mv_ctl_key *keys)
{
	size_t i;

	for (i = 0; i < MV_CTL_KEYS; i++) {
		mv_put_u32(put, keys[i].id);
		mv_put_u32(put, keys[i].key);
	}
}

size_t mv_ctl_encode(const struct mv_ctl_msg *msg, uint8_t *buf)
{
	struct mv_put put = {.at = buf};

	mv_put_u8(&put, MV_CTL_VERSION);
	mv_put_u8(&put, msg->type);
	mv_put_u8(&put, msg->flags);
	mv_put_u8(&put, msg->reason);
	mv_put_u8(&put, msg->gid_type);
	mv_put_u8(&put, msg->proof);
	mv_put_u16(&put, msg->path_lid);
	mv_put_u16(&put, msg->mtu_bytes);
	mv_put_u16(&put, 0);
	mv_put_u32(&put, msg->attempt);
	mv_put_u32(&put, msg->to_attempt);
	mv_put_u64(&put, msg->nonce);
	mv_put_u64(&put, msg->to_nonce);
	mv_put_u32(&put, msg->request_id);
	put_end(&put, &msg->from);
	put_end(&put, &msg->to);
	mv_put_u64(&put, msg->tag);
	put_end(&put, &msg->path);
	mv_put_bytes(&put, msg->path_peer_gid.raw, sizeof(msg->path_peer_gid.raw));
	mv_put_u32(&put, msg->key);
	mv_put_u32(&put, msg->rkey);
	return (size_t)(put.at - buf);
}

size_t mv_ctl_encode_keys(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint8_t *buf)
{
	struct mv_put put = {.at = buf + mv_ctl_encode(msg, buf)};

	if (keys && has_keys(keys)) {
		put_keys(&put, keys->asked);
		put_keys(&put, keys->given);
	}
	return (size_t)(put.at - buf);
}

static void get_end(struct mv_get *get, struct mv_ctl_end *end)
{
	mv_get_bytes(get, end->gid.raw, sizeof(end->gid.raw));
	end->qpn = mv_get_u32(get);
}

static void get_keys(struct mv_get *get, struct mv_ctl_key *keys)
{
	size_t i;

	for (i = 0; i < MV_CTL_KEYS; i++) {
		keys[i].id = mv_get_u32(get);
		keys[i].key = mv_get_u32(get);
	}
}

static bool mtu_valid(uint16_t bytes)
{
	return !bytes || (bytes >= 256 && bytes <= 4096 && !(bytes & (bytes - 1)));
}

static bool row_valid(const struct mv_ctl_key *keys, bool may_be)
{
	size_t i;

	for (i = 0; i < MV_CTL_KEYS; i++)
		if (keys[i].id ? !may_be : keys[i].key)
			return false;
	return true;
}

static bool keys_valid(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys)
{
	bool moves = msg->flags & MV_CTL_MOVE;

	return row_valid(keys->asked, moves && (msg->type == MV_CTL_OFFER || msg->type == MV_CTL_ANSWER)) &&
	       row_valid(keys->given, (moves && (msg->type == MV_CTL_ANSWER || msg->type == MV_CTL_CONFIRM)) ||
					      msg->type == MV_CTL_SYNC);
}

static bool msg_valid(const struct mv_ctl_msg *msg)
{
	return msg->type >= MV_CTL_HELLO && msg->type < MV_CTL_TYPE_END &&
	       !(msg->flags & ~FLAGS_KNOWN) && msg->reason < MV_CTL_REASON_END &&
	       msg->gid_type <= MV_GID_TYPE_ROCE_V2 && mtu_valid(msg->mtu_bytes) && msg->attempt &&
	       msg->from.qpn <= 0xffffff && msg->to.qpn <= 0xffffff && msg->path.qpn <= 0xffffff &&
	       msg->proof <= (MV_PROOF_FROM | MV_PROOF_TO);
}

int mv_ctl_decode_keys(const uint8_t *buf, size_t len, struct mv_ctl_msg *ret, struct mv_ctl_keys *ret_keys)
{
	struct mv_get get = {.at = buf, .left = len};
	struct mv_ctl_keys keys = {0};
	struct mv_ctl_msg msg = {0};
	unsigned int reserved;

	if ((len != MESSAGE_BYTES && len != MESSAGE_BYTES + KEYS_BYTES) || mv_get_u8(&get) != MV_CTL_VERSION)
		return -EBADMSG;
	msg.type = mv_get_u8(&get);
	msg.flags = mv_get_u8(&get);
	msg.reason = mv_get_u8(&get);
	msg.gid_type = mv_get_u8(&get);
	msg.proof = mv_get_u8(&get);
	msg.path_lid = mv_get_u16(&get);
	msg.mtu_bytes = mv_get_u16(&get);
	reserved = mv_get_u16(&get);
	msg.attempt = mv_get_u32(&get);
	msg.to_attempt = mv_get_u32(&get);
	msg.nonce = mv_get_u64(&get);
	msg.to_nonce = mv_get_u64(&get);
	msg.request_id = mv_get_u32(&get);
	get_end(&get, &msg.from);
	get_end(&get, &msg.to);
	msg.tag = mv_get_u64(&get);
	msg.from_psn = msg.to_psn = MV_CTL_PSN_NONE;
	get_end(&get, &msg.path);
	mv_get_bytes(&get, msg.path_peer_gid.raw, sizeof(msg.path_peer_gid.raw));
	msg.key = mv_get_u32(&get);
	msg.rkey = mv_get_u32(&get);
	if (len > MESSAGE_BYTES) {
		get_keys(&get, keys.asked);
		get_keys(&get, keys.given);
	}
	if (reserved || !msg_valid(&msg) || !keys_valid(&msg, &keys) || has_keys(&keys) != (len > MESSAGE_BYTES))
		return -EBADMSG;
	*ret = msg;
	*ret_keys = keys;
	return 0;
}

int mv_ctl_decode(const uint8_t *buf, size_t len, struct mv_ctl_msg *ret)
{
	struct mv_ctl_keys keys;

	return mv_ctl_decode_keys(buf, len, ret, &keys);
}

const char *mv_ctl_type_name(unsigned int type)
{
	static const char *const names[MV_CTL_TYPE_END] = {
		[MV_CTL_HELLO] = "hello",       [MV_CTL_OFFER] = "offer",
		[MV_CTL_ANSWER] = "answer",     [MV_CTL_CONFIRM] = "confirm",
		[MV_CTL_REFUSE] = "refuse",     [MV_CTL_BYE] = "bye",
		[MV_CTL_KEY_GET] = "key-get",   [MV_CTL_KEY_PUT] = "key-put",
		[MV_CTL_KEY_DROP] = "key-drop", [MV_CTL_KEY_DROPPED] = "key-dropped",
		[MV_CTL_UD_GET] = "ud-get",     [MV_CTL_UD_PUT] = "ud-put",
		[MV_CTL_SYNC] = "sync",         [MV_CTL_STANDBY] = "standby",
	};

	return type < MV_CTL_TYPE_END && names[type] ? names[type] : "unknown";
}

const char *mv_ctl_reason_text(unsigned int reason)
{
	switch (reason) {
	case MV_CTL_REASON_NONE:
		return "no other path is needed";
	case MV_CTL_REASON_PASSTHROUGH:
		return "the peer's end is connected as its program asked";
	case MV_CTL_REASON_NO_PATH:
		return "no pair of NICs connects the two hosts";
	case MV_CTL_REASON_NO_RESOURCES:
		return "a queue pair on the other path could not be made";
	case MV_CTL_REASON_MISMATCH:
		return "the peer's program is connected to another queue pair";
	case MV_CTL_REASON_OFF:
		return "moving connections is switched off there";
	case MV_CTL_REASON_UNSUPPORTED:
		return "a queue pair of this kind cannot be moved";
	case MV_CTL_REASON_UNREACHABLE:
		return "the peer's agent does not answer";
	case MV_CTL_REASON_HEALED:
		return "the reason to move is gone";
	case MV_CTL_REASON_GONE:
		return "the peer's queue pair is gone";
	case MV_CTL_REASON_TIMEOUT:
		return "there was no agreement in time";
	case MV_CTL_REASON_UNREADABLE:
		return "what has been executed could not be found out";
	case MV_CTL_REASON_BUSY:
		return "atomics did not finish, or nothing signaled came behind them: a move could lose their results";
	case MV_CTL_REASON_PORT:
		return "a port on the path is down";
	case MV_CTL_REASON_PATH:
		return "nothing gets through";
	case MV_CTL_REASON_DRAIN:
		return "a NIC is being drained";
	case MV_CTL_REASON_PRIMARY:
		return "the program's own path is back";
	}
	return "unknown";
}
