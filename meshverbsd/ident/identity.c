/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "identity.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "fd_all.h"

#define ASIDE MD_IDENTITY_FILE ".new"

static_assert(crypto_sign_PUBLICKEYBYTES == MD_PUBLIC_BYTES && crypto_box_PUBLICKEYBYTES == MD_PUBLIC_BYTES, "public keys");
static_assert(crypto_sign_BYTES == MD_SIGNATURE_BYTES && crypto_sign_SECRETKEYBYTES == 64, "signatures");
static_assert(crypto_kdf_KEYBYTES == 32 && crypto_sign_SEEDBYTES == 32 && crypto_box_SEEDBYTES == 32, "seeds");

static int fail(int err, char *why, size_t why_size, const char *text)
{
	snprintf(why, why_size, "%s", text);
	return err;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void derive(struct md_identity *identity)
{
	uint8_t seed[32];

	crypto_kdf_derive_from_key(seed, sizeof(seed), 1, "mvident1", identity->secret);
	crypto_sign_seed_keypair(identity->sign.bytes, identity->sign_secret, seed);
	crypto_kdf_derive_from_key(seed, sizeof(seed), 2, "mvident1", identity->secret);
	crypto_box_seed_keypair(identity->box.bytes, identity->box_secret, seed);
	sodium_memzero(seed, sizeof(seed));
}

int md_identity_make(struct md_identity *ret)
{
	if (sodium_init() < 0)
		return -EIO;
	memset(ret, 0, sizeof(*ret));
	randombytes_buf(ret->secret, sizeof(ret->secret));
	derive(ret);
	return 0;
}

/* The bytes that a key signs to name its successor. No other signed message begins with this text. */
struct endorsed {
	char what[16];
	struct md_public former, key;
};

static struct endorsed endorsed_of(const struct md_public *former, const struct md_public *key)
{
	return (struct endorsed){.what = "mv successor 1", .former = *former, .key = *key};
}

int md_identity_rotate(const struct md_identity *from, struct md_identity *ret)
{
	struct md_identity new;
	struct endorsed endorsed;
	int err = md_identity_make(&new);

	if (err)
		return err;
	new.former = from->sign;
	endorsed = endorsed_of(&new.former, &new.sign);
	crypto_sign_detached(new.endorsement, NULL, (const uint8_t *)&endorsed, sizeof(endorsed), from->sign_secret);
	*ret = new;
	md_identity_wipe(&new);
	return 0;
}

bool md_identity_endorsed(const struct md_public *former, const struct md_public *key, const uint8_t endorsement[MD_SIGNATURE_BYTES])
{
	struct endorsed endorsed = endorsed_of(former, key);

	return !crypto_sign_verify_detached(endorsement, (const uint8_t *)&endorsed, sizeof(endorsed), former->bytes);
}

void md_identity_wipe(struct md_identity *identity)
{
	sodium_memzero(identity, sizeof(*identity));
}

bool md_public_is(const struct md_public *a, const struct md_public *b)
{
	return !memcmp(a, b, sizeof(*a));
}

bool md_public_is_zero(const struct md_public *key)
{
	return sodium_is_zero(key->bytes, sizeof(key->bytes));
}

/* ---- text ------------------------------------------------------------------------------------ */

static_assert(MD_PUBLIC_TEXT_SIZE == sodium_base64_ENCODED_LEN(MD_PUBLIC_BYTES, sodium_base64_VARIANT_ORIGINAL), "text of a key");

static void encode(const void *bytes, size_t len, char *ret, size_t size)
{
	sodium_bin2base64(ret, size, bytes, len, sodium_base64_VARIANT_ORIGINAL);
}

static int decode(const char *text, void *ret, size_t len)
{
	size_t n;

	if (sodium_base642bin(ret, len, text, strlen(text), NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) || n != len)
		return -EINVAL;
	return 0;
}

void md_public_format(const struct md_public *key, char ret[MD_PUBLIC_TEXT_SIZE])
{
	encode(key, sizeof(*key), ret, MD_PUBLIC_TEXT_SIZE);
}

int md_public_parse(const char *text, struct md_public *ret)
{
	struct md_public key;

	if (decode(text, &key, sizeof(key)) || md_public_is_zero(&key))
		return -EINVAL;
	*ret = key;
	return 0;
}

struct machine {
	uint8_t hash[32];
};

static struct machine machine_of(const char *machine_id)
{
	static const char key[] = "meshverbs machine";
	struct machine machine;

	crypto_generichash(machine.hash, sizeof(machine.hash), (const uint8_t *)machine_id, strlen(machine_id), (const uint8_t *)key,
			   sizeof(key) - 1);
	return machine;
}

void md_identity_format(const struct md_identity *identity, const char *machine_id, char ret[MD_IDENTITY_FILE_SIZE])
{
	char secret[48], machine[64] = "", former[48], endorsement[96];
	struct machine hash = machine_of(machine_id);
	size_t len;

	encode(identity->secret, sizeof(identity->secret), secret, sizeof(secret));
	if (*machine_id) {
		memcpy(machine, "machine ", 8);
		encode(&hash, sizeof(hash), machine + 8, sizeof(machine) - 9);
		strcat(machine, "\n");
	}
	snprintf(ret, MD_IDENTITY_FILE_SIZE, "# The identity of this host for meshverbs. Secret: nobody else may read it.\nsecret %s\n%s", secret,
		 machine);
	sodium_memzero(secret, sizeof(secret));
	if (md_public_is_zero(&identity->former))
		return;
	encode(&identity->former, sizeof(identity->former), former, sizeof(former));
	encode(identity->endorsement, sizeof(identity->endorsement), endorsement, sizeof(endorsement));
	len = strlen(ret);
	snprintf(ret + len, MD_IDENTITY_FILE_SIZE - len, "former %s %s\n", former, endorsement);
}

struct parser {
	struct md_identity identity;
	struct machine machine;
	bool has_secret, has_machine, has_former;
};

/* A line: a keyword and one value, or two for "former". Return: false: not understood. */
static bool parse_line(struct parser *parser, char *line)
{
	char *save, *word = strtok_r(line, " \t\r", &save), *value, *second, *third;
	bool *has;

	if (!word || *word == '#')
		return true;
	value = strtok_r(NULL, " \t\r", &save);
	second = value ? strtok_r(NULL, " \t\r", &save) : NULL;
	third = second ? strtok_r(NULL, " \t\r", &save) : NULL;
	has = !strcmp(word, "secret")	 ? &parser->has_secret
	      : !strcmp(word, "machine") ? &parser->has_machine
	      : !strcmp(word, "former")	 ? &parser->has_former
					 : NULL;
	if (!has || *has || !value || third || (has == &parser->has_former) != (second != NULL))
		return false;
	*has = true;
	if (has == &parser->has_secret)
		return !decode(value, parser->identity.secret, sizeof(parser->identity.secret));
	if (has == &parser->has_machine)
		return !decode(value, &parser->machine, sizeof(parser->machine));
	return !md_public_parse(value, &parser->identity.former) &&
	       !decode(second, parser->identity.endorsement, sizeof(parser->identity.endorsement));
}

static int parse(struct parser *parser, char *text, const char *machine_id, char *why, size_t why_size)
{
	struct machine here = machine_of(machine_id);
	char *save;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (!parse_line(parser, line))
			return fail(-EINVAL, why, why_size, "a line of it is not understood");
	if (!parser->has_secret || sodium_is_zero(parser->identity.secret, sizeof(parser->identity.secret)))
		return fail(-EINVAL, why, why_size, "it holds no secret");
	derive(&parser->identity);
	if (parser->has_former &&
	    !md_identity_endorsed(&parser->identity.former, &parser->identity.sign, parser->identity.endorsement))
		return fail(-EINVAL, why, why_size, "the former key has not signed the present one");
	if (*machine_id && parser->has_machine && sodium_memcmp(&here, &parser->machine, sizeof(here)))
		return fail(-EXDEV, why, why_size, "it was made on another machine");
	return 0;
}

int md_identity_parse(const char *text, size_t len, const char *machine_id, struct md_identity *ret, char *ret_why, size_t why_size)
{
	struct parser parser = {0};
	char copy[MD_IDENTITY_FILE_SIZE];
	int err;

	if (sodium_init() < 0)
		return fail(-EIO, ret_why, why_size, "libsodium cannot start");
	if (len >= sizeof(copy) || memchr(text, '\0', len))
		return fail(-EINVAL, ret_why, why_size, "it is too long, or no text");
	memcpy(copy, text, len);
	copy[len] = '\0';
	err = parse(&parser, copy, machine_id, ret_why, why_size);
	if (!err)
		*ret = parser.identity;
	sodium_memzero(copy, sizeof(copy));
	sodium_memzero(&parser, sizeof(parser));
	return err;
}

/* ---- file ------------------------------------------------------------------------------------ */

static int check_file(const struct stat *st, char *why, size_t why_size)
{
	if (!S_ISREG(st->st_mode))
		return fail(-EINVAL, why, why_size, "it is not a regular file");
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return fail(-EPERM, why, why_size, "it belongs neither to root nor to the agent's user");
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return fail(-EPERM, why, why_size, "others may use it: chmod 0600, or remove it if others may have read it");
	return 0;
}

static int load_fd(int fd, const char *machine_id, struct md_identity *ret, char *why, size_t why_size)
{
	char text[MD_IDENTITY_FILE_SIZE];
	struct stat st;
	ssize_t len;
	int err;

	if (fstat(fd, &st))
		return fail(-errno, why, why_size, strerror(errno));
	err = check_file(&st, why, why_size);
	if (err)
		return err;
	len = mv_read_all(fd, text, sizeof(text));
	if (len < 0)
		return fail((int)len, why, why_size, strerror((int)-len));
	err = md_identity_parse(text, (size_t)len, machine_id, ret, why, why_size);
	sodium_memzero(text, sizeof(text));
	if (!err) {
		ret->lasting = true;
		ret->since_s = (uint64_t)st.st_mtime;
	}
	return err;
}

int md_identity_load(int dir_fd, const char *machine_id, struct md_identity *ret, char *ret_why, size_t why_size)
{
	int err, fd = openat(dir_fd, MD_IDENTITY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return fail(-errno, ret_why, why_size, strerror(errno));
	err = load_fd(fd, machine_id, ret, ret_why, why_size);
	close(fd);
	return err;
}

int md_identity_save(int dir_fd, const char *machine_id, struct md_identity *identity)
{
	char text[MD_IDENTITY_FILE_SIZE];
	struct stat st;
	int fd, err;

	unlinkat(dir_fd, ASIDE, 0);
	fd = openat(dir_fd, ASIDE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	md_identity_format(identity, machine_id, text);
	err = mv_write_lasting(fd, text, strlen(text));
	sodium_memzero(text, sizeof(text));
	/* mtime as md_identity_load() will read it. */
	if (!err && fstat(fd, &st))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir_fd, ASIDE, dir_fd, MD_IDENTITY_FILE))
		err = -errno;
	if (err)
		unlinkat(dir_fd, ASIDE, 0);
	if (!err) {
		identity->lasting = true;
		identity->since_s = (uint64_t)st.st_mtime;
	}
	return err;
}
