/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The host ids of hosts whose keys are known: nobody else has such an id while its host is silent. */
#include "agent.h"

#include <stdlib.h>
#include <string.h>

#define LOOKED_AT 16 /* notes that are looked at to make room for one */

static struct md_bound *find(const struct md_trust *trust, const struct mv_host_id *id)
{
	struct md_bound *bound;

	HASH_FIND(hh, trust->bound, id->bytes, sizeof(id->bytes), bound);
	return bound;
}

static struct md_bound *find_name(const struct md_trust *trust, const char *name)
{
	struct md_bound *bound;

	HASH_FIND(of_name, trust->bound_names, name, strlen(name), bound);
	return bound;
}

static void unlist_all(struct md_bound *bound)
{
	while (!LIST_EMPTY(&bound->besides))
		md_vouch_unlist(LIST_FIRST(&bound->besides));
}

static void drop(struct md_trust *trust, struct md_bound *bound)
{
	unlist_all(bound);
	HASH_DELETE(hh, trust->bound, bound);
	HASH_DELETE(of_name, trust->bound_names, bound);
	trust->n_bound--;
	free(bound);
}

/* Is the key still the one that a host of that name has to have? */
static bool is_pinned(const struct md_trust *trust, const struct md_bound *bound, enum md_pin_how *ret_how)
{
	const struct md_public *pinned = md_pins_find(&trust->pins, bound->name, ret_how, NULL);

	return pinned && md_public_is(pinned, &bound->key);
}

const struct md_bound *md_bound_find(const struct md_trust *trust, const struct mv_host_id *id)
{
	const struct md_bound *bound = find(trust, id);
	enum md_pin_how how;

	return bound && is_pinned(trust, bound, &how) ? bound : NULL;
}

/* The pin may have followed the host to its next key already, so it is not asked. */
const struct md_bound *md_bound_of(const struct md_trust *trust, const struct md_statement *said)
{
	const struct md_bound *bound = find_name(trust, said->name);

	return bound && md_trust_follows(trust, said, &bound->key) ? bound : NULL;
}

/*
 * Anybody on a link can show keys under any number of names. So in a full table a note makes room whose host has not
 * sealed anything, or whose key is not pinned any more.
 */
static bool make_room(struct md_trust *trust)
{
	for (unsigned int i = 0; trust->n_bound >= MD_PINS_MAX && i < LOOKED_AT; i++) {
		struct md_bound *oldest = trust->bound;
		enum md_pin_how how;

		if (is_pinned(trust, oldest, &how) && how != MD_PIN_UNCONFIRMED) {
			/* To the end of the table, which iterates in order of arrival. */
			HASH_DELETE(hh, trust->bound, oldest);
			HASH_ADD(hh, trust->bound, id.bytes, sizeof(oldest->id.bytes), oldest);
			if (!oldest->hh.tbl) {
				HASH_DELETE(of_name, trust->bound_names, oldest);
				trust->n_bound--;
				unlist_all(oldest);
				free(oldest);
			}
			continue;
		}
		drop(trust, oldest);
	}
	return trust->n_bound < MD_PINS_MAX;
}

/* The pinned key: a statement may have the next one, which does not replace a key of the hosts file. */
static struct md_public key_of(const struct md_trust *trust, const struct md_statement *said)
{
	const struct md_public *pinned = md_pins_find(&trust->pins, said->name, NULL, NULL);

	return pinned ? *pinned : said->sign;
}

static void add(struct md_trust *trust, const struct md_statement *said, bool sealed)
{
	struct md_bound *bound = make_room(trust) ? calloc(1, sizeof(*bound)) : NULL;

	if (!bound)
		return;
	bound->id = said->host;
	memcpy(bound->name, said->name, sizeof(bound->name));
	bound->key = key_of(trust, said);
	bound->start = said->start;
	bound->sealed = sealed;
	LIST_INIT(&bound->besides);
	HASH_ADD(hh, trust->bound, id.bytes, sizeof(bound->id.bytes), bound);
	if (!bound->hh.tbl) {
		free(bound);
		return;
	}
	HASH_ADD_KEYPTR(of_name, trust->bound_names, bound->name, strlen(bound->name), bound);
	if (!bound->of_name.tbl) {
		HASH_DELETE(hh, trust->bound, bound);
		free(bound);
		return;
	}
	trust->n_bound++;
}

/* The host says the same id once more. */
static void renew(const struct md_trust *trust, struct md_bound *bound, const struct md_statement *said, bool sealed)
{
	bound->key = key_of(trust, said);
	bound->sealed |= sealed;
	if (said->start > bound->start)
		bound->start = said->start;
}

void md_bound_note(struct md_trust *trust, const struct md_statement *said, bool sealed)
{
	struct md_bound *bound = find(trust, &said->host), *former = find_name(trust, said->name);

	if (bound && bound == former) {
		renew(trust, bound, said, sealed);
		return;
	}
	if (bound)
		drop(trust, bound);
	if (former && former->sealed && !sealed && md_bound_of(trust, said)) {
		former->key = key_of(trust, said);
		return;
	}
	if (former)
		drop(trust, former);
	add(trust, said, sealed);
}

void md_bound_list(struct md_trust *trust, struct md_vouch *vouch)
{
	struct md_bound *bound = find_name(trust, vouch->said.name);

	md_vouch_unlist(vouch);
	if (bound && memcmp(&bound->id, &vouch->said.host, sizeof(bound->id)) != 0)
		LIST_INSERT_HEAD(&bound->besides, vouch, of_name);
}

void md_bound_drop_all(struct md_trust *trust)
{
	while (trust->bound)
		drop(trust, trust->bound);
}
