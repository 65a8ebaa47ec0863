/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Paths that processes watch: which accounts want a path's host, and which host is a witness. */
#include "unit.h"

#include <string.h>

#include "hostsint.h"
#include "oneagent.h"
#include "paths.h"
#include "peers.h"

/* @multiplier: probe_multiplier */
static void begin_watching(struct md_options *options, uint32_t multiplier)
{
	begin_agent();
	md_msg_router_init(&agent);
	*options = (struct md_options){.config = {.probe_interval_ms = 100, .probe_multiplier = multiplier}};
	agent.options = options;
	md_prober_init(&agent);
}

static void end_watching(struct md_probe_watch_list *watches, size_t n)
{
	for (size_t i = 0; i < n; i++)
		md_probes_drop(&agent.prober.probes, &watches[i]);
	md_msg_relay_fini(&agent.msg_router.relay);
	end_agent();
}

/* Process @client of an account watches the path from @local to the first GID of the host. */
static struct md_probe *watch(const char *local, const struct md_host *host, uint64_t client, uint64_t account,
			      struct md_probe_watch_list *list)
{
	const struct md_probe_key path = {.local = unit_gid(local), .remote = host->desc->gids[0].gid};

	assert_int_equal(md_probes_watch(&agent.prober.probes, &path, MV_WATCH_WORK, client, account, list, md_now()), 0);
	return md_probes_find(&agent.prober.probes, &path);
}

/* The host answers there. */
static void is_up(struct md_probe *probe, const struct md_host *host)
{
	probe->state = MV_PROBED_UP;
	md_probe_set_host(&agent.prober.probes, probe, &host->id);
}

/* How many accounts want the host. */
static int n_wanters(const struct md_host *host)
{
	return __builtin_popcount(md_host_wanters(host));
}

/* What a process sends makes the host one that its account wants, and so do paths that it watches. */
static void test_who_wants(void **state)
{
	const struct mv_ctl_msg msg = {.type = MV_CTL_HELLO};
	struct md_account accounts[2] = {{.id = MALLORY}, {.id = VICTIM}};
	struct md_probe_watch_list watches[2] = {{.n = 0}};
	struct md_client client = {.number = 1};
	const uint8_t data[8] = {0};
	struct md_options options;
	struct md_host *hosts[2];

	(void)state;
	begin_watching(&options, 0);
	for (unsigned int i = 0; i < 2; i++) {
		hosts[i] = add_holder(1 + i);
		client.account = &accounts[i];
		assert_int_equal(agent.clients.ops->send(&agent, &client, &hosts[i]->desc->gids[0].gid, &msg, data, sizeof(data)), 0);
	}
	for (unsigned int w = 0; w < MD_WANTERS; w++)
		assert_int_equal(agent.hosts.wanters[w].n, w == 1 || w == 2);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(agent.hosts.wanters[hosts[i]->wanted.charged].account, accounts[i].id);
	for (unsigned int i = 0; i < 2; i++)
		is_up(watch("fe80::1", hosts[1], 1 + i, accounts[i].id, &watches[i]), hosts[1]);
	md_cookie_refresh_look(&agent, md_now());
	assert_int_equal(n_wanters(hosts[0]), 1);
	assert_int_equal(n_wanters(hosts[1]), 2);
	end_watching(watches, 2);
}

/* Two accounts watch a path each to one host: both want the host, also while its cookies need no renewal. */
static void test_watchers_of_different_paths(void **state)
{
	struct md_probe_watch_list watches[2] = {{.n = 0}};
	struct md_options options;
	struct md_host *host;

	(void)state;
	begin_watching(&options, 0);
	host = add_holder(1);
	is_up(watch("fe80::1", host, 1, MALLORY, &watches[0]), host);
	is_up(watch("fe80::2", host, 2, VICTIM, &watches[1]), host);
	md_cookie_refresh_look(&agent, md_now());
	assert_true(host->renew_ns > md_now());
	assert_int_equal(n_wanters(host), 2);
	end_watching(watches, 2);
}

/* How many of the accounts that watch a path to the host are looked at. */
static int n_looked_at(struct md_host *host)
{
	md_hosts_unwant(&agent.hosts, host);
	md_hosts_want(&agent.hosts, host, 0); /* the agent's own account */
	md_cookie_refresh_look(&agent, md_now());
	return n_wanters(host) - 1;
}

/* A thousand processes may watch a path, so they are not looked at in each look; a new account is. */
static void test_watchers_are_looked_at_seldom(void **state)
{
	struct md_probe_watch_list watches[3] = {{.n = 0}};
	struct md_options options;
	struct md_host *host;

	(void)state;
	begin_watching(&options, 0);
	host = add_holder(1);
	is_up(watch("fe80::1", host, 1, MALLORY, &watches[0]), host);
	assert_int_equal(n_looked_at(host), 1);
	assert_int_equal(n_looked_at(host), 0);
	/* A further process of the account is nothing new. */
	watch("fe80::1", host, 2, MALLORY, &watches[1]);
	assert_int_equal(n_looked_at(host), 0);
	watch("fe80::1", host, 3, VICTIM, &watches[2]);
	assert_int_equal(n_looked_at(host), 2);
	assert_int_equal(n_looked_at(host), 0);
	clock_ns += MD_COOKIE_EPOCH_NS;
	assert_int_equal(n_looked_at(host), 2);
	/* A host that nobody wants is another one since the last look. */
	md_hosts_unwant(&agent.hosts, host);
	md_cookie_refresh_look(&agent, md_now());
	assert_int_equal(n_wanters(host), 2);
	end_watching(watches, 3);
}

