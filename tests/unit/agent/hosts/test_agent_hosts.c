/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of hosts: what beacons and answers change, and when it is over. The clock is ours. */
#include "ctl.h"
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "expiry.h"
#include "fault.h"
#include "peers.h"

#define ONE_RAIL "rail mlx5_0; gid 10.1.0.2/24 v2;"
/* More than fits one piece. */
#define G5                                                                                         \
	"gid 10.1.0.2/24 v2;gid 10.1.0.3/24 v2;gid 10.1.0.4/24 v2;gid 10.1.0.5/24 v2;gid "         \
	"10.1.0.6/24 v2;"
#define BIG "rail mlx5_0;" G5 G5 G5 G5 G5 G5 G5 G5 G5 G5 G5 G5

static struct md_hosts hosts;
static unsigned int n_left;

static void on_leaving(void *arg, const struct md_host *host)
{
	(void)arg;
	assert_non_null(host->desc);
	n_left++;
}

static int setup(void **state)
{
	(void)state;
	memset(&hosts, 0, sizeof(hosts));
	hosts.self = peers_id(0);
	hosts.leaving = on_leaving;
	n_left = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	peers_fini(&hosts);
	return 0;
}

static const struct md_host *host(unsigned int n)
{
	struct mv_host_id id = peers_id(n);

	return md_hosts_find(&hosts, &id);
}

/* Without a key anybody may say what he likes of a host: not as often as he likes. The last word is taken in the end. */
static void test_changes_are_rationed(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int news, n_taken = 0;

	(void)state;
	for (unsigned int i = 0; i < 1000; i++) {
		peer.generation++;
		peer.text = i % 2 ? ONE_RAIL : "rail mlx5_0 down; gid 10.1.0.2/24 v2;";
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S + i * MD_MS, &news), 0);
		n_taken += (news & MD_NEWS_DESC) != 0;
	}
	/* The first one is no change. */
	assert_in_range(n_taken, MD_CHANGES_BURST + 1, MD_CHANGES_BURST + 1 + MD_CHANGES_RATE);
	assert_int_equal(hosts.n_held_back, 1000 - n_taken);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S + MD_S / MD_CHANGES_RATE, &news), 0);
	assert_int_equal(news, MD_NEWS_DESC);
	assert_int_equal(host(1)->generation, peer.generation);
}

static unsigned int n_left;

static void count_leaving(void *arg, const struct md_host *host)
{
	(void)arg;
	(void)host;
	n_left++;
}

#define N_GIDS 1000

/* One rail with that many GIDs, all of them this host's. */
static char *many_gids(unsigned int n, bool up)
{
	static char text[64 + N_GIDS * 32];
	int len = snprintf(text, sizeof(text), "rail mlx5_0%s;", up ? "" : " down");

	for (unsigned int g = 0; g < N_GIDS; g++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, "gid 2001:db8:%x::%x v2;", n, 1 + g);
	return text;
}

/* Whoever lists a thousand GIDs in each beacon takes no more time than that: hosts made up, or one that changes. Ports are not in their way. */
static void test_gids_are_rationed(void **state)
{
	struct peer peer = {1, 100, 1, 60000, NULL};
	const unsigned int most = MD_NEW_GIDS_BURST / N_GIDS + 1;
	unsigned int news, n_taken = 0;
	uint64_t held_back;

	(void)state;
	hosts.leaving = count_leaving;
	n_left = 0;
	for (peer.n = 1; peer.n < most + 20; peer.n++) {
		peer.text = many_gids(peer.n, true);
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
		n_taken += (news & MD_NEWS_DESC) != 0;
	}
	assert_int_equal(n_taken, most);
	held_back = hosts.n_held_back;
	assert_int_not_equal(held_back, 0);
	/* A port of one of them goes: nobody has to look who holds its GIDs. */
	peer.n = 1;
	peer.generation = 2;
	peer.text = many_gids(1, false);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_DESC | MD_NEWS_DOWN);
	assert_int_equal(n_left, 0);
	assert_int_equal(hosts.n_held_back, held_back);
	peer.generation = 3;
	peer.text = many_gids(200, false);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_int_equal(news & MD_NEWS_DESC, 0);
	assert_int_equal(n_left, 0);
	/* Nor is who is heard on another link kept waiting. */
	peer.n = most + 20;
	assert_int_equal(peers_hear(&hosts, &peer, 2, 0, MD_S, &news), 0);
	assert_int_equal(news & MD_NEWS_DESC, MD_NEWS_DESC);
	peer.n = 1;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &news), 0);
	assert_int_equal(news & MD_NEWS_DESC, MD_NEWS_DESC);
	assert_int_equal(n_left, 1);
}

