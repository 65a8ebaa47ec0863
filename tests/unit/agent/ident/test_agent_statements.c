/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a statement that a host signs changes of what is known of the host. */
#include "knownhosts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DOWN "rail mlx5_0 down; gid 10.1.0.2/24 v2;"

static struct md_hosts hosts;

static int teardown(void **state)
{
	(void)state;
	md_hosts_fini(&hosts);
	return 0;
}

static struct md_host *host(void)
{
	struct mv_host_id id = peers_id(1);

	return md_hosts_find(&hosts, &id);
}

/* The statement that goes with what is known of the host now. */
static struct md_statement statement_of(uint64_t start, uint64_t generation)
{
	struct md_statement said = {.host = peers_id(1), .start = start, .generation = generation};

	memcpy(said.name, host()->name, sizeof(said.name));
	memcpy(said.content, host()->content.hash, sizeof(said.content));
	return said;
}

static void vouch(const struct md_statement *said, unsigned int want)
{
	uint8_t digest[MD_CONTENT_BYTES] = {0};
	unsigned int changed;

	assert_int_equal(md_hosts_vouch(&hosts, host(), said, digest, MD_TRUST_PINNED, &changed), 0);
	assert_int_equal(changed, want);
}

/* Forged beacons tell signs of life: no other description, name, start, and no early end. */
static void test_forged_beacons(void **state)
{
	struct peer peer = {1, 100, 1, 1000, UP}, forged = peer;
	struct md_statement said;
	uint64_t expires_ns;
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	said = statement_of(100, 1);
	vouch(&said, 0);
	forged.text = DOWN;
	forged.generation = 2;
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_WANTED);
	assert_int_equal(md_desc_n_up(host()->desc), 1);
	forged.start = 101;
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &changed), -EPERM);
	expires_ns = md_sighting_expires_ns(&host()->sightings.list[0]);
	forged = peer;
	forged.interval_ms = 1;
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &changed), 0);
	assert_int_equal(md_sighting_expires_ns(&host()->sightings.list[0]), expires_ns);
	/* The host itself says it, and signs it; in another generation than the signed one it is forged. */
	said.generation = 2;
	vouch(&said, 0);
	forged.text = DOWN;
	forged.generation = 2;
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &changed), -EPERM);
	assert_int_equal(md_desc_n_up(host()->desc), 1);
	peer.generation = 2;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_DESC);
	assert_int_equal(host()->generation, 2);
}

/* What was believed before the statement came, and is not as it says, goes. */
static void test_forged_before(void **state)
{
	struct peer peer = {1, 100, 1, 1000, UP}, forged = {1, 100, 1, 1000, DOWN};
	struct md_statement said;
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	said = statement_of(100, 1);
	md_hosts_fini(&hosts);
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &changed), 0);
	vouch(&said, MD_CHANGED_WANTED | MD_CHANGED_DESC);
	assert_null(host()->desc);
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &changed), -EPERM);
	assert_null(host()->desc);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_int_equal(md_desc_n_up(host()->desc), 1);
}

/* The statement of the next description comes first: the rails of the former description are gone with it. */
static void test_next_statement_first(void **state)
{
	struct peer peer = {1, 100, 1, 1000, UP};
	struct md_statement said;
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	peer.generation = 2;
	peer.text = UP "rail mlx5_1; gid 10.1.0.3/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	said = statement_of(100, 2);
	md_hosts_fini(&hosts);
	peer.generation = 1;
	peer.text = UP;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	vouch(&said, MD_CHANGED_WANTED | MD_CHANGED_DESC);
	assert_null(host()->desc);
	assert_false(host()->sightings.list[0].has_rail);
	peer.generation = 2;
	peer.text = UP "rail mlx5_1; gid 10.1.0.3/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 1, MD_S, &changed), 0);
	assert_non_null(host()->desc);
	assert_false(host()->sightings.list[0].has_rail);
	assert_true(host()->sightings.list[1].has_rail);
}

/* How often a host has changed that signs each change is for itself to say. */
static void test_signed_changes(void **state)
{
	struct peer peer = {1, 100, 1, 1000, UP};
	struct md_statement up, down;
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	up = statement_of(100, 1);
	peer.text = DOWN;
	peer.generation = 2;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	down = statement_of(100, 2);
	vouch(&down, 0);
	for (unsigned int i = 3; i < 4 * MD_CHANGES_BURST; i++) {
		struct md_statement *said = i % 2 ? &up : &down;

		said->generation = i;
		vouch(said, 0);
		peer.generation = i;
		peer.text = i % 2 ? UP : DOWN;
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
		assert_int_equal(changed & MD_CHANGED_DESC, MD_CHANGED_DESC);
	}
	assert_int_equal(hosts.n_held_back, 0);
}

