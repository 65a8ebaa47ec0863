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
 * Messages between two processes that hold the two ends of a connection, and the frames in which a process
 * hands them to the agent of its host. Agents carry them without reading more than the frame: no delivery
 * is guaranteed, none is needed, because every message may be lost, repeated or overtaken; the one who wants
 * an answer asks again. Each message of a connection is sealed (proof.h).
 *
 * On the wire all integers are big endian; codecs are pure.
 */

#define MV_CTL_VERSION 3
#define MV_CTL_MAX_BYTES 512 /* of an encoded message or frame */

/* An end of a connection, as the programs know it: the GID and QPN one gave to the other. */
struct mv_ctl_end {
	union ibv_gid gid;
	uint32_t qpn; /* 24 bits */
};

enum mv_ctl_type {
	/* Connecting and moving (move.h). */
	MV_CTL_HELLO = 1, /* here is my end; what is yours doing? */
	MV_CTL_OFFER, /* leader: let us use this path; my QP on it is this */
	MV_CTL_ANSWER, /* follower: my QP on it is this, and it can receive */
	MV_CTL_CONFIRM, /* leader: mine can receive, too */
	MV_CTL_REFUSE, /* no move; @reason */
	MV_CTL_BYE, /* my QP is gone */
	/* Remote keys: program's key -> key on the agreed path (keys.h). */
	MV_CTL_KEY_GET,
	MV_CTL_KEY_PUT, /* @rkey is the answer to @key; flag MV_CTL_KEY_INVALID */
	MV_CTL_KEY_DROP, /* forget @key; to be repeated until KEY_DROPPED comes */
	MV_CTL_KEY_DROPPED,
	/* Datagrams: a UD QP behind another rail (ud.h). */
	MV_CTL_UD_GET, /* where can @to be reached from @path.local_gid? */
	MV_CTL_UD_PUT,
	/* Moving a live QP, beside HELLO to REFUSE with MV_CTL_MOVE (move.h). */
	MV_CTL_SYNC, /* my old QP is fenced; it has executed all before @next_psn */
	/*
	 * Of a QP at work: @path is a QP of mine that would take its place if it had to leave; the one of yours on @path_peer_gid can be
	 * connected to it now. With MV_CTL_MOVE always
	 */
	MV_CTL_AHEAD,
	MV_CTL_TYPE_END,
};

enum mv_ctl_flags {
	MV_CTL_NATIVE = 1, /* HELLO: my end is connected with the program's own attributes */
	/*
	 * My QP on the path can receive; ANSWER without: not on this path, try another. SYNC, AHEAD: I have yours, do not answer.
	 */
	MV_CTL_READY = 2,
	MV_CTL_KEY_INVALID = 4, /* KEY_PUT: no such key in the QP's protection domain; @rkey fails every access */
	MV_CTL_STAYS = 8, /* OFFER, ANSWER: my QP on the path is the program's own; keys are the program's own */
	/*
	 * HELLO: my path may work; I only have to know your RoCE version. OFFER, with MV_CTL_MOVE: our path may be dead; this is a QP that I made
	 * ahead, and so let yours be: change nothing before CONFIRM or SYNC
	 */
	MV_CTL_ASKING = 16,
	/*
	 * HELLO, OFFER, ANSWER, CONFIRM, REFUSE: of a QP that is at work on the path that @base names. HELLO: I want to
	 * leave it, or: I have heard that you do; @reason says why.
	 */
	MV_CTL_MOVE = 32,
};

