/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Keys of hosts: their table, their file, and what a statement changes of what is known of a host. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "fault.h"
#include "peers.h"
#include "pins.h"
#include "tmpdir.h"

static struct tmpdir dir;
static int dir_fd;
static struct md_pins pins;
static struct md_public one = {{1}}, two = {{2}};

static int setup(void **state)
{
	(void)state;
	umask(022);
	tmpdir_make(&dir);
	dir_fd = open(dir.path, O_RDONLY | O_DIRECTORY);
	assert_true(dir_fd >= 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	md_pins_fini(&pins);
	close(dir_fd);
	tmpdir_remove(&dir);
	return 0;
}

static bool is_pinned(const char *name, const struct md_public *key)
{
	const struct md_public *found = md_pins_find(&pins, name, NULL, NULL);

	return found && md_public_is(found, key);
}

static void test_precedence(void **state)
{
	enum md_pin_how how;

	(void)state;
	assert_null(md_pins_find(&pins, "a", NULL, NULL));
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_FIRST_CONTACT, 5), 0);
	assert_true(is_pinned("a", &one));
	assert_int_equal(md_pins_set_file(&pins, "a", &two), 0);
	assert_non_null(md_pins_find(&pins, "a", &how, NULL));
	assert_int_equal(how, MD_PIN_HOSTS_FILE);
	assert_true(is_pinned("a", &two));
	assert_int_equal(md_pins_set_file(&pins, "a", &one), -EEXIST);
	assert_int_equal(md_pins_forget(&pins, "a"), 0);
	assert_int_equal(md_pins_forget(&pins, "a"), -EPERM);
	md_pins_forget_file(&pins);
	assert_null(md_pins_find(&pins, "a", NULL, NULL));
	assert_int_equal(pins.n, 0);
	assert_int_equal(md_pins_forget(&pins, "a"), -ENOENT);
	assert_int_equal(md_pins_set(&pins, "two words", &one, MD_PIN_OPERATOR, 5), -EINVAL);
}

static void test_revoked(void **state)
{
	(void)state;
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_FIRST_CONTACT, 5), 0);
	assert_int_equal(md_pins_revoke(&pins, "a", &one, 6), 0);
	assert_null(md_pins_find(&pins, "a", NULL, NULL));
	assert_true(md_pins_is_revoked(&pins, &one));
	assert_false(md_pins_is_revoked(&pins, &two));
	assert_int_equal(md_pins_revoke(&pins, "a", &one, 7), 0);
	assert_int_equal(pins.n_revoked, 1);
	assert_int_equal(md_pins_restore(&pins, &one), 0);
	assert_int_equal(md_pins_restore(&pins, &one), -ENOENT);
}

static void test_file(void **state)
{
	unsigned int n_bad, line;
	uint64_t since_s;
	size_t len;
	char *text;

	(void)state;
	assert_int_equal(md_pins_load(dir_fd, &pins, &n_bad, &line), 0);
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_ROTATED, 1234), 0);
	assert_int_equal(md_pins_set_file(&pins, "only-in-the-hosts-file", &two), 0);
	assert_int_equal(md_pins_revoke(&pins, "old", &two, 5), 0);
	assert_true(pins.dirty);
	text = md_pins_format(&pins, &len);
	assert_non_null(text);
	assert_null(strstr(text, "only-in"));
	assert_int_equal(md_pins_save(dir_fd, text, len), 0);
	md_pins_fini(&pins);
	assert_int_equal(md_pins_load(dir_fd, &pins, &n_bad, &line), 0);
	assert_int_equal(n_bad, 0);
	assert_false(pins.dirty);
	assert_true(is_pinned("a", &one));
	md_pins_find(&pins, "a", NULL, &since_s);
	assert_int_equal(since_s, 1234);
	assert_true(md_pins_is_revoked(&pins, &two));
	/* Not if others may have written it; one that fails to be written stays as it was. */
	assert_int_equal(chmod(tmpdir_at(&dir, "known_hosts"), 0620), 0);
	assert_int_equal(md_pins_load(dir_fd, &pins, &n_bad, &line), -EPERM);
	assert_int_equal(chmod(tmpdir_at(&dir, "known_hosts"), 0600), 0);
	fault_arm(FAULT_WRITE, 1, ENOSPC);
	assert_int_equal(md_pins_save(dir_fd, "", 0), 0); /* nothing to write: an empty file */
	fault_disarm();
	fault_arm(FAULT_WRITE, 1, ENOSPC);
	assert_int_equal(md_pins_save(dir_fd, text, len), -ENOSPC);
	fault_disarm();
	assert_int_equal(access(tmpdir_at(&dir, "known_hosts.new"), F_OK), -1);
	free(text);
}

