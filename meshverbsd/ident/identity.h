/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_IDENTITY_H
#define MD_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Identity of this host: an Ed25519 key pair that signs statements (statement.h), and an X25519 key pair for pairwise
 * keys (peer_keys.h). Both are derived from one secret in STATE_DIR/identity (mode 0600):
 *
 *    secret BASE64              32 random bytes
 *    machine BASE64             hash of /etc/machine-id of the machine that made the secret; a copy on another machine
 * is not used
 *    former BASE64 BASE64       public key before the last rotation, and its signature of the present key
 *
 * Lines come in any order; "machine" and "former" may be missing. The public signing key is the name of the host among
 * agents: people see it in base64, and compare all of it. Functions are not thread-safe with regard to one struct
 * md_identity.
 */

#define MD_IDENTITY_FILE      "identity"
#define MD_PUBLIC_BYTES       32
#define MD_SIGNATURE_BYTES    64
#define MD_PUBLIC_TEXT_SIZE   45
#define MD_IDENTITY_FILE_SIZE 512 /* any file's text is shorter */

struct md_public {
	uint8_t bytes[MD_PUBLIC_BYTES];
};

struct md_identity {
	uint8_t secret[32];
	uint8_t sign_secret[64], box_secret[32]; /* derived from @secret */
	struct md_public sign, box;
	struct md_public former; /* zero: none */
	uint8_t endorsement[MD_SIGNATURE_BYTES]; /* signature of @sign by @former */
	bool lasting; /* stored in the file */
	uint64_t since_s; /* modification time of the file, seconds since 1970; 0: not stored */
};

/** md_identity_make - make a new identity, in memory only. Return: 0 or -EIO (libsodium cannot start) */
int md_identity_make(struct md_identity *ret);

/**
 * md_identity_rotate - make a new identity that the key of @from endorses
 *
 * Return: 0 or -EIO.
 */
int md_identity_rotate(const struct md_identity *from, struct md_identity *ret);

/** md_identity_endorsed - has @former signed @key as its successor? Costs one verification. */
bool md_identity_endorsed(const struct md_public *former, const struct md_public *key, const uint8_t endorsement[MD_SIGNATURE_BYTES]);

/**
 * md_identity_parse - parse the text of an identity file
 * @machine_id: of this machine; "": not known, and not compared
 * @ret: written on success only; wipe with md_identity_wipe()
 * @ret_why: buffer for the reason, part of a sentence
 *
 * Return: 0; -EINVAL; -EXDEV: made on another machine; -EIO: libsodium cannot start.
 */
int md_identity_parse(const char *text, size_t len, const char *machine_id, struct md_identity *ret, char *ret_why, size_t why_size);

/** md_identity_format - write the text of the identity file. The caller wipes @ret */
void md_identity_format(const struct md_identity *identity, const char *machine_id, char ret[MD_IDENTITY_FILE_SIZE]);

/**
 * md_identity_load - read and parse STATE_DIR/identity
 *
 * The file has to be regular, owned by root or by this process's user, and not accessible by others.
 *
 * Return: as md_identity_parse(); -ENOENT; -EPERM: wrong owner or mode; -errno of openat(2), read(2).
 */
int md_identity_load(int dir_fd, const char *machine_id, struct md_identity *ret, char *ret_why, size_t why_size);

/**
 * md_identity_save - write another file, flush and rename it; sets @identity->lasting and since_s. Return: 0; -errno:
 * the former file stays
 */
int md_identity_save(int dir_fd, const char *machine_id, struct md_identity *identity);

void md_identity_wipe(struct md_identity *identity);

/** md_public_format - write a key in base64 */
void md_public_format(const struct md_public *key, char ret[MD_PUBLIC_TEXT_SIZE]);
/** md_public_parse - parse a key in base64, all of @text. Return: 0; -EINVAL, also for a key of zeros */
int md_public_parse(const char *text, struct md_public *ret);
bool md_public_is(const struct md_public *a, const struct md_public *b);
bool md_public_is_zero(const struct md_public *key);

#endif