enum mv_ctl_reason {
	MV_CTL_REASON_NONE,
	MV_CTL_REASON_NATIVE, /* my end is connected as the program asked, and may have work under way */
	MV_CTL_REASON_NO_PATH, /* no rail of mine reaches yours */
	MV_CTL_REASON_NO_RESOURCES,
	MV_CTL_REASON_MISMATCH, /* my program's idea of the peer is another QP */
	MV_CTL_REASON_OFF, /* moves are switched off here */
	MV_CTL_REASON_UNSUPPORTED, /* the QP is of a kind that cannot move */
	MV_CTL_REASON_UNREACHABLE, /* local: the peer's agent does not answer */
	/* Why a live QP does not move after all. */
	MV_CTL_REASON_HEALED, /* who wanted to move does not want to any more */
	MV_CTL_REASON_GONE, /* the QP was destroyed, reset or failed */
	MV_CTL_REASON_TIMEOUT, /* the peer did not answer in time */
	MV_CTL_REASON_UNREADABLE, /* what a fenced QP has executed could not be found out */
	MV_CTL_REASON_BUSY, /* atomics did not finish, and the path works: moving could lose their results */
	/* Why a live QP moves. */
	MV_CTL_REASON_PORT, /* a port on the path went down */
	MV_CTL_REASON_PATH, /* the ports are up, but nothing gets through: probes, or retries exceeded */
	MV_CTL_REASON_DRAIN, /* the administrator takes a NIC out */
	MV_CTL_REASON_HOME, /* the path that the program asked for is back */
	MV_CTL_REASON_END,
};

struct mv_ctl_msg {
	uint8_t type; /* enum mv_ctl_type */
	uint8_t flags; /* enum mv_ctl_flags */
	uint8_t reason; /* enum mv_ctl_reason */
	/* enum mv_gid_type of the path (OFFER, ANSWER, CONFIRM, AHEAD), else of the entry the sender's own QP uses */
	uint8_t gid_type;
	uint32_t attempt; /* which connect of the sender's QP: grows; older ones are ignored. Never 0 */
	/*
	 * The receiver's attempt that is meant, 0: not known yet. Without it a message to an earlier life of the
	 * receiver's QP, arriving late, would be taken for one to this life.
	 */
	uint32_t to_attempt;
	/*
	 * Random numbers that go with the two attempts: an attempt alone can be guessed. Who does not receive what the end says cannot name
	 * its number, so speaks for nobody. @nonce never changes in an attempt; @to_nonce: 0 without @to_attempt. UD_*: 0
	 */
	uint64_t nonce, to_nonce;
	/*
	 * KEY_*, UD_*: chosen by who asks, repeated in the answer. OFFER: which offer of this attempt, grows, never 0;
	 * repeated in ANSWER, CONFIRM, SYNC and, with MV_CTL_MOVE, REFUSE (there 0: a follower's wish). AHEAD: which the next one will be.
	 */
	uint32_t request_id;
	struct mv_ctl_end from, to; /* as the programs know them */
	uint8_t proof; /* mask of enum mv_proof (proof.h) */
	uint64_t tag; /* of the seal; 0 without */
	/*
	 * Not encoded: of the initial PSNs that the programs gave each other, those with which the message is to be sealed, or by which it
	 * was opened; MV_CTL_PSN_NONE: not that one. A decoded message has none.
	 */
	uint32_t from_psn, to_psn;
	/* OFFER, ANSWER, CONFIRM, AHEAD: the sender's end of the path; UD_PUT likewise. */
	struct mv_ctl_end path;
	union ibv_gid path_peer_gid; /* OFFER, AHEAD: the GID that the receiver is to use; UD_GET: likewise; ANSWER: repeats OFFER's path.gid */
	uint16_t path_lid;
	uint16_t mtu_bytes; /* largest path MTU the sender's end allows: 256 .. 4096; 0: unknown */
	union {
		uint32_t key; /* KEY_* */
		uint32_t base; /* MV_CTL_MOVE: the offer that led to the path the QP is leaving; 0: the program's own */
		uint32_t next_psn; /* SYNC: of the old QP, 24 bits: what it expected next when it was fenced */
	};
	union {
		uint32_t rkey; /* KEY_* */
		uint32_t path_psn; /* AHEAD, OFFER and ANSWER with MV_CTL_MOVE: first PSN of @path's sends, 24 bits */
		uint32_t n_received; /* SYNC: receives that the old QP consumed since it was connected, modulo 2^32 */
	};
};

#define MV_CTL_KEYS 2 /* of each kind */

/*
 * What may go with a message of a move (MV_CTL_MOVE, or SYNC): remote keys that the sender's work on the path will need (OFFER, ANSWER),
 * and those that the receiver has asked for by the same offer (ANSWER, CONFIRM, SYNC). What is not among them KEY_GET asks for. Older
 * plugins and agents drop a message that has some: so it is not to be repeated with them.
 */