static const char *invented(unsigned int n)
{
	static char name[32];

	snprintf(name, sizeof(name), "h%u", n);
	return name;
}

static void invent(struct md_pins *to, unsigned int from, unsigned int n)
{
	for (unsigned int i = from; i < from + n; i++)
		assert_int_equal(md_pins_set(to, invented(i), &one, MD_PIN_UNCONFIRMED, 5), 0);
}

/* Names that somebody makes up leave room for others, as long as they have sealed nothing. */
static void test_full(void **state)
{
	enum md_pin_how how;

	(void)state;
	invent(&pins, 0, MD_PINS_MAX);
	md_pins_seen(&pins, "h1", 9); /* heard longer than others */
	assert_int_equal(md_pins_confirm(&pins, "h3", &two), 0); /* another key: nothing */
	assert_int_equal(md_pins_confirm(&pins, "h4", &one), 0);
	assert_int_equal(md_pins_confirm(&pins, "nobody", &one), -ENOENT);
	assert_int_equal(md_pins_set_file(&pins, "h5", &two), 0);
	assert_int_equal(md_pins_set(&pins, "h6", &two, MD_PIN_OPERATOR, 5), 0);
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_UNCONFIRMED, 5), 0);
	assert_null(md_pins_find(&pins, "h0", NULL, NULL));
	invent(&pins, MD_PINS_MAX, 4);
	assert_int_equal(pins.n, MD_PINS_MAX);
	assert_int_equal(pins.n_replaced, 5);
	assert_true(is_pinned("h1", &one));
	assert_false(is_pinned("h2", &one));
	assert_false(is_pinned("h3", &one));
	assert_non_null(md_pins_find(&pins, "h4", &how, NULL));
	assert_int_equal(how, MD_PIN_FIRST_CONTACT);
	md_pins_forget_file(&pins);
	invent(&pins, 2 * MD_PINS_MAX, MD_PINS_MAX);
	assert_true(is_pinned("h4", &one));
	assert_false(is_pinned("h5", &one));
	assert_true(is_pinned("h6", &two));
	/* Those of the operator find room as well, until no other ones are left. */
	for (unsigned int i = 0; i < MD_PINS_MAX - 2; i++) {
		assert_int_equal(md_pins_set(&pins, invented(4 * MD_PINS_MAX + i), &one, MD_PIN_OPERATOR, 5), 0);
		assert_int_equal(pins.n, MD_PINS_MAX);
	}
	assert_int_equal(md_pins_set(&pins, "z", &one, MD_PIN_OPERATOR, 5), -ENOSPC);
	assert_int_equal(md_pins_set_file(&pins, "z", &one), -ENOSPC);
	assert_int_equal(md_pins_set(&pins, "h4", &two, MD_PIN_OPERATOR, 5), 0);
}

static void test_unconfirmed_file(void **state)
{
	unsigned int n_bad, line;
	enum md_pin_how how;
	size_t len;
	char *text;

	(void)state;
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_UNCONFIRMED, 1234), 0);
	assert_int_equal(md_pins_set(&pins, "b", &one, MD_PIN_FIRST_CONTACT, 1234), 0);
	text = md_pins_format(&pins, &len);
	assert_non_null(strstr(text, " unconfirmed 1234\n"));
	assert_int_equal(md_pins_save(dir_fd, text, len), 0);
	free(text);
	md_pins_fini(&pins);
	assert_int_equal(md_pins_load(dir_fd, &pins, &n_bad, &line), 0);
	assert_int_equal(n_bad, 0);
	assert_non_null(md_pins_find(&pins, "a", &how, NULL));
	assert_int_equal(how, MD_PIN_UNCONFIRMED);
	invent(&pins, 0, MD_PINS_MAX);
	assert_null(md_pins_find(&pins, "a", NULL, NULL));
	assert_true(is_pinned("b", &one));
}

/* What is not understood is left out and counted; the rest counts, also where the file was cut. */
static void test_bad_lines(void **state)
{
	static const char *const bad[] = {
		"a", "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "a AQ== operator 5",
		"a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= hosts-file 5", "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator -5",
		"a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator 5 6", "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator",
	};
	static const char good[] = "b AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator 5\n";
	char text[512];
	unsigned int line = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "# c\n%s%s", good, bad[i]);
		assert_int_equal(md_pins_parse(&pins, text, strlen(text), &line), 1);
		assert_int_equal(line, 3);
		assert_true(is_pinned("b", &one));
		assert_null(md_pins_find(&pins, "a", NULL, NULL));
		md_pins_fini(&pins);
	}
	for (size_t n = 0; n < sizeof(good); n++) {
		md_pins_parse(&pins, good, n, &line);
		assert_true(!pins.n || is_pinned("b", &one));
		md_pins_fini(&pins);
	}
}

