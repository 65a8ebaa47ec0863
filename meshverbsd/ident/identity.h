/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_IDENTITY_H
#define MD_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The identity of this host: an Ed25519 key pair that signs statements (statement.h), and an X25519 key pair for
 * pairwise keys (peer_keys.h). Both follow from one secret, which stands in STATE_DIR/identity (mode 0600):
 *
 *    secret BASE64              32 random bytes
 *    machine BASE64             hash of /etc/machine-id where the secret was made; a copy of the file on another machine is not used
 *    former BASE64 BASE64       the public key before the last rotation, and its signature of the present one
 *
 * Lines may come in any order; "machine" and "former" may be missing. The public signing key is the host's name among agents: people
 * see it in base64, and compare all of it.
 */

#define MD_IDENTITY_FILE      "identity"
#define MD_PUBLIC_BYTES       32
#define MD_SIGNATURE_BYTES    64
#define MD_PUBLIC_TEXT_SIZE   45
#define MD_IDENTITY_FILE_SIZE 512 /* the text of a file is shorter */

struct md_public {
	uint8_t bytes[MD_PUBLIC_BYTES];
};

struct md_identity {
	uint8_t secret[32];
	uint8_t sign_secret[64], box_secret[32]; /* what follows from @secret */
	struct md_public sign, box;
	struct md_public former; /* zero: none */
	uint8_t endorsement[MD_SIGNATURE_BYTES]; /* @former's signature of @sign */
	bool lasting; /* in a file */
	uint64_t since_s; /* of the file, in seconds since 1970; 0: in none */
};

/** md_identity_make - a new one, in memory; 0 or -EIO (libsodium cannot start) */
int md_identity_make(struct md_identity *ret);

/**
 * md_identity_rotate - a new one, which @from endorses
 *
 * Return: 0 or -EIO.
 */
int md_identity_rotate(const struct md_identity *from, struct md_identity *ret);

/** md_identity_endorsed - has @former signed that @key follows it? One verification. */
bool md_identity_endorsed(const struct md_public *former, const struct md_public *key, const uint8_t endorsement[MD_SIGNATURE_BYTES]);

/**
 * md_identity_parse - read the text of an identity file
 * @machine_id: of this machine; "": not known, then it is not compared
 * @ret_why: buffer for a sentence part about what is wrong
 *
 * Return: 0; -EINVAL; -EXDEV: made on another machine; -EIO.
 */
int md_identity_parse(const char *text, size_t len, const char *machine_id, struct md_identity *ret, char *ret_why, size_t why_size);

/** md_identity_format - the text of its file, for md_wipe() */
void md_identity_format(const struct md_identity *identity, const char *machine_id, char ret[MD_IDENTITY_FILE_SIZE]);

/**
 * md_identity_load - read STATE_DIR/identity
 *
 * The file has to be regular, of root or of this process's user, with no right for anybody else.
 *
 * Return: as md_identity_parse(); -ENOENT; -EPERM: owner or mode; -errno of openat(2), read(2).
 */
int md_identity_load(int dir_fd, const char *machine_id, struct md_identity *ret, char *ret_why, size_t why_size);

/** md_identity_save - write it aside, flush, rename; sets @identity->lasting and since_s. 0 or -errno, and the former file stays */
int md_identity_save(int dir_fd, const char *machine_id, struct md_identity *identity);

void md_identity_wipe(struct md_identity *identity);

/** md_public_format - base64 */
void md_public_format(const struct md_public *key, char ret[MD_PUBLIC_TEXT_SIZE]);
/** md_public_parse - base64, the whole of @text; 0 or -EINVAL, also for a key of zeros */
int md_public_parse(const char *text, struct md_public *ret);
bool md_public_is(const struct md_public *a, const struct md_public *b);
bool md_public_is_zero(const struct md_public *key);

#endif
