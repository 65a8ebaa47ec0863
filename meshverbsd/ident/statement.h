/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_STATEMENT_H
#define MD_STATEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "directory.h"
#include "identity.h"

/*
 * What a host signs of itself: payload of the kind IDENTITY. It names the host's keys, and the hash of what its beacons say at present
 * (name, version and description of one generation), so that a beacon needs no signature of its own. Signed are also the host id and
 * the start number in the datagram's header.
 *
 *    0  version (1)    1  flags    2  asks    3  0    4  generation    12  content    44  sign    76  box    108  former
 *  140  endorsement    204  name (length, text)    then the signature of what stands before it, with "asks" 0
 */

#define MD_STATEMENT_VERSION 1
#define MD_STATEMENT_MAX     (204 + 64 + MD_SIGNATURE_BYTES)
#define MD_CONTENT_BYTES     32

struct md_statement {
	struct mv_host_id host; /* of the header, as the next */
	uint64_t start;
	bool lasting; /* the identity outlives its agent */
	bool asks; /* not signed: for the receiver's statement */
	uint64_t generation;
	uint8_t content[MD_CONTENT_BYTES];
	struct md_public sign, box, former; /* @former zero: none */
	uint8_t endorsement[MD_SIGNATURE_BYTES];
	char name[64]; /* printable, without blanks, not empty */
};

/** md_statement_content - the hash of what beacons of one generation say */
void md_statement_content(const char *name, uint32_t agent_version, const uint8_t *desc, size_t desc_bytes,
			  uint8_t ret[MD_CONTENT_BYTES]);

/**
 * md_statement_sign - fill in the keys and sign
 * @statement: host, start, generation, content, name are filled
 * @ret: MD_STATEMENT_MAX
 *
 * Return: its length; 0: the name cannot be one.
 */
size_t md_statement_sign(struct md_statement *statement, const struct md_identity *identity, uint8_t *ret);

/** md_statement_ask - have a signed one ask for the receiver's, or not */
void md_statement_ask(uint8_t *bytes, bool asks);

/**
 * md_statement_decode - read one; nothing is verified
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_statement_decode(const uint8_t *buf, size_t len, const struct mv_host_id *host, uint64_t start, struct md_statement *ret);

/** md_statement_verify - did the key that it names sign it? @buf, @len: as decoded. One verification, two with a former key. */
bool md_statement_verify(const uint8_t *buf, size_t len, const struct md_statement *statement);

/** md_statement_digest - differs for all that are signed, and not by "asks" */
void md_statement_digest(const uint8_t *buf, size_t len, const struct md_statement *statement, uint8_t ret[MD_CONTENT_BYTES]);

/** md_statement_is_name - can a host be pinned by it? Commands to be copied have it: it means nothing to a shell */
bool md_statement_is_name(const char *name);

#endif
