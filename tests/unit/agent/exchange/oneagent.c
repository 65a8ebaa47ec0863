/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "oneagent.h"

#include <stdio.h>
#include <string.h>

#include "bundle_wire.h"
#include "peers.h"

struct md_agent agent;
uint64_t clock_ns = 1000 * MD_S;
uint64_t last_id;

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
	md_gidmap_fini(&agent.gidmap);
	md_targets_fini(&agent.targets);
	md_view_free(agent.watch.view);
	md_secure_free(agent.secure);
}

int setup_agent(void **state)
{
	(void)state;
	begin_agent();
	return 0;
}

int teardown_agent(void **state)
{
	(void)state;
	end_agent();
	return 0;
}

struct md_host *add_host(unsigned int n)
{
	const struct peer peer = {n, 1, 1, 5000, "rail mlx5_0; gid 10.3.0.1/28 v2;"};
	const struct mv_host_id id = peers_id(n);
	struct md_host *host;
	unsigned int changed;

	assert_int_equal(peers_hear(&agent.hosts, &peer, 1, 0, MD_S, &changed), 0);
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
	unsigned int changed;

	snprintf(text, sizeof(text), "rail mlx5_0; gid 10.3.0.%u/24 v2;", n);
	peer.text = text;
	assert_int_equal(peers_hear(&agent.hosts, &peer, 1, 0, MD_S, &changed), 0);
	host = md_hosts_find(&agent.hosts, &id);
	md_gidmap_claim(&agent.gidmap, host, agent.watch.view, &agent.targets);
	return host;
}

size_t make_bundle(uint8_t *buf, unsigned int n)
{
	static const uint8_t none[8];
	struct md_envelope envelope = {.op = MD_MSG_DATA, .len = sizeof(none), .data = none};
	struct md_bundle_writer w;

	md_bundle_begin(&w, buf, MD_MSG_DATA, 0);
	for (envelope.id = 1; envelope.id <= n; envelope.id++)
		assert_true(md_bundle_add(&w, &envelope));
	return md_bundle_end(&w, (uint16_t)n);
}

void from_host(const struct md_host *host, struct md_received *received, struct md_opened *opened)
{
	*received = (struct md_received){.ip = host->sightings.list[0].ip, .ifindex = 1};
	opened->sender = host->id;
	opened->start = host->start;
}

bool is_answered(const struct md_host *host, uint32_t group)
{
	struct md_opened opened = {.kind = MD_KIND_QUERY, .group = group};
	uint64_t before = agent.counts.queries.refused;
	struct md_received received;

	from_host(host, &received, &opened);
	md_tx_entry(&agent, &received, &opened);
	return agent.counts.queries.refused == before;
}

bool is_taken(const struct md_received *received, const struct md_opened *opened)
{
	uint64_t before = agent.counts.messages.throttled;

	md_msg_router_bundle(&agent, received, opened);
	return agent.counts.messages.throttled == before;
}

bool takes(const struct md_host *host, uint32_t ifindex, uint32_t qpn, uint32_t to_attempt,
	   uint64_t id)
{
	const struct mv_ctl_msg msg = {.type = MV_CTL_HELLO,
				       .gid_type = MV_GID_TYPE_ROCE_V2,
				       .from_psn = MV_CTL_PSN_NONE,
				       .to_psn = MV_CTL_PSN_NONE,
				       .attempt = 1,
				       .to_attempt = to_attempt,
				       .from = {.gid = host->desc->gids[0].gid, .qpn = 5},
				       .to = {.gid = unit_gid("fe80::1"), .qpn = qpn}};
	struct md_opened opened = {
		.kind = MD_KIND_MESSAGE, .sealed = true, .sender = host->id, .start = host->start};
	const struct md_received received = {
		.ip = host->sightings.list[0].ip, .ifindex = ifindex, .hop_limit = 255};
	uint64_t throttled = agent.counts.messages.throttled;
	uint8_t data[MV_CTL_MAX_BYTES];
	struct md_envelope envelope = {.op = MD_MSG_DATA, .id = id, .data = data};

	envelope.len = (uint16_t)mv_ctl_encode(&msg, data);
	opened.payload_len = md_envelope_encode(&envelope, opened.payload);
	md_msg_router_message(&agent, &received, &opened);
	return agent.counts.messages.throttled == throttled;
}

bool takes_message(const struct md_host *host, uint32_t ifindex, uint32_t qpn, uint32_t to_attempt)
{
	return takes(host, ifindex, qpn, to_attempt, ++last_id);
}

uint64_t n_datagrams(void)
{
	return agent.counts.datagrams.sent + agent.counts.datagrams.failed +
	       agent.counts.datagrams.held;
}