/* A host has not to have a key that nobody believes, whichever line comes first. */
static void test_revoked_and_pinned(void **state)
{
	static const char pinned[] = "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator 5\n",
			  revoked[] = "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= revoked 6\n";
	unsigned int line;
	char text[256];

	(void)state;
	for (int first = 0; first < 2; first++) {
		snprintf(text, sizeof(text), "%s%s", first ? pinned : revoked, first ? revoked : pinned);
		assert_int_equal(md_pins_parse(&pins, text, strlen(text), &line), 0);
		assert_null(md_pins_find(&pins, "a", NULL, NULL));
		assert_true(md_pins_is_revoked(&pins, &one));
		md_pins_fini(&pins);
	}
}

/* ---- hosts that are vouched for --------------------------------------------------------------- */

#define UP   "rail mlx5_0; gid 10.1.0.2/24 v2;"
#define DOWN "rail mlx5_0 down; gid 10.1.0.2/24 v2;"

static struct md_hosts hosts;

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
	unsigned int news;

	assert_int_equal(md_hosts_vouch(&hosts, host(), said, digest, MD_TRUST_PINNED, &news), 0);
	assert_int_equal(news, want);
}

/* Forged beacons tell signs of life: no other description, name, start, and no early end. */
static void test_forged_beacons(void **state)
{
	struct peer peer = {1, 100, 1, 1000, UP}, forged = peer;
	struct md_statement said;
	uint64_t expires_ns;
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	said = statement_of(100, 1);
	vouch(&said, 0);
	forged.text = DOWN;
	forged.generation = 2;
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_WANTED);
	assert_int_equal(md_desc_n_up(host()->desc), 1);
	forged.start = 101;
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &news), -EPERM);
	expires_ns = md_sighting_expires_ns(&host()->sightings.list[0]);
	forged = peer;
	forged.interval_ms = 1;
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &news), 0);
	assert_int_equal(md_sighting_expires_ns(&host()->sightings.list[0]), expires_ns);
	/* The host itself says it, and signs it; in another generation than the signed one it is forged. */
	said.generation = 2;
	vouch(&said, 0);
	forged.text = DOWN;
	forged.generation = 2;
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &news), -EPERM);
	assert_int_equal(md_desc_n_up(host()->desc), 1);
	peer.generation = 2;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_int_equal(news, MD_NEWS_DESC);
	assert_int_equal(host()->generation, 2);
	md_hosts_fini(&hosts);
}

/* What was believed before the statement came, and is not as it says, goes. */
static void test_forged_before(void **state)
{
	struct peer peer = {1, 100, 1, 1000, UP}, forged = {1, 100, 1, 1000, DOWN};
	struct md_statement said;
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	said = statement_of(100, 1);
	md_hosts_fini(&hosts);
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &news), 0);
	vouch(&said, MD_NEWS_WANTED | MD_NEWS_DESC);
	assert_null(host()->desc);
	assert_int_equal(peers_hear(&hosts, &forged, 1, 0, MD_S, &news), -EPERM);
	assert_null(host()->desc);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_int_equal(md_desc_n_up(host()->desc), 1);
	md_hosts_fini(&hosts);
}

/* The statement of the next description comes first: the rails of the former description are gone with it. */
static void test_next_statement_first(void **state)
{
	struct peer peer = {1, 100, 1, 1000, UP};
	struct md_statement said;
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	peer.generation = 2;
	peer.text = UP "rail mlx5_1; gid 10.1.0.3/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	said = statement_of(100, 2);
	md_hosts_fini(&hosts);
	peer.generation = 1;
	peer.text = UP;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	vouch(&said, MD_NEWS_WANTED | MD_NEWS_DESC);
	assert_null(host()->desc);
	assert_false(host()->sightings.list[0].has_rail);
	peer.generation = 2;
	peer.text = UP "rail mlx5_1; gid 10.1.0.3/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 1, MD_S, &news), 0);
	assert_non_null(host()->desc);
	assert_false(host()->sightings.list[0].has_rail);
	assert_true(host()->sightings.list[1].has_rail);
	md_hosts_fini(&hosts);
}

/* How often a host has changed that signs each change is for itself to say. */
static void test_signed_changes(void **state)
{
	struct peer peer = {1, 100, 1, 1000, UP};
	struct md_statement up, down;
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	up = statement_of(100, 1);
	peer.text = DOWN;
	peer.generation = 2;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	down = statement_of(100, 2);
	vouch(&down, 0);
	for (unsigned int i = 3; i < 4 * MD_CHANGES_BURST; i++) {
		struct md_statement *said = i % 2 ? &up : &down;

		said->generation = i;
		vouch(said, 0);
		peer.generation = i;
		peer.text = i % 2 ? UP : DOWN;
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
		assert_int_equal(news & MD_NEWS_DESC, MD_NEWS_DESC);
	}
	assert_int_equal(hosts.n_held_back, 0);
	md_hosts_fini(&hosts);
}

