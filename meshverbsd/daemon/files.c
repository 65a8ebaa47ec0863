/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Files that the administrator writes: hosts file and key file. */
#include "agent.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_log.h"
#include "hostsfile.h"

static void report_hosts_line(void *arg, unsigned int line, const char *text)
{
	const struct md_agent *agent = arg;
	const char *file = agent->options->config.agent_hosts;

	if (line)
		md_log(MD_WARNING, "%s:%u: %s", file, line, text);
	else
		md_log(MD_WARNING, "%s: %s: only what this agent has read there before counts, until that is mended and the agent is reloaded", file, text);
}

void md_files_hosts(struct md_agent *agent)
{
	md_hostsfile_load(&agent->targets, &agent->trust.pins, agent->options->config.agent_hosts, report_hosts_line,
			  agent);
	agent->due.targets_ns = 0;
}

/* The unit's copy of a key file that only root may read: systemd.exec(5), LoadCredential=. Return: true: the copy exists. */
static bool credential_of(const struct md_options *options, char *ret, size_t size)
{
	const char *dir = secure_getenv("CREDENTIALS_DIRECTORY"), *file = options->config.agent_key;
	size_t n = strlen(options->conf_dir);

	if (!dir || strncmp(file, options->conf_dir, n) || file[n] != '/' || strchr(file + n + 1, '/'))
		return false;
	return snprintf(ret, size, "%s/mesh_%s", dir, file + n + 1) < (int)size && !access(ret, F_OK);
}

static int load_keys(const struct md_options *options, struct md_keys *ret, char *why, size_t size)
{
	char credential[PATH_MAX];
	int err = md_keys_load(options->config.agent_key, ret, why, size);

	if (err != -EACCES || !credential_of(options, credential, sizeof(credential)))
		return err;
	err = md_keys_load(credential, ret, why, size);
	return err == -ENOENT ? -EACCES : err; /* the key file exists */
}

/* Tells the administrator how to fix a key file that cannot be used. */
static void log_key(const struct md_options *options, int err, const char *why)
{
	const char *file = options->config.agent_key, *conf = options->config_file;

	if (err == -EACCES)
		md_log(MD_ERROR,
		       "%s: %s: let the agent's user read it, and nobody else; what is directly below %s may be root's alone if systemd "
		       "starts the agent",
		       file, why, options->conf_dir);
	else if (err == -ENOENT && options->config.agent_key_from == MV_KEY_MAYBE)
		md_log(MD_ERROR,
		       "%s: %s, but %s, which was not understood, may name another key file: correct it; without a key the agent runs only "
		       "if nobody can have wanted one",
		       file, why, conf);
	else if (options->config.agent_key_from == MV_KEY_NAMED)
		md_log(MD_ERROR, "%s: %s: key in [agent] of %s names this file: put the mesh's key there, or correct that line", file, why,
		       conf);
	else
		md_log(MD_ERROR, "%s: %s: put the mesh's key there, or remove the file", file, why);
}

int md_files_keys(const struct md_options *options, struct md_keys *ret)
{
	enum mv_key_from from = options->config.agent_key_from;
	char why[160] = "";
	int err;

	if (from == MV_KEY_UNUSABLE) {
		md_log(MD_ERROR,
		       "%s: what stands for key in [agent] cannot be used: write the absolute path of the key file, or take that line out",
		       options->config_file);
		return -EINVAL;
	}
	err = load_keys(options, ret, why, sizeof(why));
	if (err == -ENOENT && from == MV_KEY_DEFAULT) {
		memset(ret, 0, sizeof(*ret));
		return 0;
	}
	if (err)
		log_key(options, err, why);
	return err;
}

void md_files_reload_keys(struct md_agent *agent)
{
	struct md_keys keys;

	if (md_files_keys(agent->options, &keys)) {
		md_log(MD_ERROR, md_secure_has_key(agent->secure) ? "the former key stays in use" : "it goes on without a key");
		return;
	}
	/* More likely a mistake than intended; a restart does what was intended. */
	if (!keys.n && md_secure_has_key(agent->secure)) {
		md_log(MD_ERROR, "%s is gone: the key stays in use until the agent is restarted",
		       agent->options->config.agent_key);
		return;
	}
	/* Facts accepted without a key have to be announced again, with the key. */
	if (md_secure_reload(agent->secure, &keys)) {
		md_hosts_fini(&agent->hosts);
		agent->gidmap.fleet_key = md_secure_has_key(agent->secure);
		md_announce_nets(&agent->tx.announce, agent->watch.view, md_now());
	}
	md_keys_wipe(&keys);
}
