/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_CTL_H
#define MV_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "directory.h"
#include "gid.h"

/*
 * Messages between the two processes at the ends of a connection, and frames by which a process gives them to its
 * host's agent. Agents read the frame only. Messages may be lost, repeated or reordered; a process that needs an answer
 * repeats its question. Messages of a connection are sealed (proof.h).
 *
 * All integers on the wire are big endian. Codecs are pure.
 */

#define MV_CTL_VERSION 3
#define MV_CTL_MAX_BYTES 512 /* longest encoded message */

/* An end of a connection as the programs know it: the GID and QPN that one program gave to the other. */
struct mv_ctl_end {
	union ibv_gid gid;
	uint32_t qpn; /* 24 bits */
};

enum mv_ctl_type {
	/* Connecting and moving (move.h). */
	MV_CTL_HELLO = 1, /* here is my end; what is the state of yours? */
	MV_CTL_OFFER, /* leader: use this path; my QP for it is @path */
	MV_CTL_ANSWER, /* follower: my QP for it is @path, and can receive */
	MV_CTL_CONFIRM, /* leader: my QP can receive, too */
	MV_CTL_REFUSE, /* no move, for @reason */
	MV_CTL_BYE, /* my QP is gone */
	/* Remote keys: maps the program's key to the key on the agreed path (keys.h). */
	MV_CTL_KEY_GET,
	MV_CTL_KEY_PUT, /* @rkey is the answer to @key; flag MV_CTL_KEY_INVALID */
	MV_CTL_KEY_DROP, /* forget @key; repeated until KEY_DROPPED comes */
	MV_CTL_KEY_DROPPED,
	/* Datagrams: a UD QP behind another rail (ud.h). */
	MV_CTL_UD_GET, /* how can @to be reached from @path.gid? */
	MV_CTL_UD_PUT,
	/* Moving a QP at work; HELLO to REFUSE with MV_CTL_MOVE are used as well (move.h). */
	MV_CTL_SYNC, /* my old QP is drained; it has executed all before @next_psn */
	/*
	 * From a QP at work: @path is my standby QP; your standby QP on @path_peer_gid can be connected to it now.
	 * Always with MV_CTL_MOVE.
	 */
	MV_CTL_STANDBY,
	MV_CTL_TYPE_END,
};

enum mv_ctl_flags {
	MV_CTL_PASSTHROUGH = 1, /* HELLO: my end is connected with the program's own attributes */
	/*
	 * My QP on the path can receive. ANSWER without it: try another path. SYNC, STANDBY: I have yours, do not
	 * answer.
	 */
	MV_CTL_READY = 2,
	MV_CTL_KEY_INVALID = 4, /* KEY_PUT: the QP's protection domain has no such key; any access by @rkey fails */
	MV_CTL_STAYS = 8, /* OFFER, ANSWER: my QP on the path is the program's own, with the program's own keys */
	/*
	 * HELLO: my path may work, but I need your RoCE version. OFFER with MV_CTL_MOVE: our path may be dead, and this
	 * is my standby QP; use yours, and change nothing before CONFIRM or SYNC.
	 */
	MV_CTL_ASKING = 16,
	/*
	 * HELLO, OFFER, ANSWER, CONFIRM, REFUSE: about a QP at work on the path that @base names. HELLO: I want to
	 * leave it, or know that you do; @reason tells why.
	 */
	MV_CTL_MOVE = 32,
};

enum mv_ctl_reason {
	MV_CTL_REASON_NONE,
	MV_CTL_REASON_PASSTHROUGH, /* my end is connected as the program asked, and may have outstanding work */
	MV_CTL_REASON_NO_PATH, /* no rail of mine reaches yours */
	MV_CTL_REASON_NO_RESOURCES,
	MV_CTL_REASON_MISMATCH, /* my program expects another QP as its peer */
	MV_CTL_REASON_OFF, /* moves are disabled here */
	MV_CTL_REASON_UNSUPPORTED, /* this kind of QP cannot move */
	MV_CTL_REASON_UNREACHABLE, /* local: the peer's agent does not answer */
	/* Reasons for which a QP at work does not move after all. */
	MV_CTL_REASON_HEALED, /* the end that wanted to move no longer does */
	MV_CTL_REASON_GONE, /* the QP was destroyed or reset, or has failed */
	MV_CTL_REASON_TIMEOUT, /* the peer did not answer in time */
	MV_CTL_REASON_UNREADABLE, /* it could not be found out what a drained QP has executed */
	MV_CTL_REASON_BUSY, /* atomics did not finish, and the path works: a move could lose their results */
	/* Reasons for which a QP at work moves. */
	MV_CTL_REASON_PORT, /* a port on the path went down */
	MV_CTL_REASON_PATH, /* the ports are up, but packets do not get through: probes, or retries exceeded */
	MV_CTL_REASON_DRAIN, /* the administrator drains a NIC */
	MV_CTL_REASON_PRIMARY, /* the primary path works again */
	MV_CTL_REASON_END,
};