/* But who holds GIDs is worked out for so many of them, whoever signs that they are others; for hosts that are wanted for so many again. */
static void test_signed_gids(void **state)
{
	struct peer peer = {1, 100, 1, 1000, NULL};
	char texts[2][8192];
	struct md_statement said[2];
	unsigned int news, n_taken[2] = {0};
	const unsigned int n = 200;
	bool now = true; /* which of the two it is known with */

	(void)state;
	for (unsigned int t = 0; t < 2; t++) {
		snprintf(texts[t], sizeof(texts[t]), "rail mlx5_0;");
		for (unsigned int g = 0; g < n; g++)
			snprintf(texts[t] + strlen(texts[t]), sizeof(texts[t]) - strlen(texts[t]), "gid 10.%u.0.%u/24 v2;", t + 1, g + 1);
		peer.generation = t + 1;
		peer.text = texts[t];
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
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
			assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
			if (news & MD_NEWS_DESC) {
				n_taken[wanted]++;
				now = !now;
			}
		}
		assert_in_range(n_taken[wanted], MD_NEW_GIDS_BURST / n, MD_NEW_GIDS_BURST / n + 1);
	}
	assert_true(hosts.n_held_back > 0);
	md_hosts_fini(&hosts);
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
	struct md_probe watched = {.has_host = true};
	struct md_statement said;
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_true(is_due_at_once(&agent, false, false));
	assert_true(agent.publishing.unproven);
	watched.host = host()->id;
	HASH_ADD(hh, agent.prober.probes.by_key, key, sizeof(watched.key), &watched);
	assert_false(is_due_at_once(&agent, true, false));
	said = statement_of(100, 1);
	vouch(&said, 0);
	assert_true(is_due_at_once(&agent, true, false));
	assert_false(agent.publishing.unproven);
	HASH_DEL(agent.prober.probes.by_key, &watched);
	assert_false(is_due_at_once(&agent, true, false));
	assert_true(agent.publishing.unproven);
	assert_true(is_due_at_once(&agent, true, true));
	md_hosts_fini(&hosts);
}

/* A directory that waits because anybody may have brought it about keeps no other one waiting. */
static void test_rationed_wakes_delay_no_others(void **state)
{
	static struct md_agent agent = {.counts.published = 1};
	struct peer peer = {1, 100, 1, 1000, UP};
	unsigned int news;
	uint64_t now_ns;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	do { /* again if there is room meanwhile, after half a second */
		now_ns = md_now();
		agent.publishing.due_ns = UINT64_MAX;
		agent.publishing.wakes.full_at_ns = now_ns + MD_WAKES_BURST * MD_S / MD_WAKES_RATE;
		md_due_heard(&agent, host(), false, false);
	} while (agent.publishing.due_ns < now_ns + MD_S / MD_WAKES_RATE);
	md_due_heard(&agent, host(), false, true);
	assert_true(agent.publishing.due_ns <= md_now() + MD_PUBLISH_DELAY_NS);
	md_hosts_fini(&hosts);
}

/* ---- an agent that meets hosts ----------------------------------------------------------------- */

static struct md_agent met;
static const struct md_options options;

static void on_leaving(void *arg, const struct md_host *leaving)
{
	(void)arg;
	md_gidmap_release(&met.gidmap, &leaving->id, leaving->desc);
}

static void begin_meeting(void)
{
	const struct md_secure_config config = {.host = {{1}}, .start = 1};
	const struct md_keys no_keys = {0};

	memset(&met, 0, sizeof(met));
	met.options = &options;
	met.udp.fd4 = met.udp.fd6 = -1;
	met.hosts.leaving = on_leaving;
	met.watch.view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; gid fe80::1/64 v2;");
	met.watch.view->number = 1;
	assert_int_equal(md_secure_new(&config, &no_keys, md_now(), &met.secure), 0);
	met.trust.on = true;
}

static void end_meeting(void)
{
	md_hosts_fini(&met.hosts);
	md_gidmap_fini(&met.gidmap);
	md_bound_drop_all(&met.trust);
	assert_int_equal(met.trust.n_bound, 0);
	md_pins_fini(&met.trust.pins);
	md_view_free(met.watch.view);
	md_secure_free(met.secure);
}

