/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Pairwise keys: what two hosts with identities seal for each other, and what they take. */
#include "unit.h"

#include <string.h>

#include "hosts.h"
#include "identity.h"
#include "random.h"
#include "secure_state.h"

static struct host a, b, c;
static struct md_identity ids[3];

static struct md_identity *id_of(const struct host *host)
{
	return host == &a ? &ids[0] : host == &b ? &ids[1] : &ids[2];
}

static void identify(struct host *host)
{
	md_secure_identity(host->s, id_of(host));
}

/* @to has verified what @of has signed. */
static void tell_key(struct host *of, struct host *to)
{
	assert_int_equal(md_secure_peer(to->s, &of->config.host, &id_of(of)->box), 0);
}

static int setup(void **state)
{
	struct host *all[] = {&a, &b, &c};

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		host_start(all[i], (uint8_t)(i + 1), NULL);
		assert_int_equal(md_identity_make(&ids[i]), 0);
		identify(all[i]);
	}
	meet(&a, &b);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	host_stop(&a);
	host_stop(&b);
	host_stop(&c);
	return 0;
}

static struct wire seal_for(struct host *from, enum md_kind kind, const struct host *to, const char *payload)
{
	struct wire wire = {.from = from->addr, .hop_limit = 255};

	wire.len = md_seal_for(from->s, &to->config.host, kind, &to->addr, LINK, payload, strlen(payload), now_ns, wire.bytes);
	return wire;
}

static bool is_sealed(const struct wire *wire)
{
	return wire->bytes[6] == MD_PAIRWISE;
}

static enum md_verdict say(struct host *from, enum md_kind kind, struct host *to, const char *payload)
{
	struct wire wire = seal_for(from, kind, to, payload);
	enum md_verdict verdict = receive(to, &wire);

	if (!verdict)
		assert_memory_equal(opened.payload, payload, strlen(payload));
	return verdict;
}

static void confirm(struct host *one, struct host *two)
{
	assert_verdict(say(one, MD_KIND_CONFIRM, two, "?"), MD_OPEN_OK);
	assert_true(opened.confirmed && opened.sealed);
	assert_verdict(say(two, MD_KIND_CONFIRM, one, "!"), MD_OPEN_OK);
	assert_true(opened.confirmed);
}

static void acquaint(void)
{
	tell_key(&a, &b);
	tell_key(&b, &a);
	confirm(&a, &b);
}

/* A host that has not sealed anything gets everything plain, for it may not be able to open it; but for the question. */
static void test_confirmation(void **state)
{
	struct wire wire;

	(void)state;
	tell_key(&b, &a);
	wire = seal_for(&a, MD_KIND_MESSAGE, &b, "m");
	assert_false(is_sealed(&wire));
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	assert_verdict(say(&a, MD_KIND_CONFIRM, &b, "?"), MD_OPEN_STRANGER);
	tell_key(&a, &b);
	confirm(&a, &b);
	assert_true(md_secure_peer_seals(a.s, &b.config.host) && md_secure_peer_seals(b.s, &a.config.host));
	wire = seal_for(&a, MD_KIND_MESSAGE, &b, "secret words");
	assert_true(is_sealed(&wire));
	assert_null(memmem(wire.bytes, wire.len, "secret", 6));
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	assert_false(opened.confirmed);
	assert_memory_equal(&opened.voucher, &a.config.host, sizeof(opened.voucher));
	/* Beacons and probes stay plain, and what is for a third host is none of theirs. */
	wire = seal_for(&a, MD_KIND_PROBE, &b, "p");
	assert_false(is_sealed(&wire));
	wire = seal_for(&a, MD_KIND_MESSAGE, &c, "m");
	assert_false(is_sealed(&wire));
}

/* From then on, nothing plain counts in that host's name. */
static void test_unsealed(void **state)
{
	struct wire wire;

	(void)state;
	acquaint();
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "m"), MD_OPEN_UNSEALED);
	assert_verdict(tell(&a, MD_KIND_BUNDLE, &b, "m"), MD_OPEN_UNSEALED);
	assert_verdict(tell(&a, MD_KIND_QUERY, &b, "q"), MD_OPEN_OK);
	/* Nor does a plain question whether it can be opened, whoever asks. */
	wire = seal(&c, MD_KIND_CONFIRM, &b, "?");
	assert_verdict(receive(&b, &wire), MD_OPEN_NOT_OURS);
}

