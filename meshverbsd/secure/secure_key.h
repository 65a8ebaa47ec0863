/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_KEY_H
#define MD_SECURE_KEY_H

#include <stddef.h>
#include <stdint.h>

/*
 * The fleet key: a file with one or two keys, a line each, in base64 or hex, at least 32 bytes long. '#' begins a
 * comment line. The first key seals, both open.
 *
 * Rotation: add the new key as second line on all hosts and reload; swap the lines on all hosts and reload; remove the
 * old key on all hosts and reload.
 */

#define MD_KEY_BYTES 32
#define MD_KEYS_MAX  2

struct md_keys {
	size_t n; /* 0: none */
	uint8_t keys[MD_KEYS_MAX][MD_KEY_BYTES]; /* master keys: hashes of the keys in the file */
};

/**
 * md_keys_parse - parse the text of a key file
 * @text: @len bytes, no NUL needed at the end
 * @ret: written on success only; wipe with md_keys_wipe()
 * @ret_why: buffer for the reason, part of a sentence; never quotes the file
 *
 * Return: 0; -EINVAL: no key, more than two, too short, two equal ones, or neither base64 nor hex; -EIO: libsodium
 * cannot start.
 */
int md_keys_parse(const char *text, size_t len, struct md_keys *ret, char *ret_why,
		  size_t why_size);

/**
 * md_keys_load - read and parse a key file
 *
 * The file has to be regular, owned by root or by this process's user, not accessible by others, and not writable by
 * its group. Its group may read it only if that is root's or this process's.
 *
 * Return: 0; -ENOENT: no such file; -EPERM: wrong owner or mode; -EINVAL: as md_keys_parse(), not regular, or too long;
 * -errno of open(2) and read(2). @ret_why is written on failure.
 */
int md_keys_load(const char *path, struct md_keys *ret, char *ret_why, size_t why_size);

/** md_keys_wipe - overwrite the keys */
void md_keys_wipe(struct md_keys *keys);

#define MD_KEY_TEXT_SIZE 45

/** md_key_make - text of a new random key, without newline. Return: 0 or -EIO (no source of random numbers) */
int md_key_make(char ret[MD_KEY_TEXT_SIZE]);

#endif
