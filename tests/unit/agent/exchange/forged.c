/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "forged.h"

#include <stdlib.h>
#include <string.h>

#include "peers.h"

static const struct md_options options;
struct md_agent agent;
struct md_secure *forger;
static struct md_identity ours, theirs;
uint64_t clock_ns;

struct md_received next;
bool is_next;
struct sent sent;
size_t came_bytes;

uint64_t __wrap_md_now(void);
uint64_t __wrap_md_now(void)
{
	return clock_ns;
}

int __wrap_md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret);
int __wrap_md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret)
{
	(void)udp;
	(void)fd;
	if (!is_next)
		return -EAGAIN;
	is_next = false;
	*ret = next;
	return 0;
}

int __wrap_md_udp_send(const struct md_udp *udp, const struct in6_addr *to, uint16_t port, uint32_t ifindex,
		       const struct in6_addr *from, const void *bytes, size_t len);
int __wrap_md_udp_send(const struct md_udp *udp, const struct in6_addr *to, uint16_t port, uint32_t ifindex,
		       const struct in6_addr *from, const void *bytes, size_t len)
{
	(void)udp;
	(void)port;
	(void)from;
	if (md_udp_is_multicast(to))
		return 0;
	sent.of_net[ifindex]++;
	sent.n++;
	sent.bytes += len;
	sent.of_kind[((const uint8_t *)bytes)[5]]++;
	sent.longest = len > sent.longest ? len : sent.longest;
	memcpy(sent.last, bytes, len);
	sent.last_len = len;
	return 0;
}

unsigned int waiting_pct;

unsigned int __wrap_md_udp_waiting(const struct md_udp *udp, bool ipv6);
unsigned int __wrap_md_udp_waiting(const struct md_udp *udp, bool ipv6)
{
	(void)udp;
	(void)ipv6;
	return waiting_pct;
}

static uint32_t no_random(uint32_t below)
{
	return below - 1;
}

void begin(const char *name, size_t n_heard)
{
	const struct md_secure_config config = {.host = {{0xaa}}, .start = 1}, other = {.host = {{0xbb}}, .start = 1};

	memset(&agent, 0, sizeof(agent));
	memset(&sent, 0, sizeof(sent));
	came_bytes = waiting_pct = 0;
	clock_ns = 1000 * MD_S;
	agent.options = &options;
	agent.udp.fd4 = agent.udp.fd6 = 0;
	agent.self.id = agent.hosts.self = config.host;
	agent.self.start = 1;
	strcpy(agent.self.name, name);
	agent.watch.view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; gid fe80::1/64 v2;");
	assert_int_equal(md_secure_new(&config, NULL, clock_ns, &agent.secure), 0);
	assert_int_equal(md_secure_new(&other, NULL, clock_ns, &forger), 0);
	assert_int_equal(md_identity_make(&ours), 0);
	assert_int_equal(md_identity_make(&theirs), 0);
	agent.trust.on = true;
	agent.trust.identity = ours;
	md_secure_identity(agent.secure, &ours);
	agent.tx.announce.random = no_random;
	agent.tx.announce.n = 1;
	agent.tx.announce.outlets[0] =
		(struct md_outlet){.ifindex = NET, .interval_ms = 1000, .n_heard = n_heard, .next_ns = UINT64_MAX};
	md_tx_describe(&agent, false);
	assert_int_not_equal(agent.trust.statement_len, 0);
}

void end(void)
{
	md_hosts_fini(&agent.hosts);
	md_gidmap_fini(&agent.gidmap);
	md_bound_drop_all(&agent.trust);
	md_pins_fini(&agent.trust.pins);
	md_view_free(agent.watch.view);
	md_secure_free(agent.secure);
	md_secure_free(forger);
}

struct in6_addr address(uint32_t n)
{
	struct in6_addr ip = {.s6_addr = {0xfe, 0x80}};

	memcpy(&ip.s6_addr[12], &n, sizeof(n));
	return ip;
}

uint32_t arrives_on = NET;

void arrive(enum md_kind kind, unsigned int n, uint32_t at, bool multicast, const void *payload, size_t len)
{
	const struct mv_host_id id = peers_id(n);
	const struct in6_addr ours_ip = address(0xffff);
	struct md_addr to = md_tx_addr(&ours_ip, 0, arrives_on);

	next = (struct md_received){.ip = address(at),
				    .to = multicast ? md_udp_group(true) : ours_ip,
				    .ifindex = arrives_on,
				    .hop_limit = 255};
	next.len = md_seal(forger, kind, kind == MD_KIND_BEACON ? NULL : &to, arrives_on, payload, len, clock_ns,
			   next.bytes);
	memcpy(next.bytes + MD_HEADER_SENDER_AT, &id, sizeof(id));
	came_bytes += next.len;
	is_next = true;
	md_rx_drain(&agent);
}

uint16_t from_rail;
uint64_t generation = 1;

void beacon(unsigned int n, uint32_t at, const char *desc)
{
	struct md_beacon said = {.name = "h",
				 .agent_version = 1,
				 .interval_ms = 60000,
				 .generation = generation,
				 .desc_bytes = 100,
				 .rail = from_rail};
	uint8_t bytes[MD_DESC_BYTES_MAX], payload[MD_PAYLOAD_MAX_BYTES];
	struct md_desc *parsed;

	if (desc) {
		parsed = peers_desc(desc);
		said.desc_bytes = (uint32_t)md_desc_encode(parsed, bytes);
		free(parsed);
	}
	md_beacon_cut(&said, bytes, desc ? 0 : MD_NO_PIECE);
	arrive(MD_KIND_BEACON, n, at, true, payload, md_beacon_encode(&said, payload));
}

void beacon_on(uint32_t ifindex, unsigned int n, uint32_t at, const char *desc)
{
	arrives_on = ifindex;
	beacon(n, at, desc);
	arrives_on = NET;
}

void use_two_links(void)
{
	md_view_free(agent.watch.view);
	agent.watch.view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2;");
}

void statement(unsigned int n, uint32_t at, bool asks, bool multicast)
{
	struct md_statement said = {.host = peers_id(n), .start = 1, .generation = 1, .name = "h"};
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	size_t len = md_statement_sign(&said, &theirs, payload);

	md_statement_ask(payload, asks);
	arrive(MD_KIND_IDENTITY, n, at, multicast, payload, len);
}