/* But who holds GIDs is worked out for so many of them, whoever signs that they are others; for hosts that are wanted for so many again. */
static void test_signed_gids(void **state)
{
	struct peer peer = {1, 100, 1, 1000, NULL};
	char texts[2][8192];
	struct md_statement said[2];
	unsigned int changed, n_taken[2] = {0};
	const unsigned int n = 200;
	bool now = true; /* which of the two it is known with */

	(void)state;
	for (unsigned int t = 0; t < 2; t++) {
		snprintf(texts[t], sizeof(texts[t]), "rail mlx5_0;");
		for (unsigned int g = 0; g < n; g++)
			snprintf(texts[t] + strlen(texts[t]), sizeof(texts[t]) - strlen(texts[t]), "gid 10.%u.0.%u/24 v2;", t + 1, g + 1);
		peer.generation = t + 1;
		peer.text = texts[t];
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
		said[t] = statement_of(100, peer.generation);
	}
	vouch(&said[1], 0);
	for (unsigned int wanted = 0; wanted < 2; wanted++) {
		if (wanted)
			md_hosts_want(&hosts, host(), 0);
		for (unsigned int i = 0; i < 2 * MD_NEW_GIDS_BURST / n; i++) {
			struct md_statement *next = &said[!now];

			next->generation = ++peer.generation;
			vouch(next, 0);
			peer.text = texts[!now];
			assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
			if (changed & MD_CHANGED_DESC) {
				n_taken[wanted]++;
				now = !now;
			}
		}
		assert_in_range(n_taken[wanted], MD_NEW_GIDS_BURST / n, MD_NEW_GIDS_BURST / n + 1);
	}
	assert_true(hosts.n_held_back > 0);
}

/* As soon as any other change: here an hour from now, when the last directory was made. */
static bool is_due_at_once(struct md_agent *agent, bool exhausted, bool proven)
{
	agent->publishing.due_ns = UINT64_MAX;
	agent->publishing.unproven = false;
	agent->publishing.last_ns = md_now() + 3600 * MD_S;
	agent->publishing.wakes.full_at_ns = exhausted ? md_now() + MD_WAKES_BURST * MD_S / MD_WAKES_RATE : 0;
	md_due_heard(agent, host(), false, proven);
	return agent->publishing.due_ns >= agent->publishing.last_ns;
}

/* The directory is written for a signed change at once where a process watches that host, and takes nothing from what the others may. */
static void test_signed_wakes(void **state)
{
	static struct md_agent agent = {.counts.published = 1};
	struct peer peer = {1, 100, 1, 1000, UP};
	struct md_probe_host watched = {.turn = 0};
	struct md_statement said;
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_true(is_due_at_once(&agent, false, false));
	assert_true(agent.publishing.unproven);
	watched.id = host()->id;
	HASH_ADD(hh, agent.prober.probes.hosts, id, sizeof(watched.id), &watched);
	assert_false(is_due_at_once(&agent, true, false));
	said = statement_of(100, 1);
	vouch(&said, 0);
	assert_true(is_due_at_once(&agent, true, false));
	assert_false(agent.publishing.unproven);
	HASH_DEL(agent.prober.probes.hosts, &watched);
	assert_false(is_due_at_once(&agent, true, false));
	assert_true(agent.publishing.unproven);
	assert_true(is_due_at_once(&agent, true, true));
}

/* A directory that waits because anybody may have brought it about keeps no other one waiting. */
static void test_rationed_wakes_delay_no_others(void **state)
{
	static struct md_agent agent = {.counts.published = 1};
	struct peer peer = {1, 100, 1, 1000, UP};
	unsigned int changed;
	uint64_t now_ns;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	do { /* again if there is room meanwhile, after half a second */
		now_ns = md_now();
		agent.publishing.due_ns = UINT64_MAX;
		agent.publishing.wakes.full_at_ns = now_ns + MD_WAKES_BURST * MD_S / MD_WAKES_RATE;
		md_due_heard(&agent, host(), false, false);
	} while (agent.publishing.due_ns < now_ns + MD_S / MD_WAKES_RATE);
	md_due_heard(&agent, host(), false, true);
	assert_true(agent.publishing.due_ns <= md_now() + MD_PUBLISH_DELAY_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_forged_beacons, teardown),
		cmocka_unit_test_teardown(test_forged_before, teardown),
		cmocka_unit_test_teardown(test_next_statement_first, teardown),
		cmocka_unit_test_teardown(test_signed_changes, teardown),
		cmocka_unit_test_teardown(test_signed_gids, teardown),
		cmocka_unit_test_teardown(test_signed_wakes, teardown),
		cmocka_unit_test_teardown(test_rationed_wakes_delay_no_others, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