static void test_replay_and_reflection(void **state)
{
	struct wire wire, back;

	(void)state;
	acquaint();
	wire = seal_for(&a, MD_KIND_MESSAGE, &b, "once");
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	assert_verdict(receive(&b, &wire), MD_OPEN_REPLAY);
	back = wire;
	back.from = b.addr;
	assert_verdict(receive(&a, &back), MD_OPEN_OWN);
	/* The key is the same in both directions, the sender is not. */
	memcpy(back.bytes + 16, &b.config.host, sizeof(b.config.host));
	assert_verdict(receive(&a, &back), MD_OPEN_FORGED);
}

static void test_every_bit(void **state)
{
	struct wire wire, changed;

	(void)state;
	acquaint();
	wire = seal_for(&a, MD_KIND_MESSAGE, &b, "m");
	for (size_t at = 0; at < wire.len; at++)
		for (unsigned int bit = 0; bit < 8; bit++) {
			changed = wire;
			changed.bytes[at] ^= 1u << bit;
			assert_true(receive(&b, &changed) > MD_OPEN_PROVEN);
			now_ns += SECOND_NS / 100; /* forgeries are rationed */
		}
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
}

/* Another host's identity opens nothing in this one's name: not one that nobody knows, nor one that is known of another host. */
static void test_impostor(void **state)
{
	struct host thief = c;
	struct wire wire;

	(void)state;
	acquaint();
	tell_key(&c, &b);
	thief.config.host = a.config.host;
	thief.config.start = a.config.start + 5;
	assert_int_equal(md_secure_new(&thief.config, NULL, now_ns, &thief.s), 0);
	md_secure_identity(thief.s, &ids[2]);
	assert_int_equal(md_secure_peer(thief.s, &b.config.host, &ids[1].box), 0);
	for (int i = 0; i < 5; i++) {
		wire = seal_for(&thief, MD_KIND_CONFIRM, &b, "?");
		assert_verdict(receive(&b, &wire), i ? MD_OPEN_STRANGER : MD_OPEN_UNPROVEN);
		if (!i)
			meet(&thief, &b); /* it shows a cookie */
	}
	assert_verdict(say(&a, MD_KIND_MESSAGE, &b, "m"), MD_OPEN_OK);
	md_secure_free(thief.s);
}

/* A key is made for the first datagram that needs it, and not again, whatever is sent in that host's name. */
static void test_made_once(void **state)
{
	struct md_peer_key *peer;
	struct md_pair_key *pair;
	struct wire wire;

	(void)state;
	tell_key(&a, &b);
	peer = md_peer_keys_find(&b.s->peers, &a.config.host);
	assert_non_null(peer);
	pair = &peer->pairs[MD_NEWEST][MD_NEWEST];
	assert_false(pair->made);
	tell_key(&b, &a);
	confirm(&a, &b);
	assert_true(pair->made);
	memset(&pair->key, 0x55, sizeof(pair->key));
	wire = seal_for(&a, MD_KIND_MESSAGE, &b, "m");
	wire.bytes[8] ^= 1;
	assert_verdict(receive(&b, &wire), MD_OPEN_STRANGER);
	assert_int_equal(pair->key.subkeys[0][0], 0x55);
	/* There are no former keys. */
	assert_false(peer->pairs[MD_NEWEST][MD_FORMER].made || peer->pairs[MD_FORMER][MD_NEWEST].made);
	/* Nor is a key that no host can have tried again. */
	tell_key(&a, &c);
	assert_int_equal(md_secure_peer(c.s, &a.config.host, &(struct md_public){.bytes = {1}}), 0);
	peer = md_peer_keys_find(&c.s->peers, &a.config.host);
	assert_null(md_peer_key_seal(&c.s->peers, peer));
	pair = &peer->pairs[MD_NEWEST][MD_NEWEST];
	assert_true(pair->made);
	pair->key.subkeys[0][0] = 0x55;
	assert_null(md_peer_key_seal(&c.s->peers, peer));
	assert_int_equal(pair->key.subkeys[0][0], 0x55);
}

static void rotate(struct host *host)
{
	struct md_identity new;

	assert_int_equal(md_identity_rotate(id_of(host), &new), 0);
	*id_of(host) = new;
	identify(host);
}

