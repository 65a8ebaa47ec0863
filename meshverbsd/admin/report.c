/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the control socket tells, as JSON. */
#include "report.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "ctl.h"
#include "metrics.h"
#include "paths.h"
#include "say.h"

/*
 * json-c's constructors give NULL without memory, and its adders take that for null: an answer may
 * then lack things, but nothing goes wrong.
 */
static void add(struct json_object *to, const char *key, struct json_object *value)
{
	if (!to || json_object_object_add(to, key, value))
		json_object_put(value);
}

static void add_text(struct json_object *to, const char *key, const char *text)
{
	add(to, key, json_object_new_string(text));
}

static void add_number(struct json_object *to, const char *key, uint64_t number)
{
	add(to, key, json_object_new_int64(number < INT64_MAX ? (int64_t)number : INT64_MAX));
}

static void add_bool(struct json_object *to, const char *key, bool value)
{
	add(to, key, json_object_new_boolean(value));
}

static void append(struct json_object *to, struct json_object *value)
{
	if (!to || json_object_array_add(to, value))
		json_object_put(value);
}

/*
 * A list that may be long is written item by item: never more than one in json-c's form, which
 * takes fifteen times as much memory as text, and no more than MD_ANSWER_BYTES_MAX altogether.
 */
struct list {
	FILE *out;
	size_t n, bytes, left_out;
};

static bool has_room(const struct list *list)
{
	return list->bytes < MD_ANSWER_BYTES_MAX;
}

static void put_item(struct list *list, struct json_object *item)
{
	const char *text;
	size_t len;

	text = item ? json_object_to_json_string_length(item, JSON_C_TO_STRING_PLAIN, &len) : NULL;
	if (text) {
		fprintf(list->out, "%s%s", list->n++ ? "," : "", text);
		list->bytes += len + 1;
	}
	json_object_put(item);
}

static void begin_list(struct list *list, const char *key)
{
	list->n = list->left_out = 0;
	fprintf(list->out, "\"%s\":[", key);
}

static void end_list(struct list *list, const char *key)
{
	fputc(']', list->out);
	if (list->left_out)
		fprintf(list->out, ",\"%s_left_out\":%zu", key, list->left_out);
}