static void test_news(void **state)
{
	struct md_net_heard nets[] = {{.ifindex = 3, .n = 7}, {.ifindex = 2}, {.ifindex = 1}};
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_HOST | MD_NEWS_SIGHTING | MD_NEWS_DESC | MD_NEWS_NAME);
	assert_int_equal(host(1)->desc->n_gids, 1);
	assert_string_equal(host(1)->name, "host1");
	/* The same once more tells nothing. */
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &news), 0);
	assert_int_equal(news, 0);
	/* Heard elsewhere. */
	assert_int_equal(peers_hear(&hosts, &peer, 2, 0, 2 * MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_SIGHTING);
	md_hosts_on_nets(&hosts, nets, 3);
	assert_true(nets[0].n == 0 && nets[1].n == 1 && nets[2].n == 1);
	md_hosts_on_nets(&hosts, nets, 1);
	assert_true(nets[0].n == 0);
	/* Another description. */
	peer.generation = 2;
	peer.text = "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.3/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_DESC);
	assert_int_equal(n_left, 1);
	assert_int_equal(host(1)->desc->n_gids, 2);
	/* Started again: new, though its generation is an older one's. */
	peer.start = 101;
	peer.generation = 1;
	peer.text = ONE_RAIL;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_HOST | MD_NEWS_SIGHTING | MD_NEWS_DESC);
	assert_int_equal(hosts.n, 1);
	/* It does not know who is there on its other links either, and has to hear that soon. */
	assert_int_equal(peers_hear(&hosts, &peer, 2, 0, 2 * MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_SIGHTING);
	assert_int_equal(peers_hear(&hosts, &peer, 2, 0, 2 * MD_S, &news), 0);
	assert_int_equal(news, 0);
}

static void test_down(void **state)
{
	struct peer peer = {1, 100, 1, 1000, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2;"};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_false(news & MD_NEWS_DOWN);
	peer.generation = 2;
	peer.text = "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1 down; gid 10.2.0.2/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_DESC | MD_NEWS_DOWN);
	/* Up again is no hurry. */
	peer.generation = 3;
	peer.text = "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_DESC);
}

static void test_own_and_old(void **state)
{
	struct peer self = {0, 100, 1, 1000, ONE_RAIL}, peer = {1, 100, 1, 1000, ONE_RAIL};
	struct md_heard heard = {.sender = peers_id(1), .start = 99, .ifindex = 1, .proven = true};
	struct md_beacon beacon = {
		.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .desc_bytes = 4, .piece = MD_NO_PIECE};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &self, 1, 0, MD_S, &news), -EALREADY);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), -ESTALE);
	/* Without proof anybody can say such a number: it must not shut out the true one. */
	heard.proven = false;
	heard.start = UINT64_MAX;
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_int_equal(host(1)->start, 100);
}

/* The directory must not have a host whose id means that no host is known. */
static void test_zero_id(void **state)
{
	struct md_heard heard = {.start = 100, .ifindex = 1};
	struct md_beacon beacon = {
		.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .desc_bytes = 4, .piece = MD_NO_PIECE};
	unsigned int news;

	(void)state;
	for (int i = 0; i < 4; i++) {
		heard.answer = i & 1;
		heard.proven = i & 2;
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), -EINVAL);
	}
	assert_int_equal(hosts.n, 0);
}

static void test_expiry(void **state)
{
	struct peer fast = {1, 100, 1, 1000, ONE_RAIL}, slow = {2, 100, 1, 10000, ONE_RAIL};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &fast, 1, 0, MD_S, &news), 0);
	assert_int_equal(peers_hear(&hosts, &fast, 2, 1, 3 * MD_S, &news), 0);
	assert_int_equal(peers_hear(&hosts, &slow, 1, 0, MD_S, &news), 0);
	assert_false(md_hosts_expire(&hosts, MD_S + 3499 * MD_MS));
	/* The sighting of netdev 1 goes, the host stays. */
	assert_true(md_hosts_expire(&hosts, MD_S + 3500 * MD_MS));
	assert_int_equal(host(1)->sightings.n, 1);
	assert_int_equal(host(1)->sightings.list[0].ifindex, 2);
	assert_true(md_hosts_expire(&hosts, 3 * MD_S + 3500 * MD_MS));
	assert_null(host(1));
	assert_int_equal(n_left, 1);
	assert_false(md_hosts_expire(&hosts, 35 * MD_S));
	assert_true(md_hosts_expire(&hosts, 36 * MD_S));
	assert_int_equal(hosts.n, 0);
}

