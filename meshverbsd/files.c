/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The files that the administrator writes: hosts and key. */
#include "agent.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostsfile.h"
#include "say.h"

static void report_hosts_line(void *arg, unsigned int line, const char *text)
{
	const struct md_agent *agent = arg;
	const char *file = agent->options->config.agent_hosts;

	if (line)
		md_say(MD_WARNING, "%s:%u: %s", file, line, text);
	else
		md_say(MD_WARNING, "%s: %s", file, text);
}

void md_files_hosts(struct md_agent *agent)
{
	md_targets_forget_file(&agent->targets);
	md_hostsfile_load(&agent->targets, agent->options->config.agent_hosts, report_hosts_line,
			  agent);
	agent->targets_ns = 0;
}

/* The unit's copy of a key file that only root may read: systemd.exec(5), LoadCredential=. */
static int load_credential(struct md_keys *ret, char *why, size_t why_size)
{
	const char *dir = secure_getenv("CREDENTIALS_DIRECTORY");
	char path[PATH_MAX];

	if (!dir)
		return -EACCES;
	snprintf(path, sizeof(path), "%s/mesh_key", dir);
	return md_keys_load(path, ret, why, why_size);
}

int md_files_keys(const struct md_options *options, struct md_keys *ret)
{
	char why[160] = "";
	int err = md_keys_load(options->config.agent_key, ret, why, sizeof(why));

	if (err == -EACCES)
		err = load_credential(ret, why, sizeof(why));
	else if (err == -ENOENT) {
		memset(ret, 0, sizeof(*ret));
		return 0;
	}
	if (err)
		md_say(MD_ERROR, "%s: %s", options->config.agent_key, why);
	return err;
}

void md_files_reload_keys(struct md_agent *agent)
{
	struct md_keys keys;

	if (md_files_keys(agent->options, &keys)) {
		md_say(MD_ERROR, "the former key stays in use");
		return;
	}
	/* A mistake more often than a wish, and the wish has another way. */
	if (!keys.n && md_secure_has_key(agent->secure)) {
		md_say(MD_ERROR, "%s is gone: the key stays in use until the agent is restarted",
		       agent->options->config.agent_key);
		return;
	}
	/* What was believed without a key has to be told again with one. */
	if (md_secure_reload(agent->secure, &keys)) {
		md_hosts_fini(&agent->hosts);
		md_announce_nets(&agent->announce, agent->watch.view, md_now());
	}
	md_keys_wipe(&keys);
}
