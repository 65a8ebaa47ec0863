/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "pins.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "fd_all.h"
#include "statement.h"

#define ASIDE	       MD_PINS_FILE ".new"
#define LINE_MAX_BYTES 256

static const char *const hows[] = {
	[MD_PIN_FIRST_CONTACT] = "first-contact", [MD_PIN_OPERATOR] = "operator",     [MD_PIN_ROTATED] = "rotated",
	[MD_PIN_UNCONFIRMED] = "unconfirmed",	  [MD_PIN_REVOKED] = "revoked",	       [MD_PIN_HOSTS_FILE] = "hosts-file",
};

const char *md_pin_how_name(enum md_pin_how how)
{
	return hows[how];
}

/* ---- table ----------------------------------------------------------------------------------- */

static struct md_pin *find(const struct md_pins *pins, const char *name)
{
	struct md_pin *pin;

	HASH_FIND(hh, pins->by_name, name, strlen(name), pin);
	return pin;
}

const struct md_public *md_pins_find(const struct md_pins *pins, const char *name, enum md_pin_how *ret_how, uint64_t *ret_since_s)
{
	const struct md_pin *pin = find(pins, name);

	if (!pin)
		return NULL;
	if (ret_how)
		*ret_how = pin->has_file ? MD_PIN_HOSTS_FILE : pin->how;
	if (ret_since_s)
		*ret_since_s = pin->has_file ? 0 : pin->since_s;
	return pin->has_file ? &pin->file : &pin->own;
}

static struct md_revoked *find_revoked(const struct md_pins *pins, const struct md_public *key)
{
	struct md_revoked *revoked;

	HASH_FIND(hh, pins->revoked, key->bytes, sizeof(key->bytes), revoked);
	return revoked;
}

bool md_pins_is_revoked(const struct md_pins *pins, const struct md_public *key)
{
	return find_revoked(pins, key);
}

const char *md_pins_revoked_as(const struct md_pins *pins, const struct md_public *key)
{
	const struct md_revoked *revoked = find_revoked(pins, key);

	return revoked ? revoked->name : NULL;
}

static void remove_pin(struct md_pins *pins, struct md_pin *pin)
{
	if (pin->prev)
		DL_DELETE(pins->unconfirmed, pin);
	HASH_DEL(pins->by_name, pin);
	pins->n--;
	free(pin);
}

/* After each change of a pin, and when its host was heard: may it make room for another one, and after which others? */
static void note_unconfirmed(struct md_pins *pins, struct md_pin *pin)
{
	if (pin->prev)
		DL_DELETE(pins->unconfirmed, pin);
	pin->prev = pin->next = NULL;
	if (pin->has_own && !pin->has_file && pin->how == MD_PIN_UNCONFIRMED)
		DL_APPEND(pins->unconfirmed, pin);
}

static bool make_room(struct md_pins *pins)
{
	if (pins->n < MD_PINS_MAX)
		return true;
	if (!pins->unconfirmed)
		return false;
	remove_pin(pins, pins->unconfirmed);
	pins->n_replaced++;
	return true;
}

static int get(struct md_pins *pins, const char *name, struct md_pin **ret)
{
	struct md_pin *pin = find(pins, name);

	*ret = pin;
	if (pin)
		return 0;
	if (!md_statement_is_name(name))
		return -EINVAL;
	if (!make_room(pins))
		return -ENOSPC;
	pin = calloc(1, sizeof(*pin));
	if (!pin)
		return -ENOMEM;
	memcpy(pin->name, name, strlen(name));
	HASH_ADD_KEYPTR(hh, pins->by_name, pin->name, strlen(pin->name), pin);
	if (!pin->hh.tbl) {
		free(pin);
		return -ENOMEM;
	}
	pins->n++;
	*ret = pin;
	return 0;
}

static void drop_if_empty(struct md_pins *pins, struct md_pin *pin)
{
	if (pin->has_own || pin->has_file)
		note_unconfirmed(pins, pin);
	else
		remove_pin(pins, pin);
}

