/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "statement.h"

#include <errno.h>
#include <string.h>

#include <sodium.h>

#include "fields.h"

#define FLAG_LASTING 1
#define ASKS_AT	     2

bool md_statement_is_name(const char *name)
{
	size_t n = strlen(name);

	return n && n < sizeof(((struct md_statement *)0)->name) && md_is_text(name, n) && name[0] != '-' &&
	       !strpbrk(name, " #\"'\\$`&;|<>(){}[]*!~^");
}

void md_statement_content(const char *name, uint32_t agent_version, const uint8_t *desc, size_t desc_bytes,
			  uint8_t ret[MD_CONTENT_BYTES])
{
	const uint64_t head[2] = {htobe64(agent_version), htobe64(desc_bytes)};
	crypto_generichash_state state;

	crypto_generichash_init(&state, NULL, 0, MD_CONTENT_BYTES);
	crypto_generichash_update(&state, (const uint8_t *)head, sizeof(head));
	crypto_generichash_update(&state, (const uint8_t *)name, strlen(name) + 1);
	crypto_generichash_update(&state, desc, desc_bytes);
	crypto_generichash_final(&state, ret, MD_CONTENT_BYTES);
}

/* Signed are this prefix, then the payload before the signature, with "asks" 0. */
struct prefix {
	char what[16];
	struct mv_host_id host;
	uint64_t start;
};

static void sign_state(crypto_sign_state *state, const uint8_t *buf, size_t len, const struct md_statement *statement)
{
	const struct prefix prefix = {.what = "mv statement 1", .host = statement->host, .start = htobe64(statement->start)};
	const uint8_t no = 0;

	crypto_sign_init(state);
	crypto_sign_update(state, (const uint8_t *)&prefix, sizeof(prefix));
	crypto_sign_update(state, buf, ASKS_AT);
	crypto_sign_update(state, &no, 1);
	crypto_sign_update(state, buf + ASKS_AT + 1, len - ASKS_AT - 1);
}

size_t md_statement_sign(struct md_statement *statement, const struct md_identity *identity, uint8_t *ret)
{
	struct md_writer w = {.buf = ret, .size = MD_STATEMENT_MAX};
	uint8_t signature[MD_SIGNATURE_BYTES];
	crypto_sign_state state;

	if (!md_statement_is_name(statement->name))
		return 0;
	statement->sign = identity->sign;
	statement->box = identity->box;
	statement->former = identity->former;
	statement->lasting = identity->lasting;
	memcpy(statement->endorsement, identity->endorsement, sizeof(statement->endorsement));
	md_put8(&w, MD_STATEMENT_VERSION);
	md_put8(&w, statement->lasting ? FLAG_LASTING : 0);
	md_put16(&w, 0);
	md_put64(&w, statement->generation);
	md_put(&w, statement->content, sizeof(statement->content));
	md_put(&w, &statement->sign, sizeof(statement->sign));
	md_put(&w, &statement->box, sizeof(statement->box));
	md_put(&w, &statement->former, sizeof(statement->former));
	md_put(&w, statement->endorsement, sizeof(statement->endorsement));
	md_put_text(&w, statement->name);
	sign_state(&state, ret, w.len, statement);
	crypto_sign_final_create(&state, signature, NULL, identity->sign_secret);
	md_put(&w, signature, sizeof(signature));
	return w.bad ? 0 : w.len;
}

void md_statement_ask(uint8_t *bytes, bool asks)
{
	bytes[ASKS_AT] = asks;
}

int md_statement_decode(const uint8_t *buf, size_t len, const struct mv_host_id *host, uint64_t start, struct md_statement *ret)
{
	struct md_statement statement = {.host = *host, .start = start};
	struct md_reader r = {.buf = buf, .len = len};
	uint8_t flags, asks, zero;

	if (len && buf[0] != MD_STATEMENT_VERSION)
		return -EPROTONOSUPPORT;
	md_get8(&r);
	flags = md_get8(&r);
	asks = md_get8(&r);
	zero = md_get8(&r);
	statement.generation = md_get64(&r);
	md_get_bytes(&r, statement.content, sizeof(statement.content));
	md_get_bytes(&r, &statement.sign, sizeof(statement.sign));
	md_get_bytes(&r, &statement.box, sizeof(statement.box));
	md_get_bytes(&r, &statement.former, sizeof(statement.former));
	md_get_bytes(&r, statement.endorsement, sizeof(statement.endorsement));
	md_get_text(&r, statement.name, sizeof(statement.name));
	md_get(&r, MD_SIGNATURE_BYTES);
	if (r.bad || r.at != r.len || flags > FLAG_LASTING || asks > 1 || zero)
		return -EBADMSG;
	if (!md_statement_is_name(statement.name) || md_public_is_zero(&statement.sign) || md_public_is_zero(&statement.box))
		return -EBADMSG;
	if (md_public_is_zero(&statement.former) && !sodium_is_zero(statement.endorsement, sizeof(statement.endorsement)))
		return -EBADMSG;
	statement.lasting = flags & FLAG_LASTING;
	statement.asks = asks;
	*ret = statement;
	return 0;
}

bool md_statement_verify(const uint8_t *buf, size_t len, const struct md_statement *statement)
{
	uint8_t signature[MD_SIGNATURE_BYTES];
	crypto_sign_state state;

	memcpy(signature, buf + len - sizeof(signature), sizeof(signature));
	sign_state(&state, buf, len - sizeof(signature), statement);
	return !crypto_sign_final_verify(&state, signature, statement->sign.bytes) &&
	       (md_public_is_zero(&statement->former) ||
		md_identity_endorsed(&statement->former, &statement->sign, statement->endorsement));
}

void md_statement_digest(const uint8_t *buf, size_t len, const struct md_statement *statement, uint8_t ret[MD_CONTENT_BYTES])
{
	const uint64_t start = htobe64(statement->start);
	crypto_generichash_state state;
	const uint8_t no = 0;

	crypto_generichash_init(&state, NULL, 0, MD_CONTENT_BYTES);
	crypto_generichash_update(&state, statement->host.bytes, sizeof(statement->host.bytes));
	crypto_generichash_update(&state, (const uint8_t *)&start, sizeof(start));
	crypto_generichash_update(&state, buf, ASKS_AT);
	crypto_generichash_update(&state, &no, 1);
	crypto_generichash_update(&state, buf + ASKS_AT + 1, len - ASKS_AT - 1);
	crypto_generichash_final(&state, ret, MD_CONTENT_BYTES);
}