/* The host says its name and its key, in a statement with its start number. */
static void show(const struct peer *peer, const char *name, const struct md_identity *identity)
{
	struct md_opened opened = {.kind = MD_KIND_IDENTITY, .sender = peers_id(peer->n), .start = peer->start, .on_link = true};
	struct md_statement said = {.host = opened.sender, .start = peer->start, .generation = peer->generation};
	struct md_received received = {.ifindex = 1, .hop_limit = 255};
	unsigned int news;

	if (!md_hosts_find(&met.hosts, &said.host))
		assert_int_equal(peers_hear(&met.hosts, peer, 1, 0, MD_S, &news), 0);
	snprintf(said.name, sizeof(said.name), "%s", name);
	memcpy(said.content, md_hosts_find(&met.hosts, &said.host)->content.hash, sizeof(said.content));
	opened.payload_len = md_statement_sign(&said, identity, opened.payload);
	assert_int_not_equal(opened.payload_len, 0);
	received.ip.s6_addr[15] = (uint8_t)peer->n;
	md_trust_statement(&met, &received, &opened, MD_S);
}

/* Return: NULL: no statement of the host counts. */
static const struct md_vouch *vouch_of(unsigned int n)
{
	struct mv_host_id id = peers_id(n);
	const struct md_host *known = md_hosts_find(&met.hosts, &id);

	return known ? known->vouch : NULL;
}

static bool is_trusted(unsigned int n)
{
	return vouch_of(n) && vouch_of(n)->trust == MD_TRUST_PINNED;
}

static void make_lasting(struct md_identity *identity)
{
	assert_int_equal(md_identity_make(identity), 0);
	identity->lasting = true;
}

static void rotate(struct md_identity *identity)
{
	struct md_identity next;

	assert_int_equal(md_identity_rotate(identity, &next), 0);
	*identity = next;
	identity->lasting = true;
}

/* Host @n is heard on our link, and shows its key. */
static void meet(unsigned int n, struct md_identity *identity, bool rotates)
{
	struct peer peer = {n, 100, 1 + rotates, 5000, UP};
	char name[16];

	if (rotates)
		rotate(identity);
	else
		make_lasting(identity);
	snprintf(name, sizeof(name), "host%u", n);
	show(&peer, name, identity);
	assert_true(is_trusted(n));
}

static enum md_pin_how how_of(const char *name)
{
	enum md_pin_how how = MD_PIN_REVOKED; /* no pin is */

	md_pins_find(&met.trust.pins, name, &how, NULL);
	return how;
}

/* A host that is met when the table is full of names that somebody has made up is noted, and for good once it seals. */
static void test_met_when_full(void **state)
{
	struct mv_host_id id = peers_id(1);
	struct md_identity identity;

	(void)state;
	begin_meeting();
	invent(&met.trust.pins, 0, MD_PINS_MAX);
	meet(1, &identity, false);
	assert_int_equal(how_of("host1"), MD_PIN_UNCONFIRMED);
	/* A rotation proves no more. */
	meet(1, &identity, true);
	assert_int_equal(how_of("host1"), MD_PIN_UNCONFIRMED);
	/* It makes room itself before it has sealed anything. */
	invent(&met.trust.pins, MD_PINS_MAX, MD_PINS_MAX);
	assert_int_equal(how_of("host1"), MD_PIN_REVOKED);
	md_trust_confirmed(&met, &id);
	assert_int_equal(how_of("host1"), MD_PIN_FIRST_CONTACT);
	meet(2, &identity, false);
	id = peers_id(2);
	md_trust_confirmed(&met, &id);
	assert_int_equal(how_of("host2"), MD_PIN_FIRST_CONTACT);
	invent(&met.trust.pins, 2 * MD_PINS_MAX, MD_PINS_MAX);
	assert_int_equal(how_of("host1"), MD_PIN_FIRST_CONTACT);
	assert_int_equal(how_of("host2"), MD_PIN_FIRST_CONTACT);
	meet(2, &identity, true);
	assert_int_equal(how_of("host2"), MD_PIN_ROTATED);
	end_meeting();
}