/* Nobody is silent while we do not listen. */
static void test_late(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL}, told = {2, 100, 1, 1000, ONE_RAIL}, heard = {3, 100, 1, 1000, ONE_RAIL};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 9 * MD_S, &news), 0);
	assert_int_equal(peers_tell(&hosts, &told, "10.7.0.1", 9 * MD_S, &news), 0);
	assert_int_equal(peers_hear(&hosts, &heard, 1, 0, 9 * MD_S, &news), 0);
	assert_false(md_hosts_expire(&hosts, 10 * MD_S));
	/* Six seconds later some of what has come has been taken already. */
	assert_int_equal(peers_hear(&hosts, &heard, 1, 0, 16 * MD_S, &news), 0);
	md_hosts_excuse(&hosts, 10 * MD_S, 16 * MD_S);
	assert_false(md_hosts_expire(&hosts, 16 * MD_S));
	assert_int_equal(hosts.n, 3);
	/* They have the time that they had left. */
	assert_false(md_hosts_expire(&hosts, 18499 * MD_MS));
	assert_true(md_hosts_expire(&hosts, 18500 * MD_MS));
	assert_null(host(1));
	assert_null(host(2));
	/* Whom we have heard since has no more than that. */
	assert_non_null(host(3));
	assert_true(md_hosts_expire(&hosts, 19500 * MD_MS));
	assert_int_equal(hosts.n, 0);
}

/*
 * How long a host is known that falls silent when we look every @every_ns, and datagrams had no room in that time, or were
 * left in the sockets. Its lifetime is 3.5 s. 0: still known after 20 s.
 */
static uint64_t known_for(uint64_t every_ns, unsigned int drops, bool drained)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	struct md_expiry expiry;
	unsigned int news;

	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 9 * MD_S, &news), 0);
	md_expiry_begin(&expiry, UINT32_MAX - 5, 9 * MD_S);
	for (uint64_t now_ns = 9 * MD_S; now_ns < 29 * MD_S; now_ns += every_ns) {
		if (now_ns < expiry.due_ns)
			continue;
		md_expiry_look(&expiry, &hosts, drained, expiry.dropped + drops, now_ns);
		assert_true(expiry.due_ns > now_ns);
		if (!hosts.n)
			return now_ns - 9 * MD_S;
	}
	return 0;
}

/* An agent that others leave a twentieth of a processor. */
static void test_starved(void **state)
{
	(void)state;
	assert_int_equal(known_for(950 * MD_MS, 1, true), 0);
}

static void test_starved_without_drops(void **state)
{
	(void)state;
	assert_int_equal(known_for(950 * MD_MS, 0, true), 0);
}

/* One that comes round in time, but not to the end of what has come: others can bring that about, so a host gets a second lifetime, no third. */
static void test_flooded(void **state)
{
	(void)state;
	assert_in_range(known_for(50 * MD_MS, 1, true), 7000 * MD_MS, 7200 * MD_MS);
}

static void test_never_drained(void **state)
{
	(void)state;
	assert_in_range(known_for(50 * MD_MS, 0, false), 7000 * MD_MS, 7200 * MD_MS);
}

/* Bursts of 6 s, after each of which the host is heard once: by an answer, or by a beacon. */
static void flooded_and_heard(bool answer)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int news;

	for (uint64_t now_ns = 9 * MD_S; now_ns < 60 * MD_S; now_ns += 6 * MD_S) {
		if (answer)
			assert_int_equal(peers_tell(&hosts, &peer, "10.7.0.1", now_ns, &news), 0);
		else
			assert_int_equal(peers_hear(&hosts, &peer, 1, 0, now_ns, &news), 0);
		for (uint64_t ms = 0; ms < 6000; ms += 100)
			md_hosts_excuse_loss(&hosts, now_ns + ms * MD_MS, now_ns + (ms + 100) * MD_MS);
		assert_false(md_hosts_expire(&hosts, now_ns + 6 * MD_S));
		assert_int_equal(hosts.n, 1);
	}
}

static void test_flooded_and_heard(void **state)
{
	(void)state;
	flooded_and_heard(false);
}

static void test_flooded_and_told(void **state)
{
	(void)state;
	flooded_and_heard(true);
}

/* Who hears all forgets who is gone, in time: also one that is a little late each time. */
static void test_heard_all(void **state)
{
	(void)state;
	assert_in_range(known_for(250 * MD_MS, 0, true), 3500 * MD_MS, 3750 * MD_MS);
}

static void test_lost_carrier(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_false(md_hosts_forget_net(&hosts, 2));
	assert_true(md_hosts_forget_net(&hosts, 1));
	assert_int_equal(host(1)->sightings.n, 0);
	/* It may be heard elsewhere until its time is over. */
	assert_false(md_hosts_expire(&hosts, 4 * MD_S));
	assert_non_null(host(1));
	assert_true(md_hosts_expire(&hosts, 5 * MD_S));
	assert_null(host(1));
}