int md_pins_set(struct md_pins *pins, const char *name, const struct md_public *key, enum md_pin_how how, uint64_t since_s)
{
	struct md_pin *pin;
	int err = get(pins, name, &pin);

	if (err)
		return err;
	pin->has_own = true;
	pin->own = *key;
	pin->how = how;
	pin->since_s = since_s;
	note_unconfirmed(pins, pin);
	if (how == MD_PIN_UNCONFIRMED)
		pins->noted = true;
	else
		pins->dirty = true;
	return 0;
}

int md_pins_confirm(struct md_pins *pins, const char *name, const struct md_public *key)
{
	struct md_pin *pin = find(pins, name);

	if (!pin)
		return -ENOENT;
	if (!pin->has_own || pin->how != MD_PIN_UNCONFIRMED || !md_public_is(&pin->own, key))
		return 0;
	pin->how = MD_PIN_FIRST_CONTACT;
	note_unconfirmed(pins, pin);
	pins->dirty = true;
	return 0;
}

void md_pins_seen(struct md_pins *pins, const char *name, uint64_t seen_s)
{
	struct md_pin *pin = find(pins, name);

	if (!pin)
		return;
	pin->seen_s = seen_s;
	note_unconfirmed(pins, pin);
}

int md_pins_forget(struct md_pins *pins, const char *name)
{
	struct md_pin *pin = find(pins, name);

	if (!pin)
		return -ENOENT;
	if (!pin->has_own)
		return -EPERM;
	pin->has_own = false;
	pins->dirty = true;
	drop_if_empty(pins, pin);
	return 0;
}

int md_pins_revoke(struct md_pins *pins, const char *name, const struct md_public *key, uint64_t since_s)
{
	struct md_revoked *revoked = find_revoked(pins, key);
	struct md_pin *pin = find(pins, name);

	if (!revoked && pins->n_revoked == MD_REVOKED_MAX)
		return -ENOSPC;
	if (!revoked) {
		revoked = calloc(1, sizeof(*revoked));
		if (!revoked)
			return -ENOMEM;
		revoked->key = *key;
		snprintf(revoked->name, sizeof(revoked->name), "%s", name);
		revoked->since_s = since_s;
		HASH_ADD(hh, pins->revoked, key.bytes, sizeof(revoked->key.bytes), revoked);
		if (!revoked->hh.tbl) {
			free(revoked);
			return -ENOMEM;
		}
		pins->n_revoked++;
	}
	if (pin && pin->has_own && md_public_is(&pin->own, key))
		md_pins_forget(pins, name);
	pins->dirty = true;
	return 0;
}

int md_pins_restore(struct md_pins *pins, const struct md_public *key)
{
	struct md_revoked *revoked = find_revoked(pins, key);

	if (!revoked)
		return -ENOENT;
	HASH_DEL(pins->revoked, revoked);
	pins->n_revoked--;
	pins->dirty = true;
	free(revoked);
	return 0;
}

int md_pins_set_file(struct md_pins *pins, const char *name, const struct md_public *key)
{
	struct md_pin *pin;
	int err = get(pins, name, &pin);

	if (err)
		return err;
	if (pin->has_file && !md_public_is(&pin->file, key))
		return -EEXIST;
	pin->has_file = true;
	pin->file = *key;
	note_unconfirmed(pins, pin);
	return 0;
}

void md_pins_forget_file(struct md_pins *pins)
{
	struct md_pin *pin, *next;

	HASH_ITER(hh, pins->by_name, pin, next)
	{
		if (!pin->has_file)
			continue; /* drop_if_empty() would move the pin to the end of the list, as if its host had just been heard */
		pin->has_file = false;
		drop_if_empty(pins, pin);
	}
}

void md_pins_fini(struct md_pins *pins)
{
	struct md_revoked *revoked, *next_revoked;
	struct md_pin *pin, *next;

	HASH_ITER(hh, pins->by_name, pin, next)
	{
		HASH_DEL(pins->by_name, pin);
		free(pin);
	}
	HASH_ITER(hh, pins->revoked, revoked, next_revoked)
	{
		HASH_DEL(pins->revoked, revoked);
		free(revoked);
	}
	memset(pins, 0, sizeof(*pins));
}

/* ---- text ------------------------------------------------------------------------------------ */

static int parse_seconds(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno || *text < '0' || *text > '9' || *end ? -EINVAL : 0;
}

