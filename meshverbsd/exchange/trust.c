/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* This host's identity and statement, and the file of pinned keys. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_log.h"
#include "id.h"
#include "paths.h"

#define SAVE_NS	      (2 * MD_S) /* least time between two writes of the file; each writes all pins */
#define SAVE_AGAIN_NS (60 * MD_S) /* after a failed write */
#define SAVE_NOTED_NS (600 * MD_S) /* after any write, for pins of hosts that have sealed nothing yet */
/* ---- start ----------------------------------------------------------------------------------- */

static const char *state_dir(const struct md_agent *agent)
{
	return agent->options->state_dir;
}

static int make_identity(struct md_agent *agent)
{
	struct md_trust *trust = &agent->trust;
	char text[MD_PUBLIC_TEXT_SIZE];
	int err = md_identity_make(&trust->identity);

	if (err)
		return err;
	err = trust->dir_fd < 0 ? -ENOENT : md_identity_save(trust->dir_fd, trust->machine_id, &trust->identity);
	md_public_format(&trust->identity.sign, text);
	if (err)
		md_log(MD_WARNING, "%s/" MD_IDENTITY_FILE ": %s: this host has an identity until its agent ends, %s",
		       state_dir(agent), md_strerror(err), text);
	else
		md_log(MD_INFO, "made the identity of this host, %s", text);
	trust->on = true;
	return 0;
}

/* An identity file that cannot be used is left for the administrator: with a new key, peers would not recognise this host. */
static int load_identity(struct md_agent *agent)
{
	struct md_trust *trust = &agent->trust;
	char why[128];
	int err = -ENOENT;

	if (trust->dir_fd >= 0)
		err = md_identity_load(trust->dir_fd, trust->machine_id, &trust->identity, why, sizeof(why));
	if (err == -EXDEV)
		md_log(MD_WARNING, "%s/" MD_IDENTITY_FILE ": %s, of which this one is a copy: makes another",
		       state_dir(agent), why);
	if (err == -ENOENT || err == -EXDEV)
		return make_identity(agent);
	if (err) {
		snprintf(trust->why, sizeof(trust->why), "%s/" MD_IDENTITY_FILE ": %s", state_dir(agent), why);
		md_log(MD_ERROR, "%s: this host has no identity until that is mended, or the file removed", trust->why);
	}
	trust->on = !err;
	return 0;
}

/*
 * If the file cannot be used, hosts are met anew, and no key is revoked. To pin nobody would be worse. Example: host B has taken
 * sealed datagrams of this host. B takes no plain ones any more, and this host could not seal: no message would pass.
 */
static void load_pins(struct md_agent *agent)
{
	struct md_trust *trust = &agent->trust;
	unsigned int n_bad, line = 0;
	int err = trust->dir_fd < 0 ? 0 : md_pins_load(trust->dir_fd, &trust->pins, &n_bad, &line);

	if (err) {
		trust->pins_lost = true;
		md_log(MD_ERROR,
		       "%s/" MD_PINS_FILE ": %s: all hosts are met anew, no key counts as revoked, and nothing is written there, until that is "
		       "mended and the agent restarted",
		       state_dir(agent),
		       err == -EPERM ? "others may write it: chown it to the user of the agent, chmod 0600" : md_strerror(err));
	} else if (trust->dir_fd >= 0 && n_bad) {
		md_log(MD_WARNING, "%s/" MD_PINS_FILE ":%u: not understood: write NAME KEY HOW SINCE; %u such lines are left out",
		       state_dir(agent), line, n_bad);
	}
}

static void on_gone(void *arg, const struct md_host *host)
{
	struct md_agent *agent = arg;

	if (md_host_is_vouched(host))
		md_pins_seen(&agent->trust.pins, host->vouch->said.name, md_realtime_s() - (md_now() - host->heard_ns) / MD_S);
	if (host->vouch)
		md_secure_forget_peer(agent->secure, &host->id);
}