/* Nor do they, or one that claims ever other host ids, keep its id from being noted. */
static void test_ids_when_full(void **state)
{
	struct md_statement said = {.sign = one};
	struct mv_host_id id = peers_id(1);
	struct md_identity identity;

	(void)state;
	begin_meeting();
	invent(&met.trust.pins, 0, 1000);
	for (unsigned int i = 0; i < MD_PINS_MAX + 100; i++) {
		said.host = peers_id(1000 + i);
		snprintf(said.name, sizeof(said.name), "%s", invented(i));
		md_bound_note(&met.trust, &said, false);
	}
	assert_int_equal(met.trust.n_bound, MD_PINS_MAX);
	snprintf(said.name, sizeof(said.name), "known");
	assert_int_equal(md_pins_set(&met.trust.pins, said.name, &one, MD_PIN_FIRST_CONTACT, 5), 0);
	for (unsigned int i = 0; i < 2 * MD_PINS_MAX; i++) {
		said.host = peers_id(1000000 + i);
		md_bound_note(&met.trust, &said, false);
	}
	assert_true(met.trust.n_bound <= MD_PINS_MAX);
	assert_non_null(md_bound_find(&met.trust, &said.host));
	said.host = peers_id(1000000);
	assert_null(md_bound_find(&met.trust, &said.host));
	meet(1, &identity, false);
	assert_non_null(md_bound_find(&met.trust, &id));
	md_trust_confirmed(&met, &id);
	for (unsigned int i = 0; i < 2 * MD_PINS_MAX; i++) {
		said.host = peers_id(3000000 + i);
		snprintf(said.name, sizeof(said.name), "%s", invented(i));
		md_bound_note(&met.trust, &said, false);
	}
	assert_non_null(md_bound_find(&met.trust, &id));
	end_meeting();
}

/* Is the file written now? Waits until it is. */
static bool saves(sd_event *event, uint64_t now_ns)
{
	bool out;

	md_trust_look(&met, now_ns);
	out = met.trust.save.out;
	while (met.trust.save.out)
		assert_true(sd_event_run(event, UINT64_MAX) >= 0);
	return out;
}

/* Somebody makes up ever other names, also in a full table: the file is not written over and over for that. */
static void test_saved_seldom(void **state)
{
	struct md_pins *saved = &met.trust.pins;
	sd_event *event;

	(void)state;
	begin_meeting();
	met.trust.dir_fd = dir_fd;
	met.trust.save_ns = UINT64_MAX;
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(md_jobs_start(&met.jobs, event), 0);
	invent(saved, 0, MD_PINS_MAX);
	for (unsigned int i = 0; i < 100; i++) {
		invent(saved, MD_PINS_MAX + i, 1);
		assert_false(saved->dirty);
		assert_false(saves(event, (1 + 5 * i) * MD_S));
	}
	/* One that seals is on the disk at once, and the others with it. */
	assert_int_equal(md_pins_confirm(saved, invented(MD_PINS_MAX), &one), 0);
	assert_true(saves(event, 510 * MD_S));
	assert_false(saves(event, 3600 * MD_S));
	invent(saved, 2 * MD_PINS_MAX, 1);
	assert_true(saves(event, 3600 * MD_S));
	invent(saved, 2 * MD_PINS_MAX + 1, 1);
	assert_false(saves(event, 4199 * MD_S));
	assert_true(saves(event, 4200 * MD_S));
	md_jobs_stop(&met.jobs);
	sd_event_unref(event);
	end_meeting();
}

/* ---- a host that has another id after each boot ------------------------------------------------- */

static bool is_bound(unsigned int n)
{
	struct mv_host_id id = peers_id(n);

	return md_bound_find(&met.trust, &id);
}

/* The host has sealed something. */
static void seal(unsigned int n)
{
	struct mv_host_id id = peers_id(n);

	md_trust_confirmed(&met, &id);
}

/* Somebody repeats the statement of a former life: the host's present id stays its own. */
static void test_former_life(void **state)
{
	const struct peer former = {1, 100, 1, 5000, UP}, later = {1, 100, 2, 5000, UP}, present = {2, 200, 1, 5000, UP},
			  next = {3, 300, 1, 5000, UP};
	struct md_identity identity, foreign;

	(void)state;
	begin_meeting();
	make_lasting(&identity);
	make_lasting(&foreign);
	show(&former, "h", &identity);
	show(&present, "h", &identity);
	assert_true(is_trusted(2) && is_bound(2) && !is_bound(1));
	show(&later, "h", &identity);
	assert_true(is_bound(2) && !is_bound(1));
	seal(2);
	/* It falls silent, so it may have booted with its clock set back. That has to seal, too. */
	md_hosts_fini(&met.hosts);
	show(&former, "h", &identity);
	assert_true(is_trusted(1) && is_bound(2));
	show(&present, "other", &foreign);
	assert_false(is_trusted(2));
	assert_int_equal(vouch_of(2)->trust, MD_TRUST_CHANGED);
	seal(1);
	assert_true(is_bound(1) && !is_bound(2));
	/* The next boot. */
	show(&next, "h", &identity);
	assert_true(is_trusted(3) && is_bound(1));
	seal(3);
	assert_true(is_bound(3) && !is_bound(1));
	show(&present, "h", &identity);
	assert_false(is_trusted(2));
	end_meeting();
}

