/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Statements: what a host has signed about itself. */
#include "hostsint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_as_said(const struct md_host *host, const struct md_statement *said)
{
	return host->start == said->start && host->generation == said->generation &&
	       !memcmp(host->content.hash, said->content, sizeof(host->content.hash));
}

int md_hosts_vouch(struct md_hosts *hosts, struct md_host *host, const struct md_statement *said,
		   const uint8_t digest[MD_CONTENT_BYTES], enum md_trust_in trust, unsigned int *ret_changed)
{
	bool was_vouched = md_host_is_vouched(host);

	*ret_changed = 0;
	if (!host->vouch)
		host->vouch = calloc(1, sizeof(*host->vouch));
	if (!host->vouch)
		return -ENOMEM;
	md_vouch_unlist(host->vouch);
	host->vouch->trust = trust;
	host->vouch->said = *said;
	memcpy(host->vouch->digest, digest, sizeof(host->vouch->digest));
	if (was_vouched != md_host_is_vouched(host)) {
		host->claimed.view = 0;
		md_hosts_place(hosts, host);
	}
	if (trust != MD_TRUST_PINNED || was_vouched)
		return 0;
	md_hosts_drop_partials(hosts, host);
	if (host->desc && is_as_said(host, said)) {
		host->agent_version = host->content.version;
		memcpy(host->name, said->name, sizeof(host->name));
		return 0;
	}
	*ret_changed = host->desc ? MD_CHANGED_WANTED | MD_CHANGED_DESC : MD_CHANGED_WANTED;
	md_hosts_drop_desc(hosts, host);
	host->generation = 0;
	return 0;
}

void md_hosts_unvouch(struct md_hosts *hosts, struct md_host *host)
{
	bool was_vouched = md_host_is_vouched(host);

	md_vouch_unlist(host->vouch);
	free(host->vouch);
	host->vouch = NULL;
	if (was_vouched)
		md_hosts_place(hosts, host);
	host->claimed.view = 0;
}
