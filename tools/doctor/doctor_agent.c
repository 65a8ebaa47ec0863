// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: this host's agent, the beacons that it hears, its key. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "agentask.h"
#include "doctor.h"
#include "shell_word.h"

/* Containers have RUN_DIR, but not the control socket. */
static bool is_out_of_sight(const struct doctor *d)
{
	return d->container && d->agent_error == -ENOENT && d->view_error != -ENOENT;
}

static void skip(struct doctor *d)
{
	doctor_skip(d, is_out_of_sight(d) ? "the agent answers on the host only" : "no agent answers");
}

static void find_no_agent(struct doctor *d)
{
	const char *dir = d->cli->control_dir;

	if (d->agent_error == -EAGAIN)
		doctor_find(d, DOCTOR_ACTION, words("meshverbsd"),
			    words("it has not answered at %s/control", dir),
			    words("look at its log, journalctl -u meshverbsd, and restart it"));
	else if (d->agent_error == -EACCES)
		doctor_find(d, DOCTOR_ACTION, words("%s/control", dir),
			    words("this user may not ask the agent there"),
			    words("chmod 0755 %s, which is how the agent makes it", MV_SHELL(dir)));
	else if (d->agent_error == -EBADMSG)
		doctor_find(d, DOCTOR_ACTION, words("meshverbsd"),
			    words("its answer at %s/control has no agent in it", dir),
			    words("restart it: systemctl restart meshverbsd; it may be of another "
				  "version"));
	else if (d->agent_error == -EPROTONOSUPPORT)
		doctor_find(d, DOCTOR_ACTION, words("meshverbsd"),
			    words("the agent that runs is older than this command: it answers at %s/control, which containers reach",
				  d->cli->run_dir),
			    words("%s", d->container ? "upgrade meshverbs on the host, and restart meshverbsd there"
						     : "systemctl restart meshverbsd"));
	else if (d->container && d->agent_error == -ENOENT)
		doctor_find(
			d, DOCTOR_ACTION, words("%s", d->cli->run_dir),
			words("the agent's directory is not in this container"),
			words("mount the host's /run/meshverbs there, read-only (" MESHVERBS_DOC_DIR
			      "/containers.md), and see that "
			      "meshverbsd runs on the host"));
	else
		doctor_find(d, DOCTOR_ACTION, words("meshverbsd"),
			    words("no agent answers at %s/control: %s", dir,
				  strerror(-d->agent_error)),
			    words("systemctl start meshverbsd (udev does so where there is RDMA "
				  "hardware); if it does not stay up: "
				  "journalctl -u meshverbsd"));
}

static void check_agent(struct doctor *d)
{
	const char *run_dir = d->cli->run_dir;

	if (d->agent_error && !is_out_of_sight(d)) {
		find_no_agent(d);
		return;
	}
	if (d->view_error)
		doctor_find(
			d, DOCTOR_ACTION, words("%s/" MV_DIRECTORY_FILE, run_dir),
			words("%s", d->view_error == -EBADMSG
					    ? "it is no directory of peers, or of another version"
				    : d->view_error == -EPERM
					    ? "somebody other than its owner may write it"
					    : strerror(-d->view_error)),
			words("systemctl restart meshverbsd; no other program may write in %s",
			      run_dir));
	else if (!d->view.alive)
		doctor_find(
			d, DOCTOR_ACTION, words("%s/" MV_DIRECTORY_FILE, run_dir),
			words("the agent does not keep it up to date any more, so programs do not "
			      "use it"),
			words("is the file system of %s full? Then systemctl restart meshverbsd",
			      run_dir));
}

static void check_agent_version(struct doctor *d)
{
	const char *version = agent_text(d->agent, "version");

	if (!d->agent)
		skip(d);
	else if (!version || strcmp(version, MESHVERBS_VERSION) != 0)
		doctor_find(d, DOCTOR_ACTION, words("meshverbsd"),
			    words("the agent that runs is of version %s, this command of %s",
				  version ? version : "unknown", MESHVERBS_VERSION),
			    words("%s",
				  d->container
					  ? "install the same version in this image as on the host"
					  : "systemctl restart meshverbsd; programs that run go on "
					    "meanwhile"));
}

/* ---- beacons
 * -------------------------------------------------------------------------------------------------
 */

static void check_net(struct doctor *d, struct json_object *net)
{
	const char *netdev = agent_text(net, "netdev");

	if (!netdev || !agent_flag(net, "running") ||
	    agent_number(net, "rails_heard", 0))
		return;
	doctor_find(d, DOCTOR_NOTE, words("%s", netdev),
		    words("no other host is heard on this netdev"),
		    words("if other hosts with an agent are on its link, let UDP port %lld and "
			  "multicast (ff12::6d65:7368, "
			  "224.0.0.254) pass: firewall, IGMP snooping, VLAN; across a router name "
			  "them in the hosts file",
			  agent_number(d->agent, "port", 0)));
}

