/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * md_open() on any bytes, and on what an attacker can make of genuine datagrams. The input is a
 * script for two hosts and an attacker between them, who holds back, changes, repeats and redirects
 * what they send, while time passes and they restart. With a key: what was changed is never taken,
 * and nothing is taken twice, not even by a later life of its receiver. Without: no unicast is
 * taken under a source address where its cookie was never sent. Always: no answer is longer than
 * what it answers.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include <sodium.h>

#include "secure.h"

#define N_WIRES   16
#define MAX_STEPS 400

struct wire {
	uint8_t bytes[MD_DATAGRAM_MAX_BYTES + 8], made[MD_DATAGRAM_MAX_BYTES];
	size_t len, made_len; /* as it is now, and as a host made it; 0: none did */
	struct md_addr from;
	int to; /* host it was made for; -1: both, a beacon */
	bool taken[2]; /* by the host of that number, in any life */
};

struct host {
	struct md_secure *s;
	struct md_secure_config config;
	struct md_addr addr;
};

static struct host hosts[2];
static struct wire wires[N_WIRES];
static uint64_t now_ns;
static bool keyed;

/* The same input has to do the same each time. */
static uint64_t state;

static const char *rng_name(void)
{
	return "fuzz";
}

static uint32_t rng(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 32);
}

static void rng_buf(void *buf, size_t size)
{
	for (uint8_t *at = buf; size--; at++)
		*at = (uint8_t)rng();
}

static randombytes_implementation deterministic = {
	.implementation_name = rng_name, .random = rng, .buf = rng_buf};

static void start(struct host *host)
{
	static const struct md_keys keys = {.n = 1, .keys = {{1, 2, 3}}};

	host->config.start++;
	host->config.max_senders = host->config.max_cookies = 4;
	FUZZ_CHECK(!md_secure_new(&host->config, keyed ? &keys : NULL, now_ns, &host->s));
}

static void init(uint8_t flags)
{
	randombytes_set_implementation(&deterministic);
	state = 1;
	keyed = flags & 1;
	now_ns = 1000 * MD_COOKIE_EPOCH_NS;
	memset(wires, 0, sizeof(wires));
	memset(hosts, 0, sizeof(hosts));
	for (int i = 0; i < 2; i++) {
		hosts[i].config.host.bytes[0] = (uint8_t)(i + 1);
		hosts[i].addr.ip.s6_addr[0] = 0xfe;
		hosts[i].addr.ip.s6_addr[1] = 0x80;
		hosts[i].addr.ip.s6_addr[15] = (uint8_t)(i + 1);
		hosts[i].addr.port = MD_PORT;
		hosts[i].addr.ifindex = 1;
		start(&hosts[i]);
	}
}

/* As a host has just made it. */
static void set_made(struct wire *wire, int from, int to)
{
	wire->from = hosts[from].addr;
	wire->to = to;
	wire->made_len = wire->len;
	memcpy(wire->made, wire->bytes, wire->len);
}

static bool is_changed(const struct wire *wire)
{
	return !wire->made_len || wire->len != wire->made_len ||
	       memcmp(wire->bytes, wire->made, wire->len);
}

struct script {
	const uint8_t *at, *end;
};

static uint8_t next(struct script *script)
{
	return script->at < script->end ? *script->at++ : 0;
}

static void make(struct script *script, struct wire *wire)
{
	static const uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	uint8_t what = next(script);
	int from = what & 1;
	enum md_kind kind = 1 + (what >> 1) % (MD_KIND_CHALLENGE - 1);
	size_t len = next(script) * 5u % (MD_PAYLOAD_MAX_BYTES + 1);
	bool multicast = kind == MD_KIND_BEACON;

	memset(wire, 0, sizeof(*wire));
	wire->len = md_seal(hosts[from].s, kind, multicast ? NULL : &hosts[!from].addr, 1, payload,
			    len, now_ns, wire->bytes);
	set_made(wire, from, multicast ? -1 : !from);
}