struct mv_ctl_msg {
	uint8_t type; /* enum mv_ctl_type */
	uint8_t flags; /* enum mv_ctl_flags */
	uint8_t reason; /* enum mv_ctl_reason */
	/* enum mv_gid_type of the path (OFFER, ANSWER, CONFIRM, STANDBY), else of the sender's own QP's entry */
	uint8_t gid_type;
	uint32_t attempt; /* number of the sender's connect, growing, never 0; messages of older attempts are ignored */
	/*
	 * The receiver's attempt that the message is for; 0: not known yet. Without it, a late message to a former life
	 * of the receiver's QP would be taken for a new one.
	 */
	uint32_t to_attempt;
	/*
	 * Random numbers of the two attempts, because an attempt can be guessed. A process that does not receive the
	 * end's messages does not know its nonce, and cannot speak for the peer. @nonce is constant in an attempt.
	 * @to_nonce: 0 without @to_attempt. UD_*: both 0.
	 */
	uint64_t nonce, to_nonce;
	/*
	 * KEY_*, UD_*: chosen by the asker, repeated in the answer. OFFER: number of the offer in this attempt,
	 * growing, never 0; repeated in ANSWER, CONFIRM, SYNC and, with MV_CTL_MOVE, REFUSE (there 0: a follower's
	 * wish). STANDBY: number that the next offer will have.
	 */
	uint32_t request_id;
	struct mv_ctl_end from, to; /* as the programs know them */
	uint8_t proof; /* mask of enum mv_proof (proof.h) */
	uint64_t tag; /* tag of the seal; 0: not sealed */
	/*
	 * Not encoded: the initial PSNs with which the message is to be sealed, or was opened; MV_CTL_PSN_NONE: not
	 * this one. A decoded message has neither.
	 */
	uint32_t from_psn, to_psn;
	/* OFFER, ANSWER, CONFIRM, STANDBY, UD_*: the sender's end of the path. */
	struct mv_ctl_end path;
	/* OFFER, STANDBY, UD_GET: GID that the receiver is to use; ANSWER: repeats OFFER's path.gid */
	union ibv_gid path_peer_gid;
	/* OFFER, ANSWER, STANDBY, UD_*: LID of @path; 0: not InfiniBand. Older plugins send 0 with UD_*, and read none there. */
	uint16_t path_lid;
	uint16_t mtu_bytes; /* largest path MTU of the sender's end: 256 .. 4096; 0: not known */
	union {
		uint32_t key; /* KEY_* */
		uint32_t base; /* MV_CTL_MOVE: number of the offer that led to the path which the QP leaves; 0: the program's own path */
		uint32_t next_psn; /* SYNC: the PSN that the old QP expected next when it was drained, 24 bits */
	};
	union {
		uint32_t rkey; /* KEY_* */
		uint32_t path_psn; /* STANDBY, OFFER and ANSWER with MV_CTL_MOVE: first PSN that @path sends, 24 bits */
		uint32_t n_received; /* SYNC: receives that the old QP consumed since it was connected, modulo 2^32 */
	};
};

#define MV_CTL_KEYS 2 /* of each kind */

/*
 * Remote keys in a message of a move (MV_CTL_MOVE, or SYNC). asked: keys that the sender's work needs on the path
 * (OFFER, ANSWER). given: answers to the keys that the receiver has asked for in the same offer (ANSWER, CONFIRM,
 * SYNC). Other keys are asked for by KEY_GET. Older plugins and agents drop a message with keys, so a message is
 * repeated without them.
 */
