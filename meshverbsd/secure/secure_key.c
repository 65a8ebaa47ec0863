/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure_key.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "fd_all.h"

#define FILE_MAX_BYTES   4096
#define SECRET_MAX_BYTES 1024 /* of one line, after decoding */

static_assert(MD_KEY_TEXT_SIZE ==
		      sodium_base64_ENCODED_LEN(MD_KEY_BYTES, sodium_base64_VARIANT_ORIGINAL),
	      "text of a key");

static int fail(int err, char *why, size_t why_size, const char *text)
{
	snprintf(why, why_size, "%s", text);
	return err;
}

/* A line without white space at its ends. */
struct line {
	const char *text;
	size_t len;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct line next_line(const char **at, const char *end)
{
	const char *newline = memchr(*at, '\n', (size_t)(end - *at));
	struct line line = {.text = *at, .len = (size_t)((newline ? newline : end) - *at)};

	*at = newline ? newline + 1 : end;
	while (line.len && is_blank(line.text[line.len - 1]))
		line.len--;
	while (line.len && is_blank(*line.text)) {
		line.text++;
		line.len--;
	}
	return line;
}

/* Hex before base64: 64 hex digits are valid base64 as well, but are meant as hex. */
static bool decode(const struct line *line, uint8_t *secret, size_t *ret_len)
{
	static const int variants[] = {
		sodium_base64_VARIANT_ORIGINAL, sodium_base64_VARIANT_ORIGINAL_NO_PADDING,
		sodium_base64_VARIANT_URLSAFE, sodium_base64_VARIANT_URLSAFE_NO_PADDING};
	const char *end = line->text + line->len, *stop;

	if (!sodium_hex2bin(secret, SECRET_MAX_BYTES, line->text, line->len, NULL, ret_len,
			    &stop) &&
	    stop == end)
		return true;
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
		if (!sodium_base642bin(secret, SECRET_MAX_BYTES, line->text, line->len, NULL,
				       ret_len, &stop, variants[i]) &&
		    stop == end)
			return true;
	return false;
}

static int add_key(const struct line *line, struct md_keys *keys, char *why, size_t why_size)
{
	static const char personal[crypto_generichash_blake2b_PERSONALBYTES] = "mv fleet key 1";
	uint8_t secret[SECRET_MAX_BYTES];
	uint8_t *key;
	size_t len;
	bool ok;

	if (keys->n == MD_KEYS_MAX)
		return fail(-EINVAL, why, why_size, "it holds more than two keys");
	ok = decode(line, secret, &len);
	if (ok && len >= MD_KEY_BYTES) {
		key = keys->keys[keys->n++];
		crypto_generichash_blake2b_salt_personal(key, MD_KEY_BYTES, secret, len, NULL, 0,
							 NULL, (const unsigned char *)personal);
	}
	sodium_memzero(secret, sizeof(secret));
	if (!ok)
		return fail(-EINVAL, why, why_size, "a line is neither base64 nor hex");
	if (len < MD_KEY_BYTES)
		return fail(-EINVAL, why, why_size, "a key is shorter than 32 bytes");
	return 0;
}

static int parse(const char *text, size_t len, struct md_keys *keys, char *why, size_t why_size)
{
	const char *at = text, *end = text + len;
	int rc;

	while (at < end) {
		struct line line = next_line(&at, end);

		if (!line.len || *line.text == '#')
			continue;
		rc = add_key(&line, keys, why, why_size);
		if (rc)
			return rc;
	}
	if (!keys->n)
		return fail(-EINVAL, why, why_size, "it holds no key");
	if (keys->n == 2 && !memcmp(keys->keys[0], keys->keys[1], MD_KEY_BYTES))
		return fail(-EINVAL, why, why_size, "both keys are the same");
	return 0;
}

int md_keys_parse(const char *text, size_t len, struct md_keys *ret, char *ret_why, size_t why_size)
{
	struct md_keys keys = {0};
	int rc;

	if (sodium_init() < 0)
		return fail(-EIO, ret_why, why_size, "libsodium cannot start");
	rc = parse(text, len, &keys, ret_why, why_size);
	if (!rc)
		*ret = keys;
	md_keys_wipe(&keys);
	return rc;
}

static int check_file(const struct stat *st, char *why, size_t why_size)
{
	if (!S_ISREG(st->st_mode))
		return fail(-EINVAL, why, why_size, "it is not a regular file");
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return fail(-EPERM, why, why_size,
			    "it belongs neither to root nor to the agent's user");
	if (st->st_mode & (S_IRWXO | S_IWGRP | S_IXGRP))
		return fail(-EPERM, why, why_size, "others may use it: chmod 0600");
	if ((st->st_mode & S_IRGRP) && st->st_gid != 0 && st->st_gid != getegid())
		return fail(-EPERM, why, why_size,
			    "a group that is not the agent's may read it: chmod 0600");
	return 0;
}

static int load_fd(int fd, struct md_keys *ret, char *why, size_t why_size)
{
	char text[FILE_MAX_BYTES];
	struct stat st;
	ssize_t len;
	int rc;

	if (fstat(fd, &st))
		return fail(-errno, why, why_size, strerror(errno));
	rc = check_file(&st, why, why_size);
	if (rc)
		return rc;
	len = mv_read_all(fd, text, sizeof(text));
	if (len < 0)
		rc = fail((int)len, why, why_size, strerror((int)-len));
	else if (len == sizeof(text))
		rc = fail(-EINVAL, why, why_size, "it is too long");
	else
		rc = md_keys_parse(text, (size_t)len, ret, why, why_size);
	sodium_memzero(text, sizeof(text));
	return rc;
}

int md_keys_load(const char *path, struct md_keys *ret, char *ret_why, size_t why_size)
{
	int fd, rc;

	/* O_NONBLOCK: a FIFO is refused at once. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fail(-errno, ret_why, why_size, strerror(errno));
	rc = load_fd(fd, ret, ret_why, why_size);
	close(fd);
	return rc;
}

void md_keys_wipe(struct md_keys *keys)
{
	sodium_memzero(keys, sizeof(*keys));
}

int md_key_make(char ret[MD_KEY_TEXT_SIZE])
{
	uint8_t key[MD_KEY_BYTES];

	if (sodium_init() < 0)
		return -EIO;
	randombytes_buf(key, sizeof(key));
	sodium_bin2base64(ret, MD_KEY_TEXT_SIZE, key, sizeof(key), sodium_base64_VARIANT_ORIGINAL);
	sodium_memzero(key, sizeof(key));
	return 0;
}
