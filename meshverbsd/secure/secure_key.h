/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_KEY_H
#define MD_SECURE_KEY_H

#include <stddef.h>
#include <stdint.h>

/*
 * The fleet key: a file of one or two keys, a line each, in base64 or hex, at least 32 bytes long;
 * '#' starts a comment line. The first is used to send, both to receive.
 *
 * To rotate: add the new key as second line everywhere and reload; swap the lines everywhere and
 * reload; remove the old one everywhere and reload.
 */

#define MD_KEY_BYTES 32
#define MD_KEYS_MAX  2

struct md_keys {
	size_t n; /* 0: none */
	uint8_t keys[MD_KEYS_MAX][MD_KEY_BYTES]; /* master keys: hashes of what the file has */
};

/**
 * md_keys_parse - read the text of a key file
 * @text: @len bytes, need not end in NUL
 * @ret: written on success only
 * @ret_why: buffer for a sentence part about what is wrong; never quotes the file
 *
 * Return: 0; -EINVAL: no key, more than two, one too short, twice the same, or neither base64 nor
 * hex.
 */
int md_keys_parse(const char *text, size_t len, struct md_keys *ret, char *ret_why,
		  size_t why_size);

/**
 * md_keys_load - read a key file
 *
 * The file has to be regular, owned by root or by this process's user, not accessible by others and
 * not writable by its group; readable by its group only if that is root's or this process's.
 *
 * Return: 0; -ENOENT: there is none; -EPERM: wrong owner or mode; -EINVAL: as md_keys_parse(), not
 * regular or too long; -errno of open(2) and read(2). @ret_why is written on failure.
 */
int md_keys_load(const char *path, struct md_keys *ret, char *ret_why, size_t why_size);

/** md_keys_wipe - forget them */
void md_keys_wipe(struct md_keys *keys);

#define MD_KEY_TEXT_SIZE 45

/** md_key_make - text of a new random key, without a newline; 0 or -EIO (no source of random
 * numbers) */
int md_key_make(char ret[MD_KEY_TEXT_SIZE]);

#endif
