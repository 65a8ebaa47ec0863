/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "hosts.h"

#include <stdio.h>
#include <string.h>

uint64_t now_ns = 1000 * SECOND_NS;
struct md_opened opened;

struct md_keys keys_of(size_t n, uint8_t first, uint8_t second)
{
	struct md_keys keys = {.n = n};

	memset(keys.keys[0], first, MD_KEY_BYTES);
	if (n > 1)
		memset(keys.keys[1], second, MD_KEY_BYTES);
	return keys;
}

struct in6_addr ip_of(const char *text)
{
	union ibv_gid gid = unit_gid(text);
	struct in6_addr ip;

	memcpy(&ip, &gid, sizeof(ip));
	return ip;
}

static void start(struct host *host, const struct md_keys *keys)
{
	assert_int_equal(md_secure_new(&host->config, keys, now_ns, &host->s), 0);
}

void host_start(struct host *host, uint8_t id, const struct md_keys *keys)
{
	memset(host, 0, sizeof(*host));
	host->config.host.bytes[15] = id;
	host->config.start = 100;
	host->addr.port = MD_PORT;
	host->addr.ifindex = host->addr.arrived = LINK;
	host->addr.ip.s6_addr[0] = 0xfe;
	host->addr.ip.s6_addr[1] = 0x80;
	host->addr.ip.s6_addr[15] = id;
	start(host, keys);
}

void host_stop(struct host *host)
{
	md_secure_free(host->s);
	host->s = NULL;
}

void host_restart(struct host *host, const struct md_keys *keys)
{
	host_stop(host);
	host->config.start++;
	start(host, keys);
}

struct wire seal(struct host *from, enum md_kind kind, const struct host *to, const char *payload)
{
	struct wire wire = {.from = from->addr, .hop_limit = 255};

	wire.len = md_seal(from->s, kind, to ? &to->addr : NULL, LINK, payload, strlen(payload),
			   now_ns, wire.bytes);
	return wire;
}

enum md_verdict receive(struct host *to, const struct wire *wire)
{
	return md_open(to->s, wire->bytes, wire->len, &wire->from, wire->hop_limit, now_ns,
		       &opened);
}

struct wire wire_reply(const struct host *from)
{
	struct wire wire = {.from = from->addr, .hop_limit = 255, .len = opened.reply_len};

	if (!wire.len)
		fail_msg("no reply");
	memcpy(wire.bytes, opened.reply, wire.len);
	return wire;
}

enum md_verdict tell(struct host *from, enum md_kind kind, struct host *to, const char *payload)
{
	struct wire wire = seal(from, kind, to, payload);
	enum md_verdict verdict = receive(to, &wire);

	if (verdict)
		return verdict;
	assert_int_equal(opened.kind, kind);
	assert_memory_equal(&opened.sender, &from->config.host, sizeof(opened.sender));
	assert_int_equal(opened.start, from->config.start);
	assert_int_equal(opened.payload_len, strlen(payload));
	assert_memory_equal(opened.payload, payload, opened.payload_len);
	return verdict;
}

/* One way: @from learns the cookie of @to. */
static void introduce(struct host *from, struct host *to)
{
	struct wire wire;

	if (tell(from, MD_KIND_QUERY, to, "") != MD_OPEN_UNPROVEN)
		return;
	wire = wire_reply(to);
	assert_verdict(receive(from, &wire), MD_OPEN_LEARNED);
	if (!opened.reply_len)
		return;
	wire = wire_reply(from);
	assert_verdict(receive(to, &wire), MD_OPEN_PROVEN);
}

void meet(struct host *a, struct host *b)
{
	introduce(a, b);
	introduce(b, a);
	assert_verdict(tell(a, MD_KIND_QUERY, b, "a"), MD_OPEN_OK);
	assert_verdict(tell(b, MD_KIND_ENTRY, a, "b"), MD_OPEN_OK);
}