/* An echo of the host @n from fe80::@from over a path to that address, which a process watches. */
static void echo_from(unsigned int n, const struct md_probe *probe)
{
	const struct md_probe_wire wire = {.nonce = probe->nonce, .number = probe->number};
	struct md_received received = {
		.ip = md_paths_ip(&probe->key.remote), .to = md_paths_ip(&probe->key.local), .ifindex = 1};
	struct md_opened opened = {.kind = MD_KIND_ECHO, .sender = peers_id(n)};

	opened.payload_len = md_probe_encode(&wire, opened.payload);
	md_prober_echo(&agent, &received, &opened);
}

/* A neighbour answers over a path to himself in the name of a host that does not run: no witness against its paths. */
static void test_witness_in_anothers_name(void **state)
{
	struct md_probe_watch_list watches = {.n = 0};
	struct md_probe *probes[2];
	struct md_options options;
	struct mv_host_id id;

	(void)state;
	begin_watching(&options, 3);
	for (unsigned int i = 0; i < 2; i++)
		probes[i] = watch("fe80::1", add_holder(1 + i), 1, MALLORY, &watches);
	for (unsigned int i = 0; i < 100; i++) {
		clock_ns += 25 * MD_MS;
		md_probes_tick(&agent.prober.probes, true, 0, md_now());
		if (i < 10)
			echo_from(1, probes[0]);
		echo_from(1, probes[1]);
	}
	assert_int_not_equal(probes[0]->state, MV_PROBED_DOWN);
	assert_int_equal(probes[1]->state, MV_PROBED_UP); /* it does carry packets */
	/* The host that has the address is one. */
	id = peers_id(2);
	for (unsigned int n = 2; n > 0; n--) {
		probes[1]->number++;
		echo_from(n, probes[1]);
		assert_true(md_probe_leads_to(probes[1], &id));
	}
	end_watching(&watches, 1);
}

enum { ROUTED = 60, NEIGHBOUR = 255 };

/* Is a probe refused that arrives by a link? */
static bool is_refused(uint32_t ifindex, int hop_limit)
{
	const struct md_probe_wire wire = {.nonce = 1, .number = 1};
	const union ibv_gid from = unit_gid("10.3.0.1"), to = unit_gid("10.3.0.2");
	const struct md_received received = {
		.ip = md_paths_ip(&from), .to = md_paths_ip(&to), .ifindex = ifindex, .hop_limit = hop_limit};
	struct md_opened opened = {.kind = MD_KIND_PROBE, .sender = peers_id(1)};
	uint64_t before = agent.counts.probes.refused;

	opened.payload_len = md_probe_encode(&wire, opened.payload);
	md_prober_probe(&agent, &received, &opened);
	return agent.counts.probes.refused > before;
}

/* More probes on a link than are answered: those of other links are answered, so their paths are not found dead. */
static void test_echoes_of_another_link(void **state)
{
	struct md_options options;
	unsigned int n = 0;

	(void)state;
	begin_watching(&options, 3);
	while (n < 2 * MD_ECHOES_PER_S && !is_refused(1, NEIGHBOUR))
		n++;
	assert_in_range(n, MD_ECHOES_PER_S / 20, MD_ECHOES_PER_S / 5);
	assert_false(is_refused(2, NEIGHBOUR));
	assert_true(is_refused(1, NEIGHBOUR));
	/* There may be routers between all hosts. Who is beyond one keeps out nobody on the other links, and no neighbour. */
	assert_false(is_refused(1, ROUTED));
	for (unsigned int i = 0; i < 2 * MD_ECHOES_PER_S && !is_refused(2, ROUTED); i++)
		;
	assert_true(is_refused(2, ROUTED));
	assert_false(is_refused(1, ROUTED));
	assert_false(is_refused(2, NEIGHBOUR));
	/* All links together do not take all of the processor. */
	for (uint32_t ifindex = 3; ifindex < 20; ifindex++)
		while (!is_refused(ifindex, NEIGHBOUR))
			n++;
	assert_in_range(n, 1, MD_LINKS_TOGETHER * MD_ECHOES_PER_S / 5);
	clock_ns += MD_S / 100;
	assert_false(is_refused(1, NEIGHBOUR));
	end_watching(NULL, 0);
}

/* A host whose probes have us probe at once, again and again, does not have all paths looked at each time. */
static void test_ticks_without_end(void **state)
{
	struct md_probe_watch_list watches = {.n = 0};
	struct md_probe_key path = {.local = unit_gid("10.1.0.1"), .remote = unit_gid("10.1.0.0")};
	struct md_options options;
	uint64_t begun_ns, n_ticks = 0;

	(void)state;
	begin_watching(&options, 3);
	for (unsigned int i = 0; i < MD_WATCHES_PER_CLIENT; i++) {
		path.remote.raw[14] = (uint8_t)(i >> 8);
		path.remote.raw[15] = (uint8_t)i;
		assert_int_equal(
			md_probes_watch(&agent.prober.probes, &path, MV_WATCH_WORK, 1, MALLORY, &watches, md_now()), 0);
	}
	for (begun_ns = clock_ns; clock_ns < begun_ns + MD_S; clock_ns += 50000) {
		agent.prober.probes.next_ns = clock_ns;
		if (md_prober_next(&agent) > md_now())
			continue;
		md_prober_tick(&agent);
		n_ticks++;
	}
	assert_in_range(n_ticks, 1, MD_S / (MD_WATCHES_PER_CLIENT * MD_PROBES_EACH_NS) + 1);
	end_watching(&watches, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_wants),
		cmocka_unit_test(test_watchers_of_different_paths),
		cmocka_unit_test(test_watchers_are_looked_at_seldom),
		cmocka_unit_test(test_ticks_without_end),
		cmocka_unit_test(test_witness_in_anothers_name),
		cmocka_unit_test(test_echoes_of_another_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