static void check_beacons(struct doctor *d)
{
	struct json_object *nets = agent_member(d->agent, "nets", json_type_array);
	size_t i;

	if (!d->agent) {
		skip(d);
		return;
	}
	if (!agent_number(d->agent, "hosts", 0)) {
		doctor_find(d, DOCTOR_ACTION, words("meshverbsd"), words("it hears no other host"),
			    words("start meshverbsd on the other hosts, and let UDP port %lld and "
				  "multicast (ff12::6d65:7368, "
				  "224.0.0.254) pass on the RoCE netdevs: firewall, IGMP snooping, "
				  "VLAN; across a router name "
				  "the hosts in the hosts file",
				  agent_number(d->agent, "port", 0)));
		return;
	}
	for (i = 0; nets && i < json_object_array_length(nets); i++)
		check_net(d, json_object_array_get_idx(nets, i));
}

/* ---- key
 * -----------------------------------------------------------------------------------------------------
 */

static long long rejected(const struct doctor *d, const char *reason)
{
	return agent_number(agent_member(d->counters, "datagrams_rejected", json_type_object),
			    reason, 0);
}

static void check_rejected(struct doctor *d, const char *reason, const char *what, const char *fix)
{
	long long n = rejected(d, reason);

	if (n)
		doctor_find(d, DOCTOR_ACTION, words("fleet key"),
			    words("%s: %lld datagrams dropped since the agent started", what, n),
			    words("%s", fix));
}

/* The agent runs without a key only if certainly nobody wants one. Return: true: it starts. */
static bool starts_with_key(struct doctor *d)
{
	enum mv_key_from from = d->status.config.agent_key_from;
	const char *conf = d->status.config_file, *file = d->status.config.agent_key;

	if (d->container || from == MV_KEY_DEFAULT)
		return true;
	if (from == MV_KEY_UNUSABLE) {
		doctor_find(d, DOCTOR_ACTION, words("fleet key"),
			    words("what stands for key in [agent] of %s cannot be used, so the agent "
				  "does not start",
				  conf),
			    words("write the absolute path of the key file there, or take that line "
				  "out; systemctl restart meshverbsd"));
		return false;
	}
	if (files_access(d, F_OK, "%s", file) != -ENOENT)
		return true;
	if (from == MV_KEY_NAMED)
		doctor_find(d, DOCTOR_ACTION, words("fleet key"),
			    words("%s is not there, but key in [agent] of %s names it, so the agent "
				  "does not start",
				  file, conf),
			    words("put the mesh's key there, with mode 0600, or correct that line; "
				  "systemctl restart meshverbsd"));
	else
		doctor_find(d, DOCTOR_ACTION, words("fleet key"),
			    words("%s is not there, and a line of %s that is not understood may "
				  "name another, so the agent does not start",
				  file, conf),
			    words("correct that line; systemctl restart meshverbsd"));
	return false;
}

static void check_key(struct doctor *d)
{
	bool starts = starts_with_key(d);

	if (!d->agent) {
		if (starts)
			skip(d);
		return;
	}
	if (!agent_flag(d->agent, "has_key"))
		doctor_find(d, DOCTOR_NOTE, words("fleet key"),
			    words("the agent has none: %s",
				  agent_member(d->agent, "identity", json_type_object)
					  ? "hosts know each other by keys of their own (meshverbs keys), and believe the first contact"
					  : "it trusts the network as far as RoCE itself does"),
			    words("meshverbsd --make-key > key, the same file as %s with mode 0600 "
				  "on all hosts, then systemctl "
				  "restart meshverbsd",
				  d->status.config.agent_key));
	check_rejected(d, "plain", "hosts without a fleet key are heard, and this one has a key",
		       "give the other hosts this key, and restart their agents");
	check_rejected(d, "sealed", "hosts with a fleet key are heard, and this one has none",
		       "give this host their key, and restart meshverbsd");
	check_rejected(
		d, "other_key", "hosts with another fleet key are heard",
		"all hosts of a mesh need one key; to change it: the new one as second line of the "
		"key file everywhere, then as first, then alone, with a restart of the agents each "
		"time");
}

static void check_host_id(struct doctor *d)
{
	if (!d->counters)
		skip(d);
	else if (rejected(d, "same_id"))
		doctor_find(
			d, DOCTOR_ACTION, words("/etc/machine-id"),
			words("another agent has the host id of this one: %lld datagrams dropped",
			      rejected(d, "same_id")),
			words("give each host a machine-id of its own (cloned disks share one): rm "
			      "/etc/machine-id; "
			      "systemd-machine-id-setup; restart meshverbsd"));
}

const struct doctor_check doctor_agent_checks[] = {
	{"agent", "this host's agent",
	 "Without it GIDs are still repaired, but no connection moves to another NIC.",
	 check_agent},
	{"agent-version", "version of the agent that runs",
	 "Parts of different versions may not understand each other.", check_agent_version},
	{"beacons", "other hosts that the agent hears",
	 "A connection can only be moved when the agents of both hosts know each "
	 "other.",
	 check_beacons},
	{"key", "the fleet key",
	 "Agents whose keys differ do not talk; without a key, whoever can send RoCE packets to "
	 "these "
	 "hosts can disturb connections as they are made.",
	 check_key},
	{"host-id", "the host's id in the mesh",
	 "Two hosts with one id are taken for one, and connections of both go wrong.",
	 check_host_id},
	{0},
};
