/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "knownhosts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "peers.h"

struct tmpdir dir;
int dir_fd;
struct md_pins pins;
const struct md_public one = {{1}}, two = {{2}};
struct md_agent met;

static const struct md_options options;

int pins_setup(void **state)
{
	(void)state;
	umask(022);
	tmpdir_make(&dir);
	dir_fd = open(dir.path, O_RDONLY | O_DIRECTORY);
	assert_true(dir_fd >= 0);
	return 0;
}

int pins_teardown(void **state)
{
	(void)state;
	md_pins_fini(&pins);
	close(dir_fd);
	tmpdir_remove(&dir);
	return 0;
}

bool is_pinned(const char *name, const struct md_public *key)
{
	const struct md_public *found = md_pins_find(&pins, name, NULL, NULL);

	return found && md_public_is(found, key);
}

static void on_leaving(void *arg, const struct md_host *leaving)
{
	(void)arg;
	md_gidmap_release(&met.gidmap, &leaving->id, leaving->desc);
}

int meeting_setup(void **state)
{
	const struct md_secure_config config = {.host = {{1}}, .start = 1};
	const struct md_keys no_keys = {0};

	(void)state;
	memset(&met, 0, sizeof(met));
	met.options = &options;
	met.udp.fd4 = met.udp.fd6 = -1;
	met.hosts.leaving = on_leaving;
	met.watch.view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; gid fe80::1/64 v2;");
	met.watch.view->number = 1;
	assert_int_equal(md_secure_new(&config, &no_keys, md_now(), &met.secure), 0);
	met.trust.on = true;
	return 0;
}

int meeting_teardown(void **state)
{
	(void)state;
	md_hosts_fini(&met.hosts);
	md_gidmap_fini(&met.gidmap);
	md_bound_drop_all(&met.trust);
	assert_int_equal(met.trust.n_bound, 0);
	md_pins_fini(&met.trust.pins);
	md_view_free(met.watch.view);
	md_secure_free(met.secure);
	return 0;
}

void show(const struct peer *peer, const char *name, const struct md_identity *identity)
{
	struct md_opened opened = {.kind = MD_KIND_IDENTITY,
				   .sender = peers_id(peer->n),
				   .start = peer->start,
				   .on_link = true};
	struct md_statement said = {
		.host = opened.sender, .start = peer->start, .generation = peer->generation};
	struct md_received received = {.ifindex = 1, .hop_limit = 255};
	unsigned int changed;

	if (!md_hosts_find(&met.hosts, &said.host))
		assert_int_equal(peers_hear(&met.hosts, peer, 1, 0, MD_S, &changed), 0);
	snprintf(said.name, sizeof(said.name), "%s", name);
	memcpy(said.content, md_hosts_find(&met.hosts, &said.host)->content.hash,
	       sizeof(said.content));
	opened.payload_len = md_statement_sign(&said, identity, opened.payload);
	assert_int_not_equal(opened.payload_len, 0);
	received.ip.s6_addr[15] = (uint8_t)peer->n;
	md_trust_statement(&met, &received, &opened, MD_S);
}

const struct md_vouch *vouch_of(unsigned int n)
{
	struct mv_host_id id = peers_id(n);
	const struct md_host *known = md_hosts_find(&met.hosts, &id);

	return known ? known->vouch : NULL;
}

bool is_trusted(unsigned int n)
{
	return vouch_of(n) && vouch_of(n)->trust == MD_TRUST_PINNED;
}

void make_lasting(struct md_identity *identity)
{
	assert_int_equal(md_identity_make(identity), 0);
	identity->lasting = true;
}

void rotate(struct md_identity *identity)
{
	struct md_identity next;

	assert_int_equal(md_identity_rotate(identity, &next), 0);
	*identity = next;
	identity->lasting = true;
}