/* Pieces in any order, some of them twice; a generation that is overtaken is dropped. */
static void test_pieces(void **state)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(BIG);
	struct md_heard heard = {.sender = peers_id(1), .start = 1, .ifindex = 1};
	struct md_beacon beacon = {.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .generation = 1};
	static const uint8_t order[] = {1, MD_NO_PIECE, 1, 0};
	unsigned int news;

	(void)state;
	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	assert_int_equal(md_beacon_pieces(beacon.desc_bytes), 2);
	for (size_t i = 0; i < sizeof(order); i++) {
		md_beacon_cut(&beacon, bytes, order[i]);
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
		assert_int_equal((news & MD_NEWS_DESC) != 0, i == 3);
		assert_int_equal((news & MD_NEWS_WANTED) != 0, order[i] == MD_NO_PIECE);
	}
	assert_int_equal(host(1)->desc->n_gids, 60);
	assert_int_equal(hosts.n_partial, 0);
	/* Signs of life are enough now. */
	md_beacon_cut(&beacon, bytes, MD_NO_PIECE);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
	assert_int_equal(news, 0);
	/* Half of generation 2, then 3. What was known stays meanwhile. */
	beacon.generation = 2;
	md_beacon_cut(&beacon, bytes, 0);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
	assert_int_equal(hosts.n_partial, 1);
	beacon.generation = 3;
	md_beacon_cut(&beacon, bytes, 1);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
	assert_int_equal(news, 0);
	assert_int_equal(host(1)->generation, 1);
	/* The rest never comes. */
	md_hosts_expire(&hosts, 2 * MD_S + MD_PARTIAL_NS);
	assert_int_equal(hosts.n_partial, 0);
	free(desc);
}

/* Piece @piece of BIG, from a host by netdev @ifindex. */
static int hear_piece(unsigned int n, uint32_t ifindex, uint64_t start, uint64_t generation, uint8_t piece, uint64_t now_ns)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(BIG);
	struct md_heard heard = {.sender = peers_id(n), .start = start, .ifindex = ifindex};
	struct md_beacon beacon = {.agent_version = MV_CTL_VERSION, .interval_ms = 60000, .generation = generation};
	unsigned int news;

	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	free(desc);
	md_beacon_cut(&beacon, bytes, piece);
	return md_hosts_hear(&hosts, &heard, &beacon, now_ns, &news);
}

/* Somebody on netdev 2 makes up hosts and sends one half of their descriptions, again and again: those of hosts on netdev 1 are taken. */
static void test_halves(void **state)
{
	struct peer known = {1, 100, 1, 1000, BIG}, fresh = {2, 100, 1, 1000, BIG}, beside = {3, 100, 1, 1000, BIG};
	const unsigned int n = 1500;
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &known, 1, 0, MD_S, &news), 0);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(hear_piece(1000 + i, 2, 1, 1, 0, MD_S), 0);
	assert_in_range(hosts.n_partial, 100, n);
	assert_int_equal(peers_hear(&hosts, &fresh, 1, 0, MD_S, &news), 0);
	assert_non_null(host(2)->desc);
	/* On his own link, too, if all pieces come before he has sent a thousand halves. */
	assert_int_equal(peers_hear(&hosts, &beside, 2, 0, MD_S, &news), 0);
	assert_non_null(host(3)->desc);
	for (uint64_t generation = 2; generation < 5; generation++) {
		assert_int_equal(hear_piece(1, 1, 100, generation, 0, MD_S), 0);
		for (unsigned int i = 0; i < n; i++)
			assert_int_equal(hear_piece(1000 + i, 2, 1, generation, 0, MD_S), 0);
		assert_int_equal(hear_piece(1, 1, 100, generation, 1, MD_S), 0);
		assert_int_equal(host(1)->generation, generation);
	}
}