int md_trust_start(struct md_agent *agent)
{
	struct md_trust *trust = &agent->trust;
	struct md_id_from from;
	int err;

	trust->dir_fd = -1;
	trust->save_ns = trust->look_ns = UINT64_MAX;
	if (!state_dir(agent)) {
		snprintf(trust->why, sizeof(trust->why), "the agent runs with --run-dir and without --state-dir");
		return 0;
	}
	md_id_gather(&from);
	snprintf(trust->machine_id, sizeof(trust->machine_id), "%s", from.machine_id);
	trust->dir_fd = open(state_dir(agent), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = load_identity(agent);
	if (err || !trust->on)
		return err;
	if (!md_statement_is_name(agent->self.name)) {
		snprintf(trust->why, sizeof(trust->why), "'%s' is no name to be known by", agent->self.name);
		md_log(MD_WARNING, "%s: this host shows no identity until it has a host name", trust->why);
		trust->on = false;
		return 0;
	}
	load_pins(agent);
	agent->hosts.gone = on_gone;
	md_secure_identity(agent->secure, &trust->identity);
	trust->look_ns = 0;
	return 0;
}

void md_trust_stop(struct md_agent *agent)
{
	struct md_trust *trust = &agent->trust;
	size_t len;
	char *text;

	if (!state_dir(agent))
		return;
	if (trust->on && (trust->pins.dirty || trust->pins.noted) && trust->dir_fd >= 0 && !trust->pins_lost &&
	    (text = md_pins_format(&trust->pins, &len))) {
		md_pins_save(trust->dir_fd, text, len);
		free(text);
	}
	free(trust->save_text);
	md_bound_drop_all(trust);
	md_pins_fini(&trust->pins);
	md_identity_wipe(&trust->identity);
	md_identity_wipe(&trust->next);
	if (trust->dir_fd >= 0)
		close(trust->dir_fd);
}

/* ---- pins to the disk ------------------------------------------------------------------------ */

static void run_save(struct md_job *job)
{
	struct md_trust *trust = md_job_of(job, struct md_trust, save);

	trust->save_err = md_pins_save(trust->dir_fd, trust->save_text, trust->save_len);
}

static void on_saved(struct md_job *job)
{
	struct md_trust *trust = md_job_of(job, struct md_trust, save);

	free(trust->save_text);
	trust->save_text = NULL;
	if (trust->save_err && trust->save_err != trust->said_err)
		md_log(MD_ERROR, MD_PINS_FILE " cannot be written: %s: what is learnt of keys from now on is forgotten with this agent",
		       md_strerror(trust->save_err));
	if (trust->save_err) { /* try again when there may be room */
		trust->pins.dirty = true;
		trust->save_ns = md_now() + SAVE_AGAIN_NS;
	}
	trust->said_err = trust->save_err;
}

static uint64_t save_at(const struct md_trust *trust)
{
	if (trust->pins.dirty)
		return trust->save_ns;
	return trust->pins.noted ? trust->save_noted_ns : UINT64_MAX;
}

static void save_pins(struct md_agent *agent, uint64_t now_ns)
{
	struct md_trust *trust = &agent->trust;

	if (trust->dir_fd < 0 || trust->pins_lost || trust->save.out || now_ns < save_at(trust))
		return;
	trust->save_text = md_pins_format(&trust->pins, &trust->save_len);
	if (!trust->save_text)
		return;
	trust->pins.dirty = trust->pins.noted = false;
	trust->save_ns = now_ns + SAVE_NS;
	trust->save_noted_ns = now_ns + SAVE_NOTED_NS;
	trust->save.run = run_save;
	trust->save.done = on_saved;
	md_jobs_give(&agent->jobs, &trust->save);
}

void md_trust_look(struct md_agent *agent, uint64_t now_ns)
{
	if (agent->trust.save_ns == UINT64_MAX) {
		agent->trust.save_ns = 0;
		agent->trust.save_noted_ns = now_ns + SAVE_NOTED_NS;
	}
	save_pins(agent, now_ns);
	agent->trust.look_ns = now_ns + md_trust_look_hosts(agent, now_ns);
}

uint64_t md_trust_next(const struct md_agent *agent)
{
	return agent->trust.on && !md_secure_has_key(agent->secure) ? agent->trust.look_ns : UINT64_MAX;
}

/* ---- our own statement ----------------------------------------------------------------------- */

void md_trust_describe(struct md_agent *agent)
{
	const struct md_said *beacon = &agent->tx.said;
	struct md_statement said = {
		.host = agent->self.id, .start = agent->self.start, .generation = beacon->generation};

	if (!agent->trust.on)
		return;
	memcpy(said.name, agent->self.name, sizeof(said.name));
	md_statement_content(agent->self.name, MV_CTL_VERSION, beacon->desc, beacon->len, said.content);
	agent->trust.statement_len = md_statement_sign(&said, &agent->trust.identity, agent->trust.statement);
}

size_t md_trust_own_statement(struct md_agent *agent, bool asks, const uint8_t **ret)
{
	struct md_trust *trust = &agent->trust;

	if (!trust->on || !trust->statement_len || md_secure_has_key(agent->secure))
		return 0;
	md_statement_ask(trust->statement, asks);
	trust->count.sent++;
	*ret = trust->statement;
	return trust->statement_len;
}
