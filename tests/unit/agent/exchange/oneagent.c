/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "oneagent.h"

#include <stdio.h>
#include <string.h>

#include "peers.h"

struct md_agent agent;
uint64_t clock_ns = 1000 * MD_S;

static const struct md_options options;

uint64_t __wrap_md_now(void);
uint64_t __wrap_md_now(void)
{
	return clock_ns;
}

void begin_agent(void)
{
	const struct md_secure_config secure = {.host = {{1}}, .start = 1};
	const struct md_keys no_keys = {0};

	memset(&agent, 0, sizeof(agent));
	agent.options = &options;
	agent.udp.fd4 = agent.udp.fd6 = -1;
	agent.watch.view = peers_view("rail mlx5_0; gid fe80::1/64 v2;");
	assert_int_equal(md_secure_new(&secure, &no_keys, md_now(), &agent.secure), 0);
}

void end_agent(void)
{
	md_hosts_fini(&agent.hosts);
	md_view_free(agent.watch.view);
	md_secure_free(agent.secure);
}

struct md_host *add_host(unsigned int n)
{
	const struct peer peer = {n, 1, 1, 5000, "rail mlx5_0; gid 10.3.0.1/28 v2;"};
	const struct mv_host_id id = peers_id(n);
	struct md_host *host;
	unsigned int news;

	assert_int_equal(peers_hear(&agent.hosts, &peer, 1, 0, MD_S, &news), 0);
	host = md_hosts_find(&agent.hosts, &id);
	assert_non_null(host);
	md_unproven_came(host, MD_PAYLOAD_MAX_BYTES);
	return host;
}

struct md_host *add_holder(unsigned int n)
{
	struct peer peer = {n, 1, 1, 5000, NULL};
	const struct mv_host_id id = peers_id(n);
	char text[80];
	struct md_host *host;
	unsigned int news;

	snprintf(text, sizeof(text), "rail mlx5_0; gid 10.3.0.%u/24 v2;", n);
	peer.text = text;
	assert_int_equal(peers_hear(&agent.hosts, &peer, 1, 0, MD_S, &news), 0);
	host = md_hosts_find(&agent.hosts, &id);
	md_gidmap_claim(&agent.gidmap, host, agent.watch.view, &agent.targets);
	return host;
}