struct mv_ctl_keys {
	struct mv_ctl_key {
		uint32_t id; /* chosen by who asks, as request_id of KEY_GET; repeated in the answer. 0: none, and @key is 0 */
		uint32_t key; /* asked for: the program's; given: the one on the path */
	} asked[MV_CTL_KEYS], given[MV_CTL_KEYS];
};

#define MV_CTL_PSN_NONE 0xffffffffu

/**
 * mv_ctl_encode - write a message
 * @buf: at least MV_CTL_MAX_BYTES
 *
 * Return: its length in bytes.
 */
size_t mv_ctl_encode(const struct mv_ctl_msg *msg, uint8_t *buf);
/** mv_ctl_encode_keys - the same; @keys: NULL: none, as is one that has none */
size_t mv_ctl_encode_keys(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint8_t *buf);

/**
 * mv_ctl_decode - read and check a message
 *
 * Refuses unknown versions, types, flags, reasons, GID types and proofs, QPNs of more than 24 bits, MTUs that do
 * not exist, an attempt of 0, wrong lengths, keys where they do not belong. What it takes, mv_ctl_encode_keys() gives back byte for byte.
 * The last two fields, and keys, are masked until mv_proof_open().
 *
 * Return: 0 or -EBADMSG; @ret is written on success only.
 */
int mv_ctl_decode(const uint8_t *buf, size_t len, struct mv_ctl_msg *ret);
/** mv_ctl_decode_keys - the same; @ret_keys likewise */
int mv_ctl_decode_keys(const uint8_t *buf, size_t len, struct mv_ctl_msg *ret, struct mv_ctl_keys *ret_keys);

const char *mv_ctl_type_name(unsigned int type);
const char *mv_ctl_reason_text(unsigned int reason); /* a sentence part */

/*
 * Frames between a process and its agent: one or, by agreement, several per packet of the SOCK_SEQPACKET socket RUN_DIR/agent. The process
 * connects, sends REGISTER and gets WELCOME; everything after that may go either way at any time. A new connection
 * starts from nothing: the process claims its QPs again.
 */
enum mv_frame_type {
	MV_FRAME_REGISTER = 1, /* process: version, name; with it, as SCM_RIGHTS, the page of counts.h */
	MV_FRAME_WELCOME, /* agent */
	MV_FRAME_CLAIM, /* process: messages for this end are for me: device, qpn, qp_type */
	MV_FRAME_UNCLAIM, /* process: device, qpn */
	MV_FRAME_SEND, /* process: carry this message to the host that has @dgid */
	MV_FRAME_DELIVER, /* agent: a message for one of your QPs */
	MV_FRAME_UNREACHABLE, /* agent: SEND failed: no such host, or its agent does not answer; @payload: that message */
	MV_FRAME_STATUS, /* process: what the tool shows of one QP: device, qpn and text (JSON object) */
	MV_FRAME_CHANGED, /* agent: there is a new directory */
	/*
	 * Probes of paths. Only an agent that has said PROBES is sent WATCH: others end the connection at a type they do
	 * not know. A process that does not know PROBES drops it.
	 */
	MV_FRAME_PROBES, /* agent: I probe paths, tell me which */
	MV_FRAME_WATCH, /* process: @sgid to @dgid: what for, @watch, from now on; 0: nothing any more */
	MV_FRAME_PATH, /* agent: @sgid to @dgid, which you watch, is @probed; answers WATCH, and later ones come by themselves */
	/*
	 * Several frames in one packet, one behind the other. An agent takes them of anybody, but old ones do not; so it says PACKS first. It
	 * sends them itself to processes that have said PACKS after that.
	 */
	MV_FRAME_PACKS,
	/*
	 * agent: @sgid to @dgid, on which you work, may be told DOWN in a moment; a PATH follows. A process that does not know it drops it,
	 * and what is behind it in the packet.
	 */
	MV_FRAME_SUSPECT,
	MV_FRAME_REFUSED, /* agent: CLAIM of device, qpn: not yours, as far as I can tell; no message for it comes or goes */
	/*
	 * process: @dgid, which the directory does not have, is about to be connected to: whose is it? An agent that does not know LOOK ends
	 * the connection, so there is nothing else on it.
	 */
	MV_FRAME_LOOK,
	MV_FRAME_LOOKED, /* agent: @dgid is known, or is not asked for; else CHANGED tells when it is known */
	/*
	 * agent: I can tell of each DELIVER which host it is from; a process that wants to know sends SENDERS, too. One that does not know
	 * SENDERS drops it, and what is behind it in the packet.
	 */
	MV_FRAME_SENDERS,
	MV_FRAME_TYPE_END,
};