static void keep_reply(struct wire *wire, const struct md_opened *opened, int from, int to)
{
	memset(wire, 0, sizeof(*wire));
	memcpy(wire->bytes, opened->reply, opened->reply_len);
	wire->len = opened->reply_len;
	set_made(wire, from, to);
}

/* The one place where the promises are checked. */
static void deliver(struct script *script, struct wire *wire)
{
	uint8_t how = next(script);
	int to = how & 1, hop_limit = how & 2 ? 64 : 255;
	struct md_addr from = wire->from;
	struct md_opened opened;
	enum md_verdict verdict;
	bool redirected = how & 4;

	if (redirected)
		from.ip.s6_addr[14] ^= 1;
	verdict = md_open(hosts[to].s, wire->bytes, wire->len, &from, hop_limit, now_ns, &opened);
	FUZZ_CHECK((unsigned int)verdict < MD_OPEN_N_VERDICTS);
	FUZZ_CHECK(opened.reply_len <= wire->len && opened.reply_len <= sizeof(opened.reply));
	if (verdict <= MD_OPEN_PROVEN) {
		bool beacon = opened.kind == MD_KIND_BEACON;

		FUZZ_CHECK(opened.payload_len <= sizeof(opened.payload));
		FUZZ_CHECK(opened.kind > 0 && opened.kind < MD_KIND_END);
		FUZZ_CHECK(memcmp(&opened.sender, &hosts[to].config.host, sizeof(opened.sender)));
		FUZZ_CHECK(!mv_host_id_is_zero(&opened.sender));
		FUZZ_CHECK(!beacon || hop_limit == 255);
		FUZZ_CHECK(!keyed || !is_changed(wire));
		FUZZ_CHECK(!keyed || !wire->taken[to]);
		FUZZ_CHECK(!keyed || wire->to == -1 || wire->to == to);
		/* A challenge to a beacon has the cookie of the whole link. */
		FUZZ_CHECK(!redirected || beacon || (keyed && opened.about == MD_KIND_BEACON));
		wire->taken[to] = true;
	}
	if (opened.reply_len && !redirected && how & 8)
		keep_reply(&wires[how >> 4], &opened, to, !to);
}

static void change(struct script *script, struct wire *wire)
{
	size_t at = next(script) * 256u;
	uint8_t with = next(script);

	at += next(script);
	wire->bytes[at % sizeof(wire->bytes)] ^= with;
}

static void resize(struct script *script, struct wire *wire)
{
	size_t len = next(script) * 5u;

	wire->len = len < sizeof(wire->bytes) ? len : sizeof(wire->bytes);
}

static void raw(struct script *script, struct wire *wire)
{
	size_t len = next(script) * 5u;

	memset(wire, 0, sizeof(*wire));
	wire->from = hosts[0].addr;
	for (wire->len = 0;
	     wire->len < len && wire->len < sizeof(wire->bytes) && script->at < script->end;)
		wire->bytes[wire->len++] = next(script);
}

static void restart(struct host *host)
{
	md_secure_free(host->s);
	start(host);
}

static void step(struct script *script)
{
	uint8_t what = next(script);
	struct wire *wire = &wires[what >> 4];

	switch (what & 7) {
	case 0:
		make(script, wire);
		break;
	case 1:
	case 2:
		deliver(script, wire);
		break;
	case 3:
		change(script, wire);
		break;
	case 4:
		resize(script, wire);
		break;
	case 5:
		now_ns += (uint64_t)next(script) * next(script) * 10000000;
		break;
	case 6:
		restart(&hosts[what >> 4 & 1]);
		break;
	case 7:
		raw(script, wire);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script script = {.at = data, .end = data + size};

	init(next(&script));
	for (int i = 0; i < MAX_STEPS && script.at < script.end; i++)
		step(&script);
	for (int i = 0; i < 2; i++)
		md_secure_free(hosts[i].s);
	return 0;
}