/* Pieces under a host's id on another link, of the same description or not: what comes by the host's link is complete all the same. */
static void test_forged_pieces(void **state)
{
	(void)state;
	assert_int_equal(hear_piece(1, 1, 100, 1, 0, MD_S), 0);
	assert_int_equal(hear_piece(1, 2, 100, 9, 0, MD_S), 0); /* another generation */
	assert_int_equal(hear_piece(1, 1, 100, 1, 1, MD_S), 0);
	assert_non_null(host(1)->desc);
	assert_int_equal(hear_piece(1, 1, 100, 2, 0, MD_S), 0);
	assert_int_equal(hear_piece(1, 2, 101, 2, 0, MD_S), 0); /* another start */
	assert_int_equal(hear_piece(1, 1, 100, 2, 1, MD_S), 0);
	assert_int_equal(host(1)->generation, 2);
	/* Garbage that completes nothing but itself. */
	{
		static const uint8_t garbage[MD_PIECE_BYTES] = {0xff};
		struct md_heard heard = {.sender = peers_id(1), .start = 100, .ifindex = 2};
		struct md_beacon beacon = {.agent_version = MV_CTL_VERSION,
					   .interval_ms = 60000,
					   .generation = 3,
					   .piece = 1,
					   .data = garbage};
		struct md_desc *desc = peers_desc(BIG);
		uint8_t bytes[MD_DESC_BYTES_MAX];
		unsigned int news;

		beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
		beacon.piece_bytes = (uint16_t)(beacon.desc_bytes - MD_PIECE_BYTES);
		free(desc);
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
	}
	assert_int_equal(hear_piece(1, 1, 100, 3, 0, MD_S), 0);
	assert_int_equal(hear_piece(1, 1, 100, 3, 1, MD_S), 0);
	assert_int_equal(host(1)->generation, 3);
	md_hosts_expire(&hosts, 2 * MD_S + MD_PARTIAL_NS);
	assert_int_equal(hosts.n_partial, 0);
}

/* Answers of targets, from anywhere: those of hosts that a process wants have room of their own. */
static void test_halves_of_answers(void **state)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(BIG);
	struct md_beacon beacon = {.agent_version = MV_CTL_VERSION, .interval_ms = 60000, .generation = 1};

	(void)state;
	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	free(desc);
	for (unsigned int wanted = 0; wanted < 2; wanted++) {
		struct md_heard heard = {.sender = peers_id(1 + wanted), .start = 1, .answer = true, .wanted = wanted};
		struct md_heard other = {.start = 1, .answer = true};
		unsigned int news;

		md_beacon_cut(&beacon, bytes, 0);
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
		for (unsigned int i = 0; i < 1000; i++) {
			other.sender = peers_id(1000 + i);
			assert_int_equal(md_hosts_hear(&hosts, &other, &beacon, MD_S, &news), 0);
			assert_true(hosts.partials[0].bytes <= MD_PARTIAL_BYTES);
		}
		md_beacon_cut(&beacon, bytes, 1);
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
		assert_int_equal(host(1 + wanted)->desc != NULL, wanted);
	}
	/* Neighbours that were asked count on their links. */
	assert_int_equal(hosts.partials[1 + 3].bytes, 0);
	{
		struct md_heard heard = {.sender = peers_id(3), .start = 1, .answer = true, .near = true, .ifindex = 3};
		unsigned int news;

		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
		assert_int_not_equal(hosts.partials[1 + 3].bytes, 0);
	}
}

/* A beacon that comes after one that was sent later, by another link. */
static void test_overtaken(void **state)
{
	static uint8_t bytes[2][MD_DESC_BYTES_MAX];
	static const char *const texts[2] = {ONE_RAIL, "rail mlx5_0; gid 10.1.0.9/24 v2;"};
	struct md_heard heard = {.sender = peers_id(1), .start = 1, .ifindex = 1, .proven = true};
	struct md_beacon beacons[2];
	unsigned int news;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct md_desc *desc = peers_desc(texts[i]);

		beacons[i] = (struct md_beacon){.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .generation = 1 + i};
		beacons[i].desc_bytes = (uint32_t)md_desc_encode(desc, bytes[i]);
		md_beacon_cut(&beacons[i], bytes[i], 0);
		free(desc);
	}
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacons[1], MD_S, &news), 0);
	heard.ifindex = 2;
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacons[0], MD_S, &news), 0);
	assert_int_equal(host(1)->generation, 2);
	assert_int_equal(news, MD_NEWS_SIGHTING);
	/* Without proof that would let anybody shut out the true one. */
	heard.proven = false;
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacons[0], MD_S, &news), 0);
	assert_int_equal(host(1)->generation, 1);
}

/* A sighting of which it was not known any more what it means: now that it is, the directory is to say so. */
static void test_new_numbers(void **state)
{
	struct peer both = {1, 100, 1, 1000, "rail mlx5_0; rail mlx5_1;"}, second = {1, 100, 2, 1000, "rail mlx5_1;"};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &both, 1, 0, MD_S, &news), 0);
	assert_int_equal(peers_hear(&hosts, &both, 2, 1, MD_S, &news), 0);
	assert_int_equal(peers_hear(&hosts, &second, 2, 0, MD_S, &news), 0);
	both.generation = 3;
	assert_int_equal(peers_hear(&hosts, &both, 2, 1, MD_S, &news), 0);
	assert_false(host(1)->sightings.list[0].has_rail);
	assert_int_equal(peers_hear(&hosts, &both, 1, 0, MD_S, &news), 0);
	assert_true(host(1)->sightings.list[0].has_rail);
	assert_int_equal(news, MD_NEWS_SIGHTING | MD_NEWS_BACK);
	assert_int_equal(peers_hear(&hosts, &both, 1, 0, MD_S, &news), 0);
	assert_int_equal(news, 0);
}