static void add_id(struct json_object *to, const char *key, const struct mv_host_id *id)
{
	char text[2 * sizeof(id->bytes) + 1];

	for (size_t i = 0; i < sizeof(id->bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
	add_text(to, key, text);
}

static void add_gid(struct json_object *to, const char *key, const union ibv_gid *gid)
{
	char text[MV_GID_STRLEN];

	add_text(to, key, mv_gid_format(gid, text));
}

/* ---- rails ----------------------------------------------------------------------------------- */

static struct json_object *gid_object(const struct mv_dir_gid *gid)
{
	struct json_object *object = json_object_new_object();

	add_gid(object, "gid", &gid->gid);
	if (mv_dir_gid_is_kept(gid)) {
		json_object_object_add(object, "index", NULL);
		add_text(object, "type", "gone");
	} else {
		add_number(object, "index", gid->index);
		add_text(object, "type", mv_gid_type_name((enum mv_gid_type)gid->type));
	}
	if (gid->vlan_id != MV_VLAN_NONE)
		add_number(object, "vlan", gid->vlan_id);
	if (gid->prefix_len)
		add_number(object, "prefix_len", gid->prefix_len);
	return object;
}

static struct json_object *rail_object(const struct md_desc *desc, uint32_t r)
{
	const struct mv_dir_rail *rail = &desc->rails[r];
	struct json_object *object = json_object_new_object();
	struct json_object *gids = json_object_new_array();

	add_text(object, "device", rail->device);
	add_number(object, "port", rail->port);
	add_text(object, "netdev", rail->netdev);
	add_text(object, "link_layer",
		 rail->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet");
	add_bool(object, "up", rail->flags & MV_RAIL_UP);
	add_bool(object, "drained", rail->flags & MV_RAIL_DRAINED);
	add_bool(object, "excluded", rail->flags & MV_RAIL_EXCLUDED);
	add_number(object, "rate_mbps", rail->rate_mbps);
	add_number(object, "mtu_bytes", rail->mtu_bytes);
	add(object, "numa_node", json_object_new_int(rail->numa_node));
	if (rail->lid)
		add_number(object, "lid", rail->lid);
	for (uint32_t g = 0; g < rail->n_gids; g++)
		append(gids, gid_object(&desc->gids[rail->first_gid + g]));
	add(object, "gids", gids);
	return object;
}

static void add_rails(struct json_object *to, const struct md_desc *desc)
{
	struct json_object *rails = json_object_new_array();

	for (uint32_t r = 0; desc && r < desc->n_rails; r++)
		append(rails, rail_object(desc, r));
	add(to, "rails", rails);
}

/* ---- status ---------------------------------------------------------------------------------- */

static struct json_object *nets_array(const struct md_agent *agent)
{
	const struct md_view *view = agent->watch.view;
	struct json_object *nets = json_object_new_array();

	for (size_t i = 0; i < view->n_nets; i++) {
		struct json_object *net = json_object_new_object();

		add_text(net, "netdev", view->nets[i].name);
		add_bool(net, "running", view->nets[i].running);
		for (size_t o = 0; o < agent->announce.n; o++) {
			const struct md_outlet *outlet = &agent->announce.outlets[o];

			if (outlet->ifindex != view->nets[i].ifindex)
				continue;
			add_number(net, "interval_ms", outlet->interval_ms);
			add_number(net, "rails_heard", outlet->n_heard);
		}
		append(nets, net);
	}
	return nets;
}

static void add_public(struct json_object *to, const char *key, const struct md_public *value)
{
	char text[MD_PUBLIC_TEXT_SIZE];

	md_public_format(value, text);
	add_text(to, key, text);
}

static struct json_object *own_identity(const struct md_agent *agent)
{
	struct json_object *object = json_object_new_object();

	add_text(object, "name", agent->name);
	add_public(object, "key", &agent->trust.identity.sign);
	add_bool(object, "lasting", agent->trust.identity.lasting);
	if (agent->trust.identity.since_s)
		add_number(object, "since", agent->trust.identity.since_s);
	if (!md_public_is_zero(&agent->trust.identity.former))
		add_public(object, "former_key", &agent->trust.identity.former);
	return object;
}

/* This host's identity, and whether what an order has changed is on the disk. */
static void add_identity(struct json_object *to, const struct md_agent *agent)
{
	const struct md_trust *trust = &agent->trust;

	add(to, "identity", trust->on ? own_identity(agent) : NULL);
	if (!trust->on && *trust->why)
		add_text(to, "identity_error", trust->why);
	add_bool(to, "keys_unsaved", trust->pins.dirty || trust->save.out || trust->rotate.out);
	if (trust->pins_lost)
		add_text(to, "keys_error", "it could not be read when the agent started");
	else if (trust->save_err)
		add_text(to, "keys_error", md_strerror(trust->save_err));
	if (trust->rotate_err)
		add_text(to, "rotate_error", md_strerror(trust->rotate_err));
}

static struct json_object *report_status(const struct md_agent *agent)
{
	struct json_object *object = json_object_new_object();

	add_text(object, "agent", "meshverbsd");
	add_text(object, "version", MESHVERBS_VERSION);
	add_number(object, "agent_version", MV_CTL_VERSION);
	add_number(object, "pid", (uint64_t)getpid());
	add_id(object, "id", &agent->id);
	add_text(object, "name", agent->name);
	add_number(object, "uptime_ms", (md_now() - agent->begun_ns) / MD_MS);
	add_number(object, "port", agent->udp.port);
	add_bool(object, "has_key", md_secure_has_key(agent->secure));
	add_identity(object, agent);
	add_number(object, "hosts", agent->hosts.n);
	add_number(object, "processes", agent->clients.n);
	add_number(object, "claims", agent->clients.qps.n);
	add_number(object, "directory_generation", agent->published.generation);
	add_number(object, "directory_bytes", agent->published.size_bytes);
	add(object, "nets", nets_array(agent));
	add_rails(object, agent->watch.view->desc);
	return object;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static struct json_object *sightings_array(const struct md_agent *agent, const struct md_host *host,
					   uint64_t now_ns)
{
	struct json_object *sightings = json_object_new_array();

	for (size_t i = 0; i < host->n_sightings; i++) {
		const struct md_sighting *sighting = &host->sightings[i];
		const struct md_net *net = md_view_net(agent->watch.view, sighting->ifindex);
		union ibv_gid ip = md_paths_gid(&sighting->ip);
		struct json_object *object = json_object_new_object();

		add_text(object, "netdev", net ? net->name : "");
		add_number(object, "rail", sighting->rail);
		add_gid(object, "address", &ip);
		add_number(object, "heard_ms_ago", (now_ns - sighting->heard_ns) / MD_MS);
		append(sightings, object);
	}
	return sightings;
}

static struct json_object *host_object(const struct md_agent *agent, const struct md_host *host,
				       uint64_t now_ns)
{
	struct json_object *object = json_object_new_object();

	add_id(object, "id", &host->id);
	add_text(object, "name", host->name);
	add_number(object, "agent_version", host->agent_version);
	add_number(object, "heard_ms_ago", (now_ns - host->heard_ns) / MD_MS);
	add_bool(object, "described", host->desc != NULL);
	add(object, "heard", sightings_array(agent, host, now_ns));
	add_rails(object, host->desc);
	return object;
}

static struct json_object *target_object(const struct md_target *target)
{
	struct json_object *object = json_object_new_object();

	add_gid(object, "address", &target->gid);
	add_text(object, "name", target->name);
	add_bool(object, "answers", target->answered_ns && !target->silent_since_ns);
	if (target->answered_ns)
		add_id(object, "id", &target->host);
	return object;
}

static void report_peers(const struct md_agent *agent, FILE *out)
{
	struct list list = {.out = out};
	struct md_target *target, *next_target;
	struct md_host *host, *next;
	uint64_t now_ns = md_now();

	fputc('{', out);
	begin_list(&list, "hosts");
	HASH_ITER(hh, agent->hosts.by_id, host, next)
	{
		if (has_room(&list))
			put_item(&list, host_object(agent, host, now_ns));
		else
			list.left_out++;
	}
	end_list(&list, "hosts");
	fputc(',', out);
	begin_list(&list, "asked");
	HASH_ITER(hh, agent->targets.by_gid, target, next_target)
	{
		if (has_room(&list))
			put_item(&list, target_object(target));
		else
			list.left_out++;
	}
	end_list(&list, "asked");
	fputs("}\n", out);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static const char *trust_name(const struct md_host *host)
{
	static const char *const names[] = {[MD_TRUST_UNPINNED] = "unpinned",
					    [MD_TRUST_PINNED] = "pinned",
					    [MD_TRUST_CHANGED] = "changed",
					    [MD_TRUST_REVOKED] = "revoked"};

	return host->vouch ? names[host->vouch->trust] : "none";
}

static void add_pin(struct json_object *to, const struct md_pins *pins, const char *name)
{
	enum md_pin_how how;
	uint64_t since_s;
	const struct md_public *key = md_pins_find(pins, name, &how, &since_s);

	if (!key)
		return;
	add_public(to, "pinned_key", key);
	add_text(to, "how", md_pin_how_name(how));
	if (since_s)
		add_number(to, "since", since_s);
}

static struct json_object *host_key_object(const struct md_agent *agent, const struct md_host *host)
{
	struct json_object *object = json_object_new_object();

	add_text(object, "name", host->name);
	add_id(object, "id", &host->id);
	add_text(object, "trust", trust_name(host));
	add_bool(object, "authenticated", md_trust_is_authenticated(agent, host));
	add_number(object, "heard_ms_ago", (md_now() - host->heard_ns) / MD_MS);
	if (host->vouch)
		add_public(object, "key", &host->vouch->said.sign);
	add_pin(object, &agent->trust.pins, host->name);
	return object;
}

static struct json_object *pin_object(const struct md_pins *pins, const struct md_pin *pin)
{
	struct json_object *object = json_object_new_object();

	add_text(object, "name", pin->name);
	add_pin(object, pins, pin->name);
	if (pin->seen_s)
		add_number(object, "seen", pin->seen_s);
	return object;
}

static struct json_object *revoked_object(const struct md_revoked *revoked)
{
	struct json_object *object = json_object_new_object();

	add_text(object, "name", revoked->name);
	add_public(object, "key", &revoked->key);
	add_number(object, "since", revoked->since_s);
	return object;
}

static void report_keys(const struct md_agent *agent, FILE *out)
{
	const struct md_pins *pins = &agent->trust.pins;
	struct json_object *own = agent->trust.on ? own_identity(agent) : NULL;
	const struct md_revoked *revoked;
	struct list list = {.out = out};
	const struct md_host *host;
	const struct md_pin *pin;

	fprintf(out, "{\"fleet_key\":%s,\"identity\":%s,", md_secure_has_key(agent->secure) ? "true" : "false",
		own ? json_object_to_json_string_ext(own, JSON_C_TO_STRING_PLAIN) : "null");
	json_object_put(own);
	begin_list(&list, "hosts");
	for (host = agent->hosts.by_id; host; host = host->hh.next)
		if (has_room(&list))
			put_item(&list, host_key_object(agent, host));
		else
			list.left_out++;
	end_list(&list, "hosts");
	fputc(',', out);
	begin_list(&list, "pins");
	for (pin = pins->by_name; pin; pin = pin->hh.next)
		if (has_room(&list))
			put_item(&list, pin_object(pins, pin));
		else
			list.left_out++;
	end_list(&list, "pins");
	fputc(',', out);
	begin_list(&list, "revoked");
	for (revoked = pins->revoked; revoked; revoked = revoked->hh.next)
		put_item(&list, revoked_object(revoked));
	end_list(&list, "revoked");
	fputs("}\n", out);
}

/* ---- qualified ------------------------------------------------------------------------------- */

static void add_text_if(struct json_object *to, const char *key, const char *text)
{
	if (text[0])
		add_text(to, key, text);
}

static struct json_object *qualified_object(const struct md_qualify *q, const struct md_qualify_device *device)
{
	struct json_object *object = json_object_new_object();

	add_text(object, "device", device->name);
	add_text(object, "state", md_qualify_state_name(device->state));
	add_bool(object, "running", q->running == device);
	add_text_if(object, "board_id", device->key.board_id);
	add_text_if(object, "firmware", device->key.firmware);
	add_text_if(object, "kernel", device->key.kernel);
	add_text_if(object, "libmlx5", device->key.libmlx5);
	if (device->time_s)
		add_number(object, "time", device->time_s);
	add_text_if(object, "trial", device->trial);
	add_text_if(object, "assumption", device->assumption);
	add_text_if(object, "reason", device->reason);
	add_text_if(object, "why", device->why);
	return object;
}

static void report_qualified(const struct md_agent *agent, FILE *out)
{
	const struct md_qualify *q = &agent->qualify;
	struct json_object *waits = q->waits ? json_object_new_string(q->waits) : NULL;
	struct list list = {.out = out};

	fprintf(out, "{\"on\":%s,\"waits\":%s,", q->on ? "true" : "false",
		waits ? json_object_to_json_string_ext(waits, JSON_C_TO_STRING_PLAIN) : "null");
	json_object_put(waits);
	begin_list(&list, "devices");
	for (size_t i = 0; i < q->n; i++)
		put_item(&list, qualified_object(q, &q->devices[i]));
	end_list(&list, "devices");
	fputs("}\n", out);
}

/* ---- probed paths ---------------------------------------------------------------------------- */

static struct json_object *probe_object(const struct md_probe *probe, uint64_t now_ns)
{
	struct json_object *object = json_object_new_object();

	add_gid(object, "gid", &probe->key.local);
	add_gid(object, "peer_gid", &probe->key.remote);
	add_text(object, "state", mv_probed_name(probe->state));
	add_bool(object, "probed", probe->n_scheduled > 0);
	add_bool(object, "suspect", probe->suspect);
	if (probe->answered) {
		add_number(object, "rtt_us", probe->rtt_us);
		add_number(object, "answered_ms_ago", (now_ns - probe->answered_ns) / MD_MS);
	}
	return object;
}

static void report_probes(const struct md_agent *agent, FILE *out)
{
	struct list list = {.out = out};
	struct md_probe *probe, *next;
	uint64_t now_ns = md_now();

	fputc('{', out);
	begin_list(&list, "probes");
	HASH_ITER(hh, agent->probes.by_key, probe, next)
	{
		if (has_room(&list))
			put_item(&list, probe_object(probe, now_ns));
		else
			list.left_out++;
	}
	end_list(&list, "probes");
	fputs("}\n", out);
}

/* ---- QPs ------------------------------------------------------------------------------------- */

/* Name of a process's program; "" where it cannot be seen. */
static void read_comm(pid_t pid, char *buf, size_t size)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		n = read(fd, buf, size - 1);
		close(fd);
	}
	buf[n < 0 ? 0 : n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

/* Was found to be a JSON object when it came (client_frame.c), so it goes out as it is. */
static struct json_object *status_object(char *status)
{
	struct json_object *object = json_object_new_object();

	if (object)
		json_object_set_serializer(object, json_object_userdata_to_json_string, status,
					   NULL);
	return object;
}

/* The process of the QP before: QPs of one come together more often than not, and a look into /proc
 * takes long. */
struct shown {
	uint64_t client;
	char comm[64];
};

static struct json_object *qp_object(const struct md_agent *agent, const struct md_qp *qp,
				     struct shown *shown)
{
	const struct md_client *client = md_clients_find(&agent->clients, qp->owner);
	struct json_object *object = json_object_new_object();

	add_text(object, "device", qp->key.device);
	add_bool(object, "drained", md_drained_has(&agent->drained, qp->key.device));
	add_number(object, "qpn", qp->key.qpn);
	add_number(object, "type", qp->type);
	if (client) {
		if (shown->client != client->number)
			read_comm(client->pid, shown->comm, sizeof(shown->comm));
		shown->client = client->number;
		add_number(object, "pid", (uint64_t)client->pid);
		add_number(object, "uid", client->uid);
		add_text(object, "comm", shown->comm[0] ? shown->comm : client->name);
		add_text(object, "name", client->name);
	}
	if (qp->status)
		add(object, "status", status_object(qp->status));
	return object;
}

static void report_qps(const struct md_agent *agent, const struct md_peer *peer, FILE *out)
{
	struct list list = {.out = out};
	struct shown shown = {0};
	struct md_qp *qp, *next;

	/* Processes tell an agent that has just begun what they have, but not at once. */
	fprintf(out, "{\"up_ms\":%llu,", (unsigned long long)((md_now() - agent->begun_ns) / MD_MS));
	begin_list(&list, "qps");
	HASH_ITER(hh, agent->clients.qps.by_key, qp, next)
	{
		if (!md_peer_is_admin(peer) && peer->account != qp->account)
			continue;
		if (has_room(&list))
			put_item(&list, qp_object(agent, qp, &shown));
		else
			list.left_out++;
	}
	end_list(&list, "qps");
	fputs("}\n", out);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static struct json_object *report_metrics(const struct md_agent *agent)
{
	struct json_object *object = json_object_new_object(), *labelled;
	struct md_metric metrics[MD_METRICS_MAX];
	size_t n = md_metrics_gather(agent, metrics);

	for (size_t i = 0; i < n; i++) {
		if (!metrics[i].label) {
			add_number(object, metrics[i].name, metrics[i].value);
			continue;
		}
		if (!json_object_object_get_ex(object, metrics[i].name, &labelled)) {
			labelled = json_object_new_object();
			add(object, metrics[i].name, labelled);
		}
		if (labelled)
			add_number(labelled, metrics[i].label_value, metrics[i].value);
	}
	return object;
}

static struct json_object *report_error(const char *text)
{
	struct json_object *object = json_object_new_object();

	add_text(object, "error", text);
	return object;
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct json_object *report(const struct md_agent *agent, const char *name)
{
	if (!name)
		return report_error("write {\"get\": \"status\"} on one line; or {\"do\": "
				    "\"drain\", \"device\": \"mlx5_0\"}");
	if (!strcmp(name, "status"))
		return report_status(agent);
	if (!strcmp(name, "metrics"))
		return report_metrics(agent);
	return report_error("unknown: there are status, peers, keys, qps, probes, qualified, metrics and openmetrics");
}

static void write_report(const struct md_agent *agent, const char *name, FILE *out)
{
	struct json_object *object = report(agent, name);
	const char *text =
		object ? json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN) : NULL;

	if (text)
		fprintf(out, "%s\n", text);
	json_object_put(object);
}

bool md_report_is_long(const char *name)
{
	return !strcmp(name, "peers") || !strcmp(name, "keys") || !strcmp(name, "qps") || !strcmp(name, "probes");
}

char *md_report_answer(void *arg, const char *name, const struct md_peer *peer, size_t *ret_len)
{
	char *answer = NULL;
	FILE *out;

	if (name && !strcmp(name, "openmetrics"))
		return md_metrics_text(arg, ret_len);
	out = open_memstream(&answer, ret_len);
	if (!out)
		return NULL;
	if (name && !strcmp(name, "peers"))
		report_peers(arg, out);
	else if (name && !strcmp(name, "keys"))
		report_keys(arg, out);
	else if (name && !strcmp(name, "qps"))
		report_qps(arg, peer, out);
	else if (name && !strcmp(name, "probes"))
		report_probes(arg, out);
	else if (name && !strcmp(name, "qualified"))
		report_qualified(arg, out);
	else
		write_report(arg, name, out);
	if (!fclose(out))
		return answer;
	free(answer);
	return NULL;
}