struct mv_ctl_keys {
	struct mv_ctl_key {
		uint32_t id; /* chosen by the asker, as request_id of KEY_GET; repeated in the answer. 0: none, and @key is 0 */
		uint32_t key; /* asked: the program's key; given: the key on the path */
	} asked[MV_CTL_KEYS], given[MV_CTL_KEYS];
};

#define MV_CTL_PSN_NONE 0xffffffffu

/**
 * mv_ctl_encode - encode a message
 * @buf: at least MV_CTL_MAX_BYTES
 *
 * Return: its length in bytes.
 */
size_t mv_ctl_encode(const struct mv_ctl_msg *msg, uint8_t *buf);
/** mv_ctl_encode_keys - encode a message with keys; @keys: NULL or empty: none */
size_t mv_ctl_encode_keys(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint8_t *buf);

/**
 * mv_ctl_decode - parse and check a message
 * @ret: written on success only
 *
 * Refuses unknown versions, types, flags, reasons, GID types and proofs, QPNs of more than 24 bits, invalid MTUs,
 * attempt 0, wrong lengths, and keys in messages that have none. For an accepted message, mv_ctl_encode_keys() returns
 * the same bytes. The last two fields, and keys, are masked until mv_proof_open().
 *
 * Return: 0 or -EBADMSG.
 */
int mv_ctl_decode(const uint8_t *buf, size_t len, struct mv_ctl_msg *ret);
/** mv_ctl_decode_keys - the same, with keys; @ret_keys: written on success only */
int mv_ctl_decode_keys(const uint8_t *buf, size_t len, struct mv_ctl_msg *ret, struct mv_ctl_keys *ret_keys);

const char *mv_ctl_type_name(unsigned int type);
const char *mv_ctl_reason_text(unsigned int reason); /* part of a sentence for people; constant string */

/*
 * Frames between a process and its agent. A packet of the SOCK_SEQPACKET socket RUN_DIR/agent has one frame, or, by
 * agreement, several. The process connects, sends REGISTER and gets WELCOME. Then either side may send any frame at any
 * time. A new connection has no state: the process registers its QPs again (REGISTER_QP).
 */
enum mv_frame_type {
	MV_FRAME_REGISTER = 1, /* process: version, name; with the page of counts.h as SCM_RIGHTS */
	MV_FRAME_WELCOME, /* agent: registered */
	MV_FRAME_REGISTER_QP, /* process: messages for this QP are mine: device, qpn, qp_type */
	MV_FRAME_UNREGISTER_QP, /* process: device, qpn */
	MV_FRAME_SEND, /* process: send this message to the host that has @dgid */
	MV_FRAME_DELIVER, /* agent: a message for one of your QPs */
	MV_FRAME_UNREACHABLE, /* agent: SEND failed: no such host, or its agent does not answer; @payload: that message */
	MV_FRAME_STATUS, /* process: state of one QP for the tool: device, qpn and text (JSON object) */
	MV_FRAME_CHANGED, /* agent: there is a new directory */
	/*
	 * Probes of paths. WATCH is sent only to an agent that has sent PROBES, because older agents disconnect at
	 * unknown types. A process that does not know PROBES ignores it.
	 */
	MV_FRAME_PROBES, /* agent: I can probe paths */
	MV_FRAME_WATCH, /* process: watch the path @sgid to @dgid for @watch from now on; 0: no longer */
	MV_FRAME_PATH, /* agent: the watched path @sgid to @dgid is @probed; answers WATCH, and follows each change */
	/*
	 * Several frames in one packet. An agent accepts them from any process; older agents do not, so it sends PACKS
	 * first. It sends such packets to processes that have sent PACKS after that.
	 */
	MV_FRAME_PACKS,
	/*
	 * agent: the path @sgid to @dgid, on which you work, may become DOWN soon; PATH follows. A process that does
	 * not know SUSPECT ignores it, and the rest of the packet.
	 */
	MV_FRAME_SUSPECT,
	MV_FRAME_REFUSED, /* agent: REGISTER_QP of device, qpn refused: the QP is not yours, as far as I know; it gets and sends no messages */
	/*
	 * process: I will connect to @dgid, which is not in the directory; find its host. An agent that does not know
	 * LOOK disconnects, so LOOK has a connection of its own.
	 */
	MV_FRAME_LOOK,
	MV_FRAME_LOOKED, /* agent: @dgid is known, or cannot be asked for; otherwise CHANGED tells when it is known */
	/*
	 * agent: I can name the sender's host with DELIVER; a process that wants that sends SENDERS, too. Comes before
	 * any DELIVER. A process that does not know SENDERS ignores it, and the rest of the packet.
	 */
	MV_FRAME_SENDERS,
	MV_FRAME_TYPE_END,
};