/* One end has another key: not a single message is refused, whenever the other end learns of it. */
static void test_rotation(void **state)
{
	struct wire late, old;

	(void)state;
	acquaint();
	old = seal_for(&b, MD_KIND_MESSAGE, &a, "old");
	rotate(&a);
	for (int i = 0; i < 3; i++) {
		assert_verdict(say(&a, MD_KIND_MESSAGE, &b, "m"), MD_OPEN_OK);
		assert_verdict(say(&b, MD_KIND_MESSAGE, &a, "m"), MD_OPEN_OK);
	}
	late = seal_for(&a, MD_KIND_MESSAGE, &b, "late");
	tell_key(&a, &b);
	assert_verdict(receive(&b, &late), MD_OPEN_OK);
	assert_verdict(say(&a, MD_KIND_MESSAGE, &b, "m"), MD_OPEN_OK);
	assert_verdict(say(&b, MD_KIND_MESSAGE, &a, "new"), MD_OPEN_OK);
	assert_verdict(receive(&a, &old), MD_OPEN_OK);
	for (int i = 0; i < 3; i++) {
		assert_verdict(say(&a, MD_KIND_MESSAGE, &b, "m"), MD_OPEN_OK);
		assert_verdict(say(&b, MD_KIND_MESSAGE, &a, "m"), MD_OPEN_OK);
	}
	/* The old key is no longer what either end seals with. */
	late = seal_for(&a, MD_KIND_MESSAGE, &b, "m");
	assert_memory_not_equal(late.bytes + 8, old.bytes + 8, 8);
	assert_true(md_secure_peer_seals(b.s, &a.config.host));
}

#define N_UNDER_WAY 4

static struct {
	struct wire wire;
	struct host *to; /* NULL: nothing */
} under_way[N_UNDER_WAY];

static void arrives(unsigned int i)
{
	if (under_way[i].to)
		assert_verdict(receive(under_way[i].to, &under_way[i].wire), MD_OPEN_OK);
	under_way[i].to = NULL;
}

/*
 * Both ends, at any time: before or after the other end knows, with messages under way. A host that rotates again has
 * told all hosts of its last rotation (ROTATE_AGAIN_NS). None is refused.
 */
static void test_rotation_of_both(void **state)
{
	struct host *ends[2] = {&a, &b};
	bool told[2] = {true, true};

	(void)state;
	rng = 20;
	acquaint();
	for (unsigned int step = 0; step < 4000; step++) {
		unsigned int end = rnd(2), slot = rnd(N_UNDER_WAY);

		switch (rnd(8)) {
		case 0:
			for (unsigned int i = 0; i < N_UNDER_WAY; i++)
				arrives(i);
			if (told[end])
				rotate(ends[end]);
			told[end] = false;
			break;
		case 1:
			tell_key(ends[end], ends[!end]);
			told[end] = true;
			break;
		case 2:
			assert_verdict(say(ends[end], MD_KIND_MESSAGE, ends[!end], "m"), MD_OPEN_OK);
			break;
		default:
			arrives(slot);
			under_way[slot].wire = seal_for(ends[end], MD_KIND_MESSAGE, ends[!end], "m");
			under_way[slot].to = ends[!end];
		}
	}
	for (unsigned int i = 0; i < N_UNDER_WAY; i++)
		arrives(i);
}

/* Whoever restarts has to be told the other's key; then all is as before, and nothing old is taken. */
static void test_restart(void **state)
{
	struct wire old;

	(void)state;
	acquaint();
	old = seal_for(&a, MD_KIND_MESSAGE, &b, "old");
	host_restart(&b, NULL);
	identify(&b);
	assert_verdict(receive(&b, &old), MD_OPEN_UNPROVEN);
	tell_key(&a, &b);
	assert_verdict(receive(&b, &old), MD_OPEN_UNPROVEN);
	meet(&a, &b);
	assert_verdict(say(&a, MD_KIND_MESSAGE, &b, "m"), MD_OPEN_OK);
	assert_true(opened.confirmed);
	assert_verdict(say(&b, MD_KIND_MESSAGE, &a, "m"), MD_OPEN_OK);
	assert_verdict(receive(&b, &old), MD_OPEN_UNPROVEN);
}

/* A public key of low order makes a key that anybody knows. */
static void test_low_order(void **state)
{
	struct md_public low = {{1}};
	struct wire wire;

	(void)state;
	assert_int_equal(md_secure_peer(a.s, &b.config.host, &low), 0);
	wire = seal_for(&a, MD_KIND_CONFIRM, &b, "?");
	assert_false(is_sealed(&wire));
}