/* ... before the host has sealed anything, and before its former life was heard. */
static void test_former_life_first(void **state)
{
	const struct peer former = {1, 100, 1, 5000, UP}, present = {2, 200, 1, 5000, UP};
	struct md_identity identity;

	(void)state;
	begin_meeting();
	make_lasting(&identity);
	show(&present, "h", &identity);
	show(&former, "h", &identity);
	assert_true(is_trusted(2) && is_bound(2));
	assert_false(is_trusted(1));
	end_meeting();
}

static bool holds(unsigned int n)
{
	struct mv_host_id id = peers_id(n);
	union ibv_gid gid = unit_gid("10.1.0.2");

	return md_gidmap_holds(&met.gidmap, &id, &gid);
}

/* Somebody repeats beacons of the former life, so that it seems to be heard: the host's GIDs go with the host. */
static void test_gids_of_former_life(void **state)
{
	struct peer first = {1, 100, 1, 60000, UP}, second = {2, 200, 1, 5000, UP}, third = {3, 300, 1, 5000, UP};
	struct md_identity identity;
	unsigned int news;

	(void)state;
	begin_meeting();
	make_lasting(&identity);
	show(&first, "host1", &identity);
	assert_true(holds(1));
	/* Neither has sealed anything. */
	show(&second, "host1", &identity);
	assert_true(holds(2));
	assert_null(vouch_of(1));
	/* One that has sealed gives way to one that seals. */
	seal(2);
	show(&third, "host1", &identity);
	assert_true(holds(2));
	seal(3);
	assert_true(holds(3));
	assert_null(vouch_of(2));
	assert_int_equal(peers_hear(&met.hosts, &first, 1, 0, 2 * MD_S, &news), 0);
	show(&first, "host1", &identity);
	assert_null(vouch_of(1));
	met.gidmap.unsettled = true;
	md_gidmap_settle(&met.gidmap, &met.hosts, met.watch.view, &met.targets);
	assert_true(holds(3));
	end_meeting();
}

/* Somebody goes on with repeated beacons. Does the host @n keep the GIDs? */
static bool keeps(unsigned int n, const struct peer *replayed)
{
	unsigned int news;

	peers_hear(&met.hosts, replayed, 1, 0, 2 * MD_S, &news);
	met.gidmap.unsettled = met.gidmap.other_ground = true;
	md_gidmap_settle(&met.gidmap, &met.hosts, met.watch.view, &met.targets);
	return holds(n);
}

/*
 * The host boots, so its present id expires. Meanwhile somebody repeats statements and beacons of boots before the last one:
 * their ids have the GIDs until the host seals under its new id, or is heard under its present one.
 */
static void test_gids_of_older_lives(void **state)
{
	struct peer first = {1, 100, 1, 60000, UP}, second = {2, 200, 1, 60000, UP}, third = {3, 300, 1, 5000, UP},
		    fourth = {4, 400, 1, 5000, UP};
	struct mv_host_id third_id = peers_id(3);
	struct md_identity identity;

	(void)state;
	begin_meeting();
	make_lasting(&identity);
	show(&third, "host1", &identity);
	seal(3);
	md_hosts_forget(&met.hosts, &third_id);
	show(&first, "host1", &identity);
	show(&second, "host1", &identity);
	assert_true(is_trusted(1) && holds(1) && is_bound(3));
	show(&fourth, "host1", &identity);
	assert_true(holds(1));
	seal(4);
	assert_true(is_bound(4) && holds(4));
	assert_null(vouch_of(1));
	assert_null(vouch_of(2));
	assert_true(keeps(4, &first));
	end_meeting();
}

/* It was only silent for a while, and has its id still. */
static void test_gids_after_silence(void **state)
{
	struct peer first = {1, 100, 1, 60000, UP}, second = {2, 200, 1, 5000, UP}, next = {3, 300, 1, 60000, UP};
	struct mv_host_id second_id = peers_id(2);
	struct md_identity identity;

	(void)state;
	begin_meeting();
	make_lasting(&identity);
	show(&second, "host1", &identity);
	seal(2);
	md_hosts_forget(&met.hosts, &second_id);
	show(&first, "host1", &identity);
	show(&next, "host1", &identity); /* made while its clock was ahead */
	assert_true(holds(1));
	show(&second, "host1", &identity);
	assert_true(is_trusted(3));
	assert_null(vouch_of(1));
	seal(2);
	assert_true(is_bound(2) && holds(2));
	assert_null(vouch_of(3));
	assert_true(keeps(2, &first));
	end_meeting();
}