/* What a process has a path watched for: a mask. */
enum mv_watch {
	MV_WATCH_WORK = 1, /* queue pairs are at work on it */
	MV_WATCH_HOME = 2, /* some belong on it, and are to return */
	MV_WATCH_SPARE = 4, /* some could move to it; not probed before it matters */
	MV_WATCH_ALL = 7,
};

/* What probes say of a path. */
enum mv_probed {
	MV_PROBED_UNKNOWN, /* it has not answered since the agent began to ask, so nothing is known */
	MV_PROBED_UP, /* it answers */
	MV_PROBED_SILENT, /* it has answered and does not now; the fault may be the other agent's */
	MV_PROBED_DOWN, /* and that it is not: the other agent has answered later probes on another path */
	MV_PROBED_END,
};

struct mv_frame {
	uint8_t type; /* enum mv_frame_type */
	uint8_t version; /* REGISTER, WELCOME, CHANGED, PROBES, PACKS, SENDERS: MV_CTL_VERSION */
	uint8_t qp_type; /* CLAIM: enum ibv_qp_type */
	char device[IBV_SYSFS_NAME_MAX]; /* CLAIM, UNCLAIM, DELIVER, STATUS, REFUSED: the local device of the QP */
	uint32_t qpn; /* CLAIM, UNCLAIM, DELIVER, STATUS, REFUSED: the local QP; UNREACHABLE: the one in SEND's message */
	union ibv_gid dgid; /* SEND, UNREACHABLE, WATCH, PATH, SUSPECT, LOOK, LOOKED; DELIVER: id of the sender's host; 0: not told */
	union ibv_gid sgid; /* WATCH, PATH, SUSPECT: of this host */
	uint8_t watch; /* WATCH: mask of enum mv_watch */
	uint8_t probed; /* PATH: enum mv_probed */
	uint16_t len; /* of @payload; 0 where the type does not use it */
	/*
	 * SEND, DELIVER: an encoded mv_ctl_msg, 1 byte at least (not looked into); REGISTER: name; STATUS: text. Texts are
	 * shorter than the array, and decoded ones NUL-terminated.
	 */
	uint8_t payload[MV_CTL_MAX_BYTES];
};

#define MV_FRAME_MAX_BYTES (MV_CTL_MAX_BYTES + 128)
#define MV_PACK_MAX_BYTES  8192 /* of a packet with several frames: some fifty messages */

/**
 * mv_frame_encode - write a frame
 * @frame: members that its type does not use are not looked at
 * @buf: MV_FRAME_MAX_BYTES
 *
 * Return: its length in bytes; 0 when @frame->type is none or a length is beyond its array.
 */
size_t mv_frame_encode(const struct mv_frame *frame, uint8_t *buf);

/**
 * mv_frame_decode - read and check a frame
 *
 * Strings end within their arrays and have no control characters; QPNs have 24 bits; a device is named where the
 * type needs one; members that the type does not use are 0. Any version is taken: who registers a process, or is
 * welcomed, decides whether it can talk to that version.
 *
 * Return: 0 or -EBADMSG; @ret is written on success only.
 */
int mv_frame_decode(const uint8_t *buf, size_t len, struct mv_frame *ret);

/**
 * mv_frame_take - read and check the first frame of a packet that may have several
 * @ret_used: its length
 *
 * Return: as mv_frame_decode().
 */
int mv_frame_take(const uint8_t *buf, size_t len, size_t *ret_used, struct mv_frame *ret);

const char *mv_frame_type_name(unsigned int type);
const char *mv_probed_name(unsigned int probed); /* "up": one word */

#endif
