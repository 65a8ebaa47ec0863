/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PINS_H
#define MD_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bounds.h"
#include "hash.h"
#include "identity.h"

/*
 * Pins: the key that a host of a certain name has to have. Sources: STATE_DIR/known_hosts, one line each, and "key=" in
 * the hosts file, which has precedence and is not saved here. '#' begins a comment line.
 *
 *    NAME KEY HOW SINCE     HOW: first-contact, unconfirmed, operator, rotated; SINCE: seconds since 1970
 *    NAME KEY revoked SINCE     this key is refused under any name
 *
 * unconfirmed: met, but the host has not sealed anything yet. Anybody on a link can show keys under any number of names,
 * so in a full table such a pin makes room: the one whose host was heard longest ago. Agents that do not know the word
 * leave the line out.
 *
 * Not thread-safe, except md_pins_save(). Zeroed at first.
 */

#define MD_PINS_FILE  "known_hosts"

enum md_pin_how { MD_PIN_FIRST_CONTACT, MD_PIN_OPERATOR, MD_PIN_ROTATED, MD_PIN_UNCONFIRMED, MD_PIN_REVOKED, MD_PIN_HOSTS_FILE };

struct md_pin {
	UT_hash_handle hh;
	char name[64];
	bool has_own, has_file; /* at least one is set */
	struct md_public own, file;
	enum md_pin_how how; /* origin of @own */
	uint64_t since_s;
	uint64_t seen_s; /* when a host that has expired was last heard; 0: not in this run. Not saved */
	struct md_pin *prev, *next; /* in md_pins.unconfirmed; NULL: not there */
};

struct md_revoked {
	UT_hash_handle hh;
	struct md_public key;
	char name[64]; /* name of the host that had the key */
	uint64_t since_s;
};

struct md_pins {
	struct md_pin *by_name;
	struct md_revoked *revoked; /* hash table, by key */
	size_t n, n_revoked;
	struct md_pin *unconfirmed; /* those that may make room, the first one first; list of utlist.h */
	size_t n_replaced; /* pins that made room for others */
	bool dirty; /* changed since the file was written */
	bool noted; /* likewise, by unconfirmed pins only: anybody on a link can make so many that the file would be written without end */
};

const char *md_pin_how_name(enum md_pin_how how);

/** md_pins_find - Return: the key that a host of that name has to have; NULL: any. Valid until the pins change */
const struct md_public *md_pins_find(const struct md_pins *pins, const char *name, enum md_pin_how *ret_how, uint64_t *ret_since_s);

bool md_pins_is_revoked(const struct md_pins *pins, const struct md_public *key);
/** md_pins_revoked_as - Return: name under which the key was revoked; NULL: not revoked. Valid until the pins change */
const char *md_pins_revoked_as(const struct md_pins *pins, const struct md_public *key);

/**
 * md_pins_set - pin a key, replacing the present one; the hosts file keeps precedence. Return: 0; -EINVAL: bad name;
 * -ENOSPC: MD_PINS_MAX pins, none of them unconfirmed; -ENOMEM
 */
int md_pins_set(struct md_pins *pins, const char *name, const struct md_public *key, enum md_pin_how how, uint64_t since_s);

/** md_pins_confirm - a host of that name has sealed something, and has that key. Return: 0; -ENOENT: no key is pinned for the name */
int md_pins_confirm(struct md_pins *pins, const char *name, const struct md_public *key);

/** md_pins_seen - a host has expired that was last heard at @seen_s */
void md_pins_seen(struct md_pins *pins, const char *name, uint64_t seen_s);

/** md_pins_forget - remove a pin. Return: 0; -ENOENT: no pin; -EPERM: the pin is from the hosts file */
int md_pins_forget(struct md_pins *pins, const char *name);

/** md_pins_revoke - refuse a key from now on, and remove its pin. Return: 0; -ENOSPC; -ENOMEM */
int md_pins_revoke(struct md_pins *pins, const char *name, const struct md_public *key, uint64_t since_s);
/** md_pins_restore - undo md_pins_revoke(), without the pin. Return: 0 or -ENOENT */
int md_pins_restore(struct md_pins *pins, const struct md_public *key);

/**
 * md_pins_set_file - pin a key of the hosts file. Return: 0; -EINVAL: bad name; -EEXIST: the file has another key
 * already; -ENOMEM; -ENOSPC
 */
int md_pins_set_file(struct md_pins *pins, const char *name, const struct md_public *key);
void md_pins_forget_file(struct md_pins *pins); /* remove all pins of the hosts file */

/**
 * md_pins_parse - take the lines of a file
 *
 * Return: number of lines that were not understood and left out; *@ret_line: the first of these, from 1.
 */
unsigned int md_pins_parse(struct md_pins *pins, const char *text, size_t len, unsigned int *ret_line);

/** md_pins_format - the text of the file, for free(); NULL: no memory */
char *md_pins_format(const struct md_pins *pins, size_t *ret_len);

/**
 * md_pins_load - read and parse the file. Return: 0, also without a file; -EPERM: others may write it; -EFBIG; -EINVAL:
 * not regular;
 * -ENOMEM; another -errno
 */
int md_pins_load(int dir_fd, struct md_pins *pins, unsigned int *ret_n_bad, unsigned int *ret_line);
/** md_pins_save - write another file, flush and rename it. May run in any thread: uses its arguments only. Return: 0 or -errno */
int md_pins_save(int dir_fd, const char *text, size_t len);

void md_pins_fini(struct md_pins *pins);

#endif