static void test_malformed(void **state)
{
	static const uint8_t bad[4] = {0, 1, 0, 0};
	struct md_heard heard = {.sender = peers_id(1), .start = 1, .ifindex = 1};
	struct md_beacon beacon = {
		.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .generation = 1, .desc_bytes = 4};
	unsigned int news;

	(void)state;
	md_beacon_cut(&beacon, bad, 0);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), -EBADMSG);
	assert_null(host(1)->desc);
}

static void test_answers(void **state)
{
	struct peer peer = {1, 100, 1, 5000, ONE_RAIL};
	struct peer liar = {1, 100, 2, 5000, "rail mlx5_0; gid 10.9.0.9/24 v2;"};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_tell(&hosts, &peer, "10.7.0.1", MD_S, &news), 0);
	assert_true(news & MD_NEWS_DESC);
	assert_false(news & MD_NEWS_SIGHTING);
	assert_int_equal(host(1)->sightings.n, 0);
	/* Another address cannot speak for it, as long as the first one answers. */
	assert_int_equal(peers_tell(&hosts, &liar, "10.8.0.1", 2 * MD_S, &news), 0);
	assert_int_equal(news, 0);
	assert_false(md_hosts_expire(&hosts, 18 * MD_S));
	/* Once it is heard, no answer from afar changes anything. */
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 18 * MD_S, &news), 0);
	assert_int_equal(peers_tell(&hosts, &liar, "10.7.0.1", 18 * MD_S, &news), 0);
	assert_int_equal(news, 0);
	assert_int_equal(host(1)->generation, 1);
	/* ... but the neighbour's own answer does. */
	assert_int_equal(md_hosts_forget_net(&hosts, 1), 1);
	assert_int_equal(peers_tell(&hosts, &liar, "10.7.0.1", 19 * MD_S, &news), 0);
	assert_true(news & MD_NEWS_DESC);
}

/* A host that answers at several addresses stays known when the first one, or the link on which it is heard, fails. */
static void test_answers_at_another_address(void **state)
{
	struct peer peer = {1, 100, 1, 5000,
			    "rail mlx5_0; gid 10.1.0.2/24 v2; gid fe80::7/64 v2;"
			    "rail mlx5_1; gid 10.2.0.2/24 v2; gid 10.3.0.2/24 grace;"};
	struct peer liar = {1, 100, 2, 5000, ONE_RAIL};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_tell(&hosts, &peer, "10.1.0.2", MD_S, &news), 0);
	for (unsigned int i = 1; i < 10; i++) {
		assert_int_equal(peers_tell(&hosts, &peer, "10.2.0.2", i * 5 * MD_S, &news), 0);
		assert_false(md_hosts_expire(&hosts, i * 5 * MD_S));
		assert_non_null(host(1));
		/* The second address stands for the host 3.5 intervals after the first one has answered. */
		assert_int_equal(host(1)->told.by.s6_addr[13], i < 4 ? 1 : 2);
	}
	/* Also while beacons of the host are heard, which somebody may have forged. */
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 50 * MD_S, &news), 0);
	assert_int_equal(peers_tell(&hosts, &peer, "10.2.0.2", 60 * MD_S, &news), 0);
	md_hosts_expire(&hosts, 70 * MD_S);
	assert_non_null(host(1));
	assert_int_equal(host(1)->sightings.n, 0);
	/* An address that others may have, too, is not enough. */
	assert_int_equal(peers_tell(&hosts, &liar, "fe80::7", 71 * MD_S, &news), 0);
	assert_int_equal(peers_tell(&hosts, &liar, "10.3.0.2", 71 * MD_S, &news), 0);
	assert_int_equal(host(1)->generation, 1);
}

static void test_limits(void **state)
{
	struct peer peer = {0, 100, 1, 60000, ONE_RAIL};
	unsigned int news, refused = 0;

	(void)state;
	/* A flood of new hosts is cut at the burst, ... */
	for (unsigned int i = 1; i <= MD_NEW_HOSTS_BURST + 100; i++) {
		peer.n = i;
		refused += peers_hear(&hosts, &peer, 1, 0, MD_S, &news) == -ENOSPC;
	}
	assert_int_equal(refused, 100);
	assert_int_equal(hosts.n, MD_NEW_HOSTS_BURST);
	/* ... known ones go on being heard, ... */
	peer.n = 1;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	/* ... and a second later there is room for some. */
	peer.n = MD_NEW_HOSTS_BURST + 200;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &news), 0);
	for (unsigned int i = 0; hosts.n < MD_HOSTS_MAX; i++) {
		peer.n = 100000 + i;
		peers_hear(&hosts, &peer, 1, 0, (2 + i) * MD_S / 100, &news);
	}
	peer.n = 99999;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 1000 * MD_S, &news), -ENOSPC);
	assert_int_equal(hosts.n, MD_HOSTS_MAX);
}

