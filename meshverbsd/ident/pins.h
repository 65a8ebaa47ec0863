/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PINS_H
#define MD_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash.h"
#include "identity.h"

/*
 * Which key a host of some name has: STATE_DIR/known_hosts, a line each, and "key=" in the hosts file, which has precedence and is not
 * saved here. '#' begins a comment line.
 *
 *    NAME KEY HOW SINCE     HOW: first-contact, operator, rotated; SINCE: seconds since 1970
 *    NAME KEY revoked SINCE     this key is never believed again, under whatever name
 *
 * Not thread-safe. Zeroed to begin with.
 */

#define MD_PINS_FILE  "known_hosts"
#define MD_PINS_MAX   32768 /* twice as many as there may be hosts; 200 bytes each */
#define MD_REVOKED_MAX 4096
#define MD_PINS_BYTES_MAX (8u << 20)

enum md_pin_how { MD_PIN_FIRST_CONTACT, MD_PIN_OPERATOR, MD_PIN_ROTATED, MD_PIN_REVOKED, MD_PIN_HOSTS_FILE };

struct md_pin {
	UT_hash_handle hh;
	char name[64];
	bool has_own, has_file; /* one of them at least */
	struct md_public own, file;
	enum md_pin_how how; /* of @own */
	uint64_t since_s;
	uint64_t seen_s; /* when the host was heard last, if it is not heard any more; 0: not since the start. Not saved */
};

struct md_revoked {
	UT_hash_handle hh;
	struct md_public key;
	char name[64]; /* of the host that had it */
	uint64_t since_s;
};

struct md_pins {
	struct md_pin *by_name;
	struct md_revoked *revoked; /* by key */
	size_t n, n_revoked;
	bool dirty; /* changed since md_pins_format() */
};

const char *md_pin_how_name(enum md_pin_how how);

/** md_pins_find - which key has a host of that name to have? NULL: any */
const struct md_public *md_pins_find(const struct md_pins *pins, const char *name, enum md_pin_how *ret_how, uint64_t *ret_since_s);

bool md_pins_is_revoked(const struct md_pins *pins, const struct md_public *key);
/** md_pins_revoked_as - under which name; NULL: it is not. Valid until the pins change */
const char *md_pins_revoked_as(const struct md_pins *pins, const struct md_public *key);

/** md_pins_set - replace what is there, but for the hosts file's. 0; -EINVAL: no name; -ENOSPC; -ENOMEM */
int md_pins_set(struct md_pins *pins, const char *name, const struct md_public *key, enum md_pin_how how, uint64_t since_s);

/** md_pins_seen - a host of that name was heard then, and is not any more */
void md_pins_seen(struct md_pins *pins, const char *name, uint64_t seen_s);

/** md_pins_forget - 0; -ENOENT: there is none; -EPERM: the hosts file has it */
int md_pins_forget(struct md_pins *pins, const char *name);

/** md_pins_revoke - that key is not believed any more. 0, -ENOSPC, -ENOMEM */
int md_pins_revoke(struct md_pins *pins, const char *name, const struct md_public *key, uint64_t since_s);
/** md_pins_restore - undo md_pins_revoke(); 0 or -ENOENT */
int md_pins_restore(struct md_pins *pins, const struct md_public *key);

/** md_pins_set_file - the hosts file says so. 0; -EEXIST: with another key in it already; -ENOMEM, -ENOSPC */
int md_pins_set_file(struct md_pins *pins, const char *name, const struct md_public *key);
void md_pins_forget_file(struct md_pins *pins); /* all of it */

/**
 * md_pins_parse - take the lines of a file
 *
 * Return: how many lines were not understood, and are left out; *@ret_line: the first one.
 */
unsigned int md_pins_parse(struct md_pins *pins, const char *text, size_t len, unsigned int *ret_line);

/** md_pins_format - the text of the file, malloc()ed; NULL without memory */
char *md_pins_format(const struct md_pins *pins, size_t *ret_len);

/** md_pins_load - 0, also where there is no file; -EPERM: others may write it; -EFBIG, -EINVAL, -ENOMEM, -errno */
int md_pins_load(int dir_fd, struct md_pins *pins, unsigned int *ret_n_bad, unsigned int *ret_line);
/** md_pins_save - written aside, flushed, renamed. Touches nothing but its arguments: for another thread. 0 or -errno */
int md_pins_save(int dir_fd, const char *text, size_t len);

void md_pins_fini(struct md_pins *pins);

#endif