static bool parse_line(struct md_pins *pins, char *line)
{
	char *save, *name = strtok_r(line, " \t\r", &save), *words[4];
	struct md_public key;
	uint64_t since_s;
	enum md_pin_how how;

	if (!name || *name == '#')
		return true;
	for (size_t i = 0; i < 4; i++)
		words[i] = i && !words[i - 1] ? NULL : strtok_r(NULL, " \t\r", &save);
	if (!words[2] || words[3] || md_public_parse(words[0], &key) || parse_seconds(words[2], &since_s) || !md_statement_is_name(name))
		return false;
	for (how = MD_PIN_FIRST_CONTACT; how < MD_PIN_HOSTS_FILE && strcmp(words[1], hows[how]); how++)
		;
	if (how == MD_PIN_HOSTS_FILE)
		return false;
	/* The file pins a revoked key: the revocation wins. */
	if (how != MD_PIN_REVOKED && md_pins_is_revoked(pins, &key))
		return true;
	return how == MD_PIN_REVOKED ? !md_pins_revoke(pins, name, &key, since_s) : !md_pins_set(pins, name, &key, how, since_s);
}

unsigned int md_pins_parse(struct md_pins *pins, const char *text, size_t len, unsigned int *ret_line)
{
	unsigned int n_bad = 0, number = 0;
	char line[LINE_MAX_BYTES];

	for (size_t at = 0, n; at < len; at += n + 1) {
		const char *end = memchr(text + at, '\n', len - at);
		bool good = false;

		n = end ? (size_t)(end - text) - at : len - at;
		number++;
		if (n < sizeof(line) && !memchr(text + at, '\0', n)) {
			memcpy(line, text + at, n);
			line[n] = '\0';
			good = parse_line(pins, line);
		}
		if (!good && !n_bad++)
			*ret_line = number;
	}
	return n_bad;
}

static void put_line(FILE *out, const char *name, const struct md_public *key, enum md_pin_how how, uint64_t since_s)
{
	char text[MD_PUBLIC_TEXT_SIZE];

	md_public_format(key, text);
	fprintf(out, "%s %s %s %" PRIu64 "\n", name, text, hows[how], since_s);
}

char *md_pins_format(const struct md_pins *pins, size_t *ret_len)
{
	const struct md_revoked *revoked;
	const struct md_pin *pin;
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	if (!out)
		return NULL;
	fputs("# Keys of hosts that this one has met: NAME KEY HOW SINCE. Read when meshverbsd starts, written while it runs.\n", out);
	for (pin = pins->by_name; pin; pin = pin->hh.next)
		if (pin->has_own)
			put_line(out, pin->name, &pin->own, pin->how, pin->since_s);
	for (revoked = pins->revoked; revoked; revoked = revoked->hh.next)
		put_line(out, revoked->name, &revoked->key, MD_PIN_REVOKED, revoked->since_s);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

/* ---- file ------------------------------------------------------------------------------------ */

static int load_fd(int fd, struct md_pins *pins, unsigned int *ret_n_bad, unsigned int *ret_line)
{
	struct stat st;
	ssize_t len;
	char *text;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	text = malloc(MD_PINS_BYTES_MAX);
	if (!text)
		return -ENOMEM;
	len = mv_read_all(fd, text, MD_PINS_BYTES_MAX);
	if (len == MD_PINS_BYTES_MAX)
		len = -EFBIG;
	if (len >= 0)
		*ret_n_bad = md_pins_parse(pins, text, (size_t)len, ret_line);
	free(text);
	return len < 0 ? (int)len : 0;
}

int md_pins_load(int dir_fd, struct md_pins *pins, unsigned int *ret_n_bad, unsigned int *ret_line)
{
	int err, fd = openat(dir_fd, MD_PINS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	*ret_n_bad = 0;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	err = load_fd(fd, pins, ret_n_bad, ret_line);
	close(fd);
	pins->dirty = pins->noted = false;
	return err;
}

int md_pins_save(int dir_fd, const char *text, size_t len)
{
	int fd, err;

	unlinkat(dir_fd, ASIDE, 0);
	fd = openat(dir_fd, ASIDE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = mv_write_lasting(fd, text, len);
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir_fd, ASIDE, dir_fd, MD_PINS_FILE))
		err = -errno;
	if (err)
		unlinkat(dir_fd, ASIDE, 0);
	return err;
}