/* Somebody makes up hosts on netdev 2, as many as there may be: new ones on netdev 1 take their places, and keep them. */
static void test_room_on_other_links(void **state)
{
	struct peer peer = {0, 100, 1, 60000, ONE_RAIL};
	struct peer invented = {0, 100, 1, 60000, ONE_RAIL}, wanted = {2, 100, 1, 60000, ONE_RAIL};
	unsigned int news;

	(void)state;
	for (invented.n = 100000; invented.n < 100000 + MD_NEW_HOSTS_BURST + 1; invented.n++)
		peers_hear(&hosts, &invented, 2, 0, MD_S, &news);
	/* No tokens for him, but for others. */
	peer.n = 1;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	for (; hosts.n < MD_HOSTS_MAX - 1; invented.n++)
		peers_hear(&hosts, &invented, 2, 0, invented.n * MD_S / 100, &news);
	assert_int_equal(peers_hear(&hosts, &wanted, 2, 0, 2000 * MD_S, &news), 0);
	md_hosts_want(&hosts, md_hosts_find(&hosts, &host(2)->id), 0);
	assert_int_equal(peers_hear(&hosts, &invented, 2, 0, 2000 * MD_S, &news), -ENOSPC);
	n_left = 0;
	for (peer.n = 10; peer.n < 110; peer.n++)
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2000 * MD_S, &news), 0);
	assert_int_equal(hosts.n, MD_HOSTS_MAX);
	assert_int_equal(n_left, 100);
	assert_int_equal(hosts.n_forgotten, 100);
	assert_non_null(host(1));
	assert_non_null(host(2)); /* although it was the newest */
	for (unsigned int i = 0; i < 1000; i++, invented.n++)
		assert_int_equal(peers_hear(&hosts, &invented, 2, 0, (2000 + i) * MD_S, &news), -ENOSPC);
	for (peer.n = 10; peer.n < 110; peer.n++)
		assert_non_null(host(peer.n));
	/* Two links with as many hosts push nobody out. */
	for (; peer.n < 2 * MD_HOSTS_MAX; peer.n++)
		if (peers_hear(&hosts, &peer, 1, 0, (3000 + peer.n) * MD_S, &news))
			break;
	assert_in_range(peer.n, MD_HOSTS_MAX / 2, MD_HOSTS_MAX / 2 + 10);
	assert_int_equal(hosts.n, MD_HOSTS_MAX);
}

/* The host signs from now on. */
static void sign(unsigned int n)
{
	const uint8_t digest[MD_CONTENT_BYTES] = {0};
	struct md_host *known = md_hosts_find(&hosts, &host(n)->id);
	struct md_statement said = {.host = known->id, .start = 100, .generation = 1};
	unsigned int news;

	memcpy(said.name, known->name, sizeof(said.name));
	memcpy(said.content, known->content.hash, sizeof(said.content));
	assert_int_equal(md_hosts_vouch(&hosts, known, &said, digest, MD_TRUST_PINNED, &news), 0);
}

/* Hosts that sign keep their places, though there are more of them on netdev 1 than hosts that somebody makes up on netdev 2. */
static void test_signed_keep_their_places(void **state)
{
	struct peer peer = {1, 100, 1, 60000, ONE_RAIL}, invented = {100000, 100, 1, 60000, ONE_RAIL};
	const unsigned int n_signed = MD_HOSTS_MAX / 8 * 5;
	unsigned int news;

	(void)state;
	for (; peer.n <= n_signed; peer.n++) {
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, peer.n * MD_S / 100, &news), 0);
		sign(peer.n);
	}
	for (; hosts.n < MD_HOSTS_MAX; invented.n++)
		peers_hear(&hosts, &invented, 2, 0, invented.n * MD_S / 100, &news);
	n_left = 0;
	for (unsigned int i = 0; i < 1000; i++, invented.n++)
		assert_int_equal(peers_hear(&hosts, &invented, 2, 0, (2000 + i) * MD_S, &news), -ENOSPC);
	assert_int_equal(n_left, 0);
	assert_int_equal(hosts.n_forgotten, 0);
}

