// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: files with secrets, this host's identity, keys of other hosts. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <json-c/json.h>

#include "agentask.h"
#include "doctor.h"
#include "shell_word.h"

#define STATE_DIR "/var/lib/meshverbs"

/* Do hosts use identities? If not, or if not known, the check is skipped. */
static bool has_identities(struct doctor *d)
{
	if (d->agent && json_object_object_get_ex(d->agent, "identity", NULL))
		return !agent_flag(d->agent, "has_key");
	doctor_skip(d, d->agent       ? "the agent is of a version without identities"
		       : d->container ? "the agent answers on the host only"
				      : "no agent answers");
	return false;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void check_fleet_key_file(struct doctor *d)
{
	const char *file = d->status.config.agent_key;
	struct stat st;

	if (!files_stat(d, &st, "%s", file) && (st.st_mode & S_IRWXO))
		doctor_find(d, DOCTOR_ACTION, words("%s", file),
			    words("everybody on this host may use the fleet key (mode %04o), and the agent does not take it so",
				  st.st_mode & 07777),
			    words("chmod 0600 %s; who may have read it can speak as any host: meshverbsd --make-key, and the "
				  "new key on all hosts",
				  MV_SHELL(file)));
}

/* A file in STATE_DIR. Return: false: this user may not look there. */
static bool check_state_file(struct doctor *d, const char *name, mode_t mask, const char *what, const char *fix)
{
	struct stat st;
	int err = files_stat(d, &st, STATE_DIR "/%s", name);

	if (!err && (st.st_mode & mask))
		doctor_find(d, DOCTOR_ACTION, words(STATE_DIR "/%s", name),
			    words("%s (mode %04o), and the agent does not take it so", what, st.st_mode & 07777),
			    words("%s", fix));
	return err != -EACCES;
}

static void check_key_files(struct doctor *d)
{
	bool seen;

	check_fleet_key_file(d);
	seen = check_state_file(
		d, "identity", S_IRWXG | S_IRWXO, "others may use the secret of this host",
		"rm " STATE_DIR
		"/identity; systemctl restart meshverbsd, which makes another; then, on the other hosts, meshverbs keys "
		"forget with the name of this one");
	seen &= check_state_file(d, "known_hosts", S_IWGRP | S_IWOTH, "others may write the keys of other hosts",
				 "compare them with meshverbs keys on those hosts; then chmod 0600 " STATE_DIR
				 "/known_hosts; systemctl restart meshverbsd");
	if (!seen)
		doctor_skip(d, "only root may look into " STATE_DIR);
}

/* ---- this host ------------------------------------------------------------------------------- */

static void find_no_identity(struct doctor *d)
{
	const char *why = agent_text(d->agent, "identity_error");
	bool not_wanted = why && strstr(why, "without --state-dir");

	doctor_find(d, not_wanted ? DOCTOR_NOTE : DOCTOR_ACTION, words("identity"),
		    words("this host has no key of its own: %s", why ? why : "the agent's log says why"),
		    words("%s",
			  not_wanted
				  ? "name a directory that lasts by --state-dir, if other hosts are to know this one by its key"
				  : "mend that, or remove the file; systemctl restart meshverbsd makes another, where there is "
				    "none; then, on "
				    "the other hosts, meshverbs keys forget with the name of this one"));
}

static void check_identity(struct doctor *d)
{
	struct json_object *own = agent_member(d->agent, "identity", json_type_object);
	const char *error = agent_text(d->agent, "keys_error");

	if (!has_identities(d))
		return;
	if (!own)
		find_no_identity(d);
	else if (!agent_flag(own, "lasting"))
		doctor_find(d, DOCTOR_ACTION, words("identity"),
			    words("its file cannot be written, so the agent makes another with each start, and no other host "
				  "can know this one by it"),
			    words("%s", d->container
						? "mount the host's " STATE_DIR ", writable for the agent's user"
						: "install -d -m 0700 -o meshverbs -g meshverbs " STATE_DIR
						  "; is its file system full, or read-only? systemctl restart meshverbsd"));
	if (error)
		doctor_find(d, DOCTOR_ACTION, words(STATE_DIR "/known_hosts"),
			    words("what this host learns of keys is not written, and forgotten with the agent: %s", error),
			    words("look at its owner, its mode, and its file system; systemctl restart meshverbsd"));
}

/* ---- other hosts ----------------------------------------------------------------------------- */

static struct json_object *host_at(const struct doctor *d, size_t i)
{
	struct json_object *hosts = agent_member(d->keys, "hosts", json_type_array);

	return hosts && i < json_object_array_length(hosts) ? json_object_array_get_idx(hosts, i) : NULL;
}

/* Hosts with that trust. Return: the first one; NULL: none. */
static struct json_object *hosts_in(const struct doctor *d, const char *trust, struct names *names)
{
	struct json_object *host, *first = NULL;
	const char *in;

	memset(names, 0, sizeof(*names));
	for (size_t i = 0; (host = host_at(d, i)); i++) {
		in = agent_text(host, "trust");
		if (!in || strcmp(in, trust) != 0 || !agent_text(host, "name"))
			continue;
		first = first ? first : host;
		names_add(names, agent_text(host, "name"));
	}
	return first;
}

static void find_changed(struct doctor *d)
{
	struct names names;
	struct json_object *host = hosts_in(d, "changed", &names);
	const char *name = agent_text(host, "name"), *key = agent_text(host, "key"), *known = agent_text(host, "pinned_key");

	if (!host)
		return;
	if (!known)
		doctor_find(d, DOCTOR_ACTION, names_words(&names),
			    words("%zu hosts show other keys than they are known with; %s has the host id of a host that is silent", names.n,
				  name),
			    words("was that host installed anew, and does it have this name now? Then meshverbs keys forget its former name; if not, "
				  "somebody speaks in its name"));
	else
		doctor_find(d, DOCTOR_ACTION, names_words(&names),
			    names.n == 1 ? words("it shows the key %s, but is known with %s", key ? key : "?", known)
					 : words("%zu hosts show other keys than they are known with; %s shows %s, not %s", names.n,
						 name, key ? key : "?", known),
			    words("was it installed anew, and does meshverbs keys there show this key? Then meshverbs keys forget "
				  "%s; if not, somebody speaks in its name, or two hosts have one name",
				  MV_SHELL(name)));
}

static void check_peer_keys(struct doctor *d)
{
	long long impostors = agent_number(d->counters, "impostors", 0);
	struct names names;

	if (!has_identities(d))
		return;
	find_changed(d);
	if (hosts_in(d, "revoked", &names))
		doctor_find(d, DOCTOR_NOTE, names_words(&names), words("%zu hosts have keys that are revoked", names.n),
			    words("there: rm " STATE_DIR
				  "/identity; systemctl restart meshverbsd; or here: meshverbs keys restore with the name"));
	if (impostors)
		doctor_find(d, DOCTOR_ACTION, words("impostors"),
			    words("%lld times, since the agent started, somebody spoke as a host that is heard, with another "
				  "key: ignored",
				  impostors),
			    words("find the address, which the log names: journalctl -u meshverbsd -g 'speaks as host'"));
}

static void check_peer_identities(struct doctor *d)
{
	struct names names;

	if (!has_identities(d) || !agent_member(d->agent, "identity", json_type_object))
		return;
	if (hosts_in(d, "none", &names))
		doctor_find(d, DOCTOR_NOTE, names_words(&names),
			    words("%zu hosts have no key of their own, and this one has", names.n),
			    words("upgrade meshverbs there; meshverbs doctor there says what else is in the way"));
	if (hosts_in(d, "unpinned", &names))
		doctor_find(d, DOCTOR_NOTE, names_words(&names),
			    words("%zu hosts beyond routers are not authenticated: the first contact is believed of neighbours "
				  "only",
				  names.n),
			    words("meshverbs keys pin HOST KEY, or key=KEY in %s, with the key that meshverbs keys shows there",
				  d->status.config.agent_hosts));
}

static void check_routed(struct doctor *d)
{
	const struct mv_directory *dir = &d->view.dir;
	struct names names = {0};

	if (d->view_error) {
		doctor_skip(d, "there is no directory of peers");
		return;
	}
	if (!doctor_moves_at_work(d) || d->status.config.survive_unauthenticated)
		return;
	for (uint32_t h = 1; h < dir->header->n_hosts; h++)
		if (dir->hosts[h].agent_version && (dir->hosts[h].flags & (MV_PEER_ROUTED | MV_PEER_AUTHENTICATED)) == MV_PEER_ROUTED)
			names_add(&names, dir->hosts[h].name);
	if (names.n)
		doctor_find(d, DOCTOR_NOTE, names_words(&names),
			    words("%zu hosts are beyond routers and not authenticated: connections with them do not leave a port that is dead", names.n),
			    words("name their keys in %s (key=KEY, which meshverbs keys shows there), or have a fleet key on all hosts",
				  d->status.config.agent_hosts));
}

/* ---- IPoIB ----------------------------------------------------------------------------------- */

#define ARPHRD_IB 32 /* linux/if_arp.h: ARPHRD_INFINIBAND */

static void visit_netdev(struct doctor *d, const char *name, void *arg)
{
	if (files_number(d, -1, "/sys/class/net/%s/type", name) == ARPHRD_IB)
		names_add(arg, name);
}

static void check_ipoib(struct doctor *d)
{
	struct names names = {0};

	if (!d->agent) {
		doctor_skip(d, d->container ? "the agent answers on the host only" : "no agent answers");
		return;
	}
	if (agent_flag(d->agent, "has_key"))
		return;
	files_each(d, "/sys/class/net", visit_netdev, &names);
	if (names.n)
		doctor_find(d, DOCTOR_NOTE, names_words(&names),
			    words("every user who may open an RDMA device can send any IP packet to IPoIB, also from the address and port of "
				  "another host's agent; so no connection of InfiniBand moves without a fleet key"),
			    words("have a fleet key on all hosts: meshverbsd --make-key"));
}

const struct doctor_check doctor_key_checks[] = {
	{"key-files", "files with secrets, and with keys of other hosts",
	 "Who reads such a secret can speak as this host, or, with the fleet key, as any.", check_key_files},
	{"identity", "this host's own key",
	 "Without one its messages are not sealed, and other hosts cannot tell it from somebody who speaks in its name.",
	 check_identity},
	{"peer-keys", "keys that other hosts show",
	 "A host with another key than the known one was installed anew, or is somebody else.", check_peer_keys},
	{"peer-identities", "hosts without a known key",
	 "Messages with these hosts are not sealed: whoever is on the path can read and forge them, as with RoCE itself.",
	 check_peer_identities},
	{"peers-routed", "hosts beyond routers",
	 "Whoever is on the way, or in a container behind NAT, can speak as a host that only answers from beyond a router.",
	 check_routed},
	{"ipoib", "IPoIB without a fleet key",
	 "Without a key, agents believe the address and port that a datagram comes from.", check_ipoib},
	{0},
};