/* The host had its key rotated while it was down, once or twice: it is the host of the former id all the same. */
static void test_rotated_while_down(void **state)
{
	const struct peer first = {1, 100, 1, 60000, UP}, second = {2, 200, 1, 60000, UP}, third = {3, 300, 1, 5000, UP};
	struct md_identity identity, foreign;

	(void)state;
	for (unsigned int seals = 0; seals < 2; seals++) {
		begin_meeting();
		make_lasting(&identity);
		show(&first, "host1", &identity);
		if (seals)
			seal(1);
		rotate(&identity);
		show(&second, "host1", &identity);
		assert_true(is_trusted(2) && is_bound(seals ? 1 : 2) && holds(seals ? 1 : 2));
		rotate(&identity);
		show(&third, "host1", &identity);
		assert_true(is_trusted(3) && is_bound(seals ? 1 : 3) && holds(seals ? 1 : 3));
		/* Nobody else has the id meanwhile. */
		make_lasting(&foreign);
		show(&(const struct peer){seals ? 1 : 3, 900, 1, 60000, UP}, "other", &foreign);
		assert_false(strcmp(vouch_of(seals ? 1 : 3)->said.name, "host1"));
		seal(3);
		assert_true(is_bound(3) && holds(3));
		assert_null(vouch_of(1));
		assert_null(vouch_of(2));
		assert_true(keeps(3, &first));
		end_meeting();
	}
}

/* ... and with its clock set back, so its statement counts once the former id is silent. */
static void test_rotated_with_clock_set_back(void **state)
{
	const struct peer first = {1, 300, 1, 60000, UP}, second = {2, 200, 1, 5000, UP};
	struct mv_host_id first_id = peers_id(1);
	struct md_identity identity;

	(void)state;
	begin_meeting();
	make_lasting(&identity);
	show(&first, "host1", &identity);
	seal(1);
	rotate(&identity);
	show(&second, "host1", &identity);
	assert_false(is_trusted(2));
	md_hosts_forget(&met.hosts, &first_id);
	show(&second, "host1", &identity);
	assert_true(is_trusted(2) && is_bound(1));
	seal(2);
	assert_true(is_bound(2) && holds(2));
	end_meeting();
}

/* The hosts file has the former key: the id is the host's own, with either key. */
static void test_rotated_with_key_of_file(void **state)
{
	const struct peer first = {1, 100, 1, 60000, UP}, later = {1, 100, 2, 60000, UP}, second = {2, 200, 1, 5000, UP};
	struct md_identity identity;

	(void)state;
	begin_meeting();
	make_lasting(&identity);
	assert_int_equal(md_pins_set_file(&met.trust.pins, "host1", &identity.sign), 0);
	show(&first, "host1", &identity);
	seal(1);
	rotate(&identity);
	show(&later, "host1", &identity);
	assert_true(is_trusted(1) && is_bound(1));
	show(&second, "host1", &identity);
	assert_true(is_trusted(2) && is_bound(1));
	seal(2);
	assert_true(is_bound(2) && holds(2));
	assert_null(vouch_of(1));
	end_meeting();
}

/* Notes, and hosts, come and go in any order. */
static void test_lives_come_and_go(void **state)
{
	struct md_identity identity, foreign;
	struct mv_host_id id;

	(void)state;
	srandom(1);
	begin_meeting();
	make_lasting(&identity);
	make_lasting(&foreign);
	for (unsigned int i = 0; i < 1000; i++) {
		const unsigned int n = 1 + (unsigned int)random() % 8;
		const struct peer peer = {n, 100 + i, 1, 5000, UP};

		id = peers_id(n);
		if (random() % 4 == 0)
			seal(n);
		else if (random() % 4 == 0)
			md_hosts_forget(&met.hosts, &id);
		else if (random() % 16 == 0)
			md_bound_drop_all(&met.trust);
		else if (random() % 16 == 0)
			rotate(&identity);
		else
			show(&peer, random() % 4 ? "host1" : "host2", random() % 8 ? &identity : &foreign);
	}
	end_meeting();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_precedence), TEST(test_revoked),	 TEST(test_file),
		TEST(test_bad_lines),  TEST(test_revoked_and_pinned), TEST(test_forged_beacons), TEST(test_forged_before),
		TEST(test_next_statement_first),
		TEST(test_signed_changes), TEST(test_signed_gids), TEST(test_signed_wakes), TEST(test_rationed_wakes_delay_no_others),
		TEST(test_full), TEST(test_unconfirmed_file), TEST(test_met_when_full), TEST(test_ids_when_full),
		TEST(test_former_life), TEST(test_former_life_first), TEST(test_gids_of_former_life), TEST(test_rotated_while_down),
		TEST(test_rotated_with_clock_set_back), TEST(test_rotated_with_key_of_file),
		TEST(test_gids_of_older_lives), TEST(test_gids_after_silence), TEST(test_lives_come_and_go), TEST(test_saved_seldom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