/* ... with descriptions as long as there may be. */
static void test_memory_on_other_links(void **state)
{
	struct peer peer = {1, 100, 1, 60000, NULL}, invented = {1000, 100, 1, 60000, NULL};
	uint64_t now_ns = MD_S;
	unsigned int news;

	(void)state;
	do {
		invented.text = many_gids(++invented.n, true);
		now_ns += MD_S / 32;
	} while (!peers_hear(&hosts, &invented, 2, 0, now_ns, &news));
	assert_true(hosts.bytes <= MD_HOSTS_BYTES_UNSIGNED);
	assert_int_equal(hosts.n_refused, 1);
	for (; peer.n <= 10; peer.n++) {
		peer.text = many_gids(peer.n, true);
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, now_ns, &news), 0);
		assert_non_null(host(peer.n)->desc);
		assert_true(hosts.bytes <= MD_HOSTS_BYTES_UNSIGNED);
	}
	assert_int_equal(peers_hear(&hosts, &invented, 2, 0, now_ns, &news), -ENOSPC);
	for (peer.n = 1; peer.n <= 10; peer.n++)
		assert_non_null(host(peer.n)->desc);
	/* One that a process wants is taken there as well. */
	md_hosts_want(&hosts, md_hosts_find(&hosts, &host(invented.n)->id), 0);
	assert_int_equal(peers_hear(&hosts, &invented, 2, 0, now_ns, &news), 0);
	assert_non_null(host(invented.n)->desc);
}

/* Hosts that somebody makes up leave memory for those that sign, and for news of those that are known. */
static void test_memory(void **state)
{
	struct peer known = {1, 100, 1, 1000, ONE_RAIL}, new = {2, 100, 1, 1000, ONE_RAIL};
	const uint8_t digest[MD_CONTENT_BYTES] = {0};
	struct md_statement said = {.start = 100, .generation = 1};
	const size_t filled = MD_HOSTS_BYTES_UNSIGNED - 8;
	size_t bytes;
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &new, 1, 0, MD_S, &news), 0);
	said.host = host(2)->id;
	memcpy(said.name, host(2)->name, sizeof(said.name));
	memcpy(said.content, host(2)->content.hash, sizeof(said.content));
	md_hosts_fini(&hosts);
	assert_int_equal(peers_hear(&hosts, &known, 1, 0, MD_S, &news), 0);
	bytes = hosts.bytes;
	hosts.bytes += filled - bytes;
	hosts.shares[0].all[0].bytes += filled - bytes;
	assert_int_equal(peers_hear(&hosts, &new, 1, 0, MD_S, &news), -ENOSPC);
	assert_int_equal(hosts.n_refused, 1);
	assert_null(host(2)->desc);
	known.generation++;
	known.text = "rail mlx5_0 down; gid 10.1.0.2/24 v2;";
	assert_int_equal(peers_hear(&hosts, &known, 1, 0, MD_S, &news), 0);
	assert_int_equal(md_desc_n_up(host(1)->desc), 0);
	assert_int_equal(hosts.bytes, filled);
	assert_int_equal(md_hosts_vouch(&hosts, md_hosts_find(&hosts, &said.host), &said, digest, MD_TRUST_PINNED, &news), 0);
	assert_int_equal(peers_hear(&hosts, &new, 1, 0, MD_S, &news), 0);
	assert_non_null(host(2)->desc);
	hosts.bytes -= filled - bytes;
	hosts.shares[0].all[0].bytes -= filled - bytes;
}

/* Memory that is not there costs a beacon, nothing else. The test's own calls come first. */
static void test_faults(void **state)
{
	struct md_heard heard = {.sender = peers_id(1), .start = 1, .ifindex = 1};
	struct md_beacon beacon = {.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .generation = 1};
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(BIG);

	(void)state;
	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		int rc = 0;

		for (uint8_t piece = 0; piece < 2 && !rc; piece++) {
			unsigned int news;

			md_beacon_cut(&beacon, bytes, piece);
			rc = md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news);
		}
		assert_int_equal(rc, fault_fired() ? -ENOMEM : 0);
		md_hosts_fini(&hosts);
		assert_int_equal(hosts.n_partial, 0);
	});
	free(desc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_changes_are_rationed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gids_are_rationed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_news, setup, teardown),
		cmocka_unit_test_setup_teardown(test_down, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_and_old, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zero_id, setup, teardown),
		cmocka_unit_test_setup_teardown(test_expiry, setup, teardown),
		cmocka_unit_test_setup_teardown(test_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_starved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_starved_without_drops, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flooded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_drained, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flooded_and_heard, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flooded_and_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_heard_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost_carrier, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_halves, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forged_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_halves_of_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overtaken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_new_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answers_at_another_address, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_room_on_other_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signed_keep_their_places, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory_on_other_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