/* Purposes for which a process watches a path: a mask. */
enum mv_watch {
	MV_WATCH_WORK = 1, /* queue pairs work on it */
	MV_WATCH_PRIMARY = 2, /* it is the primary path of queue pairs that want to return */
	MV_WATCH_ALTERNATE = 4, /* queue pairs could move to it; probed only when needed */
	MV_WATCH_ALL = 7,
};

/* State of a path, from probes. */
enum mv_probed {
	MV_PROBED_UNKNOWN, /* no answer since probing began */
	MV_PROBED_UP, /* the path answers */
	MV_PROBED_SILENT, /* the path has answered before and does not now; perhaps the other agent is at fault */
	MV_PROBED_DOWN, /* dead: the other agent has answered later probes on another path */
	MV_PROBED_END,
};

struct mv_frame {
	uint8_t type; /* enum mv_frame_type */
	uint8_t version; /* REGISTER, WELCOME, CHANGED, PROBES, PACKS, SENDERS: MV_CTL_VERSION */
	uint8_t qp_type; /* REGISTER_QP: enum ibv_qp_type */
	char device[IBV_SYSFS_NAME_MAX]; /* REGISTER_QP, UNREGISTER_QP, DELIVER, STATUS, REFUSED: local device of the QP */
	uint32_t qpn; /* REGISTER_QP, UNREGISTER_QP, DELIVER, STATUS, REFUSED: local QP; UNREACHABLE: the QP in SEND's message */
	union ibv_gid dgid; /* SEND, UNREACHABLE, WATCH, PATH, SUSPECT, LOOK, LOOKED; DELIVER: id of the sender's host; 0: not told */
	union ibv_gid sgid; /* WATCH, PATH, SUSPECT: a GID of this host */
	uint8_t watch; /* WATCH: mask of enum mv_watch */
	uint8_t probed; /* PATH: enum mv_probed */
	uint16_t len; /* length of @payload; 0 if the type has none */
	/*
	 * SEND, DELIVER: an encoded mv_ctl_msg, at least 1 byte, not checked; REGISTER: name; STATUS: text. Texts are
	 * shorter than the array; decoded ones are NUL-terminated.
	 */
	uint8_t payload[MV_CTL_MAX_BYTES];
};

#define MV_FRAME_MAX_BYTES (MV_CTL_MAX_BYTES + 128)
#define MV_PACK_MAX_BYTES  8192 /* limit of a packet with several frames: some fifty messages */

/**
 * mv_frame_encode - encode a frame
 * @frame: members that its type does not have are ignored
 * @buf: MV_FRAME_MAX_BYTES
 *
 * Return: its length in bytes; 0: unknown type, or a length beyond its array.
 */
size_t mv_frame_encode(const struct mv_frame *frame, uint8_t *buf);

/**
 * mv_frame_decode - parse and check a frame
 * @ret: written on success only
 *
 * Strings end within their arrays and have no control characters. QPNs have 24 bits. A device is named if the type has
 * one. Members that the type does not have are 0. Any version is accepted: the caller decides whether it can talk to
 * that version.
 *
 * Return: 0 or -EBADMSG.
 */
int mv_frame_decode(const uint8_t *buf, size_t len, struct mv_frame *ret);

/**
 * mv_frame_take - parse and check the first frame of a packet with several
 * @ret_used: length of the frame
 *
 * Return: as mv_frame_decode().
 */
int mv_frame_take(const uint8_t *buf, size_t len, size_t *ret_used, struct mv_frame *ret);

const char *mv_frame_type_name(unsigned int type);
const char *mv_probed_name(unsigned int probed); /* one word, e.g. "up"; constant string */

#endif
