/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ctl.h"
#include "unit.h"
#include "dirworld.h"

#include <stdio.h>
#include <string.h>

#include "topo.h"

static const char *next_word(char **at)
{
	const char *word = strtok_r(*at, " \t\n", at);

	return word ? word : "";
}

static unsigned long next_number(char **at)
{
	const char *word = next_word(at);
	unsigned long number;
	char *end;

	number = strtoul(word, &end, 0);
	if (!*word || *end)
		fail_msg("'%s' is no number", word);
	return number;
}

static void add_host(struct dirworld *w, char *at)
{
	struct mv_dir_host *host = &w->hosts[w->content.n_hosts];

	assert_true(w->content.n_hosts < sizeof(w->hosts) / sizeof(w->hosts[0]));
	*host = (struct mv_dir_host){.first_rail = (uint32_t)w->content.n_rails,
				     .agent_version = MV_CTL_VERSION};
	host->id.bytes[0] = (uint8_t)++w->content.n_hosts;
	snprintf(host->name, sizeof(host->name), "%s", next_word(&at));
	if (!strcmp(next_word(&at), "id"))
		host->id.bytes[0] = (uint8_t)next_number(&at);
}

static void rail_option(struct mv_dir_rail *rail, const char *word, char **at)
{
	if (!strcmp(word, "down"))
		rail->flags &= (uint8_t)~MV_RAIL_UP;
	else if (!strcmp(word, "excluded"))
		rail->flags |= MV_RAIL_EXCLUDED;
	else if (!strcmp(word, "ib"))
		rail->link_layer = IBV_LINK_LAYER_INFINIBAND;
	else if (!strcmp(word, "drained"))
		rail->flags = (uint8_t)((rail->flags & ~MV_RAIL_UP) | MV_RAIL_DRAINED);
	else if (!strcmp(word, "lmc"))
		rail->lmc = (uint8_t)next_number(at);
	else if (!strcmp(word, "lid"))
		rail->lid = (uint16_t)next_number(at);
	else if (!strcmp(word, "numa"))
		rail->numa_node = (int32_t)next_number(at);
	else if (!strcmp(word, "rate"))
		rail->rate_mbps = (uint32_t)next_number(at);
	else if (!strcmp(word, "mtu"))
		rail->mtu_bytes = (uint16_t)next_number(at);
	else if (!strcmp(word, "port"))
		rail->port = (uint8_t)next_number(at);
	else if (!strcmp(word, "dev"))
		snprintf(rail->netdev, sizeof(rail->netdev), "%s", next_word(at));
	else
		fail_msg("rail: '%s'?", word);
}

static void add_rail(struct dirworld *w, char *at)
{
	struct mv_dir_rail *rail = &w->rails[w->content.n_rails];
	const char *word;

	assert_true(w->content.n_rails < sizeof(w->rails) / sizeof(w->rails[0]));
	assert_true(w->content.n_hosts);
	*rail = (struct mv_dir_rail){.host = (uint32_t)w->content.n_hosts - 1,
				     .first_gid = (uint32_t)w->content.n_gids,
				     .rate_mbps = 100000,
				     .mtu_bytes = 4096,
				     .port = 1,
				     .link_layer = IBV_LINK_LAYER_ETHERNET,
				     .flags = MV_RAIL_UP};
	snprintf(rail->device, sizeof(rail->device), "%s", next_word(&at));
	while (*(word = next_word(&at)))
		rail_option(rail, word, &at);
	w->hosts[rail->host].n_rails++;
	w->content.n_rails++;
}

static uint8_t gid_type(const char *word)
{
	if (!strcmp(word, "v1"))
		return MV_GID_TYPE_ROCE_V1;
	if (!strcmp(word, "v2"))
		return MV_GID_TYPE_ROCE_V2;
	if (!strcmp(word, "ib"))
		return MV_GID_TYPE_IB;
	if (!strcmp(word, "v?") || !strcmp(word, "kept"))
		return MV_GID_TYPE_UNKNOWN;
	fail_msg("gid: type '%s'?", word);
	return 0;
}

static void add_gid(struct dirworld *w, char *at)
{
	struct mv_dir_gid *gid = &w->gids[w->content.n_gids];
	char address[64], *slash;
	const char *word;

	assert_true(w->content.n_gids < sizeof(w->gids) / sizeof(w->gids[0]));
	assert_true(w->content.n_rails);
	*gid = (struct mv_dir_gid){.rail = (uint32_t)w->content.n_rails - 1,
				   .vlan_id = MV_VLAN_NONE};
	gid->index = w->rails[gid->rail].n_gids++;
	snprintf(address, sizeof(address), "%s", next_word(&at));
	slash = strchr(address, '/');
	if (slash)
		*slash++ = '\0';
	gid->gid = unit_gid(address);
	if (slash)
		gid->prefix_len = (uint8_t)(next_number(&slash) + (strchr(address, ':') ? 0 : 96));
	word = next_word(&at);
	gid->type = gid_type(word);
	if (!strcmp(word, "kept"))
		gid->index = MV_DIR_INDEX_NONE;
	for (word = next_word(&at); *word; word = next_word(&at)) {
		if (!strcmp(word, "vlan"))
			gid->vlan_id = (uint16_t)next_number(&at);
		else if (!strcmp(word, "unmet"))
			gid->index |= MV_DIR_INDEX_UNMET;
		else if (!strcmp(word, "unanswered"))
			gid->index |= MV_DIR_INDEX_UNANSWERED;
		else if (!strcmp(word, "routed"))
			gid->routed_from |= 1u << next_number(&at);
		else
			fail_msg("gid: '%s'?", word);
	}
	w->content.n_gids++;
}

static void add_link(struct dirworld *w, char *at)
{
	struct mv_dir_link *link = &w->links[w->content.n_links++];

	assert_true(w->content.n_links <= sizeof(w->links) / sizeof(w->links[0]));
	link->local_rail = (uint32_t)next_number(&at);
	link->remote_rail = (uint32_t)next_number(&at);
}

static void add_statement(struct dirworld *w, char *statement)
{
	const char *word = next_word(&statement);

	if (!strcmp(word, "host"))
		add_host(w, statement);
	else if (!strcmp(word, "rail"))
		add_rail(w, statement);
	else if (!strcmp(word, "gid"))
		add_gid(w, statement);
	else if (!strcmp(word, "link"))
		add_link(w, statement);
	else if (*word)
		fail_msg("'%s'?", word);
}

void dirworld_init(struct dirworld *w, const char *text)
{
	char *copy = strdup(text), *at = copy, *statement;

	assert_non_null(copy);
	*w = (struct dirworld){0};
	w->content.hosts = w->hosts;
	w->content.rails = w->rails;
	w->content.gids = w->gids;
	w->content.links = w->links;
	while ((statement = strsep(&at, ";")))
		add_statement(w, statement);
	free(copy);
	assert_int_equal(mv_directory_build(&w->content, 1, 42, 1000, &w->image), 0);
	assert_int_equal(mv_directory_check(w->image, w->image->size_bytes, &w->dir), 0);
}

void dirworld_fini(struct dirworld *w)
{
	free(w->image);
}
