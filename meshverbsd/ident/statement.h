/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_STATEMENT_H
#define MD_STATEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "directory.h"
#include "identity.h"

/*
 * Statement: what a host signs about itself. Payload of kind IDENTITY. It has the host's public keys, and the hash of
 * the host's present description (name, version and description of one generation), so that beacons need no signatures.
 * Also signed are host id and start number, which are in the datagram's header.
 *
 *    0  version (1)    1  flags    2  asks    3  0    4  generation    12  content    44  sign    76  box
 *  108  former       140  endorsement    204  name (length, text)
 *  then the signature of all bytes before it, with "asks" 0
 */

#define MD_STATEMENT_VERSION 1
#define MD_STATEMENT_MAX     (204 + 64 + MD_SIGNATURE_BYTES)
#define MD_CONTENT_BYTES     32

struct md_statement {
	struct mv_host_id host; /* from the header, as is @start */
	uint64_t start;
	bool lasting; /* the identity is stored in a file, and outlives the agent */
	bool asks; /* asks the receiver for its statement; not signed */
	uint64_t generation;
	uint8_t content[MD_CONTENT_BYTES];
	struct md_public sign, box, former; /* @former zero: none */
	uint8_t endorsement[MD_SIGNATURE_BYTES];
	char name[64]; /* printable, without blanks, not empty: md_statement_is_name() */
};

/** md_statement_content - hash of the content of beacons of one generation */
void md_statement_content(const char *name, uint32_t agent_version, const uint8_t *desc, size_t desc_bytes,
			  uint8_t ret[MD_CONTENT_BYTES]);

/**
 * md_statement_sign - fill in the keys, encode and sign
 * @statement: host, start, generation, content and name are filled in
 * @ret: MD_STATEMENT_MAX
 *
 * Return: its length; 0: the name is not allowed.
 */
size_t md_statement_sign(struct md_statement *statement, const struct md_identity *identity, uint8_t *ret);

/** md_statement_ask - set or clear "asks" in an encoded statement */
void md_statement_ask(uint8_t *bytes, bool asks);

/**
 * md_statement_decode - parse a statement; verifies nothing
 * @ret: written on success only
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_statement_decode(const uint8_t *buf, size_t len, const struct mv_host_id *host, uint64_t start, struct md_statement *ret);

/**
 * md_statement_verify - is the signature by @statement->sign valid, and that by a former key? @buf, @len: as decoded.
 * Costs one
 * verification, two with a former key.
 */
bool md_statement_verify(const uint8_t *buf, size_t len, const struct md_statement *statement);

/** md_statement_digest - hash that differs for statements with different signed content; "asks" is left out */
void md_statement_digest(const uint8_t *buf, size_t len, const struct md_statement *statement, uint8_t ret[MD_CONTENT_BYTES]);

/** md_statement_is_name - is the name allowed? It appears in commands that people copy, so it has no characters special to a shell */
bool md_statement_is_name(const char *name);

#endif