/* With a fleet key identities do nothing. */
static void test_fleet_key(void **state)
{
	struct md_keys keys = keys_of(1, 1, 0);
	struct wire wire;

	(void)state;
	acquaint();
	wire = seal_for(&a, MD_KIND_MESSAGE, &b, "m");
	md_secure_reload(b.s, &keys);
	assert_verdict(receive(&b, &wire), MD_OPEN_PLAIN);
	assert_false(md_secure_peer_seals(b.s, &a.config.host));
	md_secure_reload(a.s, &keys);
	meet(&a, &b);
	wire = seal_for(&a, MD_KIND_MESSAGE, &b, "m");
	assert_int_equal(wire.bytes[6], MD_SEALED);
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
}

/* Somebody makes up a host on another link, has it authenticated, and lets it expire. Return: what it has sealed. */
static struct wire come_and_go(uint8_t id, struct md_identity *identity)
{
	struct wire wire = {.hop_limit = 255};
	struct host invented;

	host_start(&invented, id, NULL);
	invented.addr.arrived = LINK + 1;
	assert_int_equal(md_identity_make(identity), 0);
	md_secure_identity(invented.s, identity);
	meet(&invented, &b);
	assert_int_equal(md_secure_peer(b.s, &invented.config.host, &identity->box), 0);
	assert_int_equal(md_secure_peer(invented.s, &b.config.host, &ids[1].box), 0);
	wire.from = invented.addr;
	wire.len = md_seal_for(invented.s, &b.config.host, MD_KIND_CONFIRM, &b.addr, LINK, "?", 1, now_ns, wire.bytes);
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	md_secure_forget_peer(b.s, &invented.config.host);
	host_stop(&invented);
	return wire;
}

static void small_b(void)
{
	b.config.max_senders = 4;
	host_restart(&b, NULL);
	identify(&b);
	meet(&a, &b);
	acquaint();
}

/* Hosts that come and go take no room for replay windows from hosts that are known, nor from those that are met later. */
static void test_windows_of_forgotten_hosts(void **state)
{
	struct md_identity identity;

	(void)state;
	small_b();
	now_ns += 200 * SECOND_NS; /* a is silent for so long that nothing of it is fresh */
	for (uint8_t id = 20; id < 24; id++)
		come_and_go(id, &identity);
	meet(&a, &b);
	meet(&c, &b);
	assert_verdict(say(&a, MD_KIND_MESSAGE, &b, "m"), MD_OPEN_OK);
	tell_key(&c, &b);
	tell_key(&b, &c);
	confirm(&c, &b);
}

/* What a forgotten host has sealed is not taken again when the host is known again. */
static void test_replay_to_forgotten(void **state)
{
	struct mv_host_id id;
	struct md_identity identity;
	struct wire wire;

	(void)state;
	small_b();
	wire = come_and_go(20, &identity);
	memcpy(&id, wire.bytes + MD_HEADER_SENDER_AT, sizeof(id));
	assert_int_equal(md_secure_peer(b.s, &id, &identity.box), 0);
	assert_verdict(receive(&b, &wire), MD_OPEN_REPLAY);
	md_secure_forget_peer(b.s, &id);
	/* ... not even when there was no room for its window: then no other window begins, as long as it could be. */
	for (uint8_t other = 21; other < 25; other++)
		come_and_go(other, &ids[2]);
	assert_int_equal(md_secure_peer(b.s, &id, &identity.box), 0);
	assert_verdict(receive(&b, &wire), MD_OPEN_NO_ROOM);
	assert_verdict(say(&a, MD_KIND_MESSAGE, &b, "m"), MD_OPEN_OK);
	now_ns += 2 * MD_COOKIE_EPOCH_NS + 1;
	assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
	come_and_go(25, &identity);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_confirmation),     TEST(test_unsealed),	TEST(test_replay_and_reflection),
		TEST(test_every_bit),	     TEST(test_impostor),	TEST(test_made_once),
		TEST(test_rotation),	     TEST(test_rotation_of_both), TEST(test_restart),
		TEST(test_low_order),	     TEST(test_fleet_key),
		TEST(test_windows_of_forgotten_hosts), TEST(test_replay_to_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
