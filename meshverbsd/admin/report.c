/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reports of the control socket, as JSON. */
#include "reportint.h"

#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "agent_log.h"
#include "ctl.h"
#include "metrics.h"

/* ---- rails ----------------------------------------------------------------------------------- */

static struct json_object *gid_object(const struct mv_dir_gid *gid)
{
	struct json_object *object = json_object_new_object();

	md_json_add_gid(object, "gid", &gid->gid);
	if (mv_dir_gid_in_grace(gid)) {
		json_object_object_add(object, "index", NULL);
		md_json_add_text(object, "type", "gone");
	} else {
		md_json_add_number(object, "index", gid->index);
		md_json_add_text(object, "type", mv_gid_type_name((enum mv_gid_type)gid->type));
	}
	if (gid->vlan_id != MV_VLAN_NONE)
		md_json_add_number(object, "vlan", gid->vlan_id);
	if (gid->prefix_len)
		md_json_add_number(object, "prefix_len", gid->prefix_len);
	return object;
}

static struct json_object *rail_object(const struct md_desc *desc, uint32_t r)
{
	const struct mv_dir_rail *rail = &desc->rails[r];
	struct json_object *object = json_object_new_object();
	struct json_object *gids = json_object_new_array();

	md_json_add_text(object, "device", rail->device);
	md_json_add_number(object, "port", rail->port);
	md_json_add_text(object, "netdev", rail->netdev);
	md_json_add_text(object, "link_layer",
		 rail->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet");
	md_json_add_bool(object, "up", rail->flags & MV_RAIL_UP);
	md_json_add_bool(object, "drained", rail->flags & MV_RAIL_DRAINED);
	md_json_add_bool(object, "excluded", rail->flags & MV_RAIL_EXCLUDED);
	md_json_add_number(object, "rate_mbps", rail->rate_mbps);
	md_json_add_number(object, "mtu_bytes", rail->mtu_bytes);
	md_json_add(object, "numa_node", json_object_new_int(rail->numa_node));
	if (rail->lid)
		md_json_add_number(object, "lid", rail->lid);
	for (uint32_t g = 0; g < rail->n_gids; g++)
		md_json_append(gids, gid_object(&desc->gids[rail->first_gid + g]));
	md_json_add(object, "gids", gids);
	return object;
}

static void add_rails(struct json_object *to, const struct md_desc *desc)
{
	struct json_object *rails = json_object_new_array();

	for (uint32_t r = 0; desc && r < desc->n_rails; r++)
		md_json_append(rails, rail_object(desc, r));
	md_json_add(to, "rails", rails);
}

/* ---- status ---------------------------------------------------------------------------------- */

static struct json_object *nets_array(const struct md_agent *agent)
{
	const struct md_view *view = agent->watch.view;
	struct json_object *nets = json_object_new_array();

	for (size_t i = 0; i < view->n_nets; i++) {
		struct json_object *net = json_object_new_object();

		md_json_add_text(net, "netdev", view->nets[i].name);
		md_json_add_bool(net, "running", view->nets[i].running);
		for (size_t o = 0; o < agent->tx.announce.n; o++) {
			const struct md_outlet *outlet = &agent->tx.announce.outlets[o];

			if (outlet->ifindex != view->nets[i].ifindex)
				continue;
			md_json_add_number(net, "interval_ms", outlet->interval_ms);
			md_json_add_number(net, "rails_heard", outlet->n_heard);
		}
		md_json_append(nets, net);
	}
	return nets;
}

struct json_object *md_report_own_identity(const struct md_agent *agent)
{
	struct json_object *object = json_object_new_object();

	md_json_add_text(object, "name", agent->self.name);
	md_json_add_public(object, "key", &agent->trust.identity.sign);
	md_json_add_bool(object, "lasting", agent->trust.identity.lasting);
	if (agent->trust.identity.since_s)
		md_json_add_number(object, "since", agent->trust.identity.since_s);
	if (!md_public_is_zero(&agent->trust.identity.former))
		md_json_add_public(object, "former_key", &agent->trust.identity.former);
	return object;
}

/* This host's identity, and whether changes by orders are saved. */
static void add_identity(struct json_object *to, const struct md_agent *agent)
{
	const struct md_trust *trust = &agent->trust;

	md_json_add(to, "identity", trust->on ? md_report_own_identity(agent) : NULL);
	if (!trust->on && *trust->why)
		md_json_add_text(to, "identity_error", trust->why);
	md_json_add_bool(to, "keys_unsaved", trust->pins.dirty || trust->save.out || trust->rotate.out);
	if (trust->pins_lost)
		md_json_add_text(to, "keys_error", "it could not be read when the agent started");
	else if (trust->save_err)
		md_json_add_text(to, "keys_error", md_strerror(trust->save_err));
	if (trust->rotate_err)
		md_json_add_text(to, "rotate_error", md_strerror(trust->rotate_err));
}

static struct json_object *report_status(const struct md_agent *agent)
{
	struct json_object *object = json_object_new_object();

	md_json_add_text(object, "agent", "meshverbsd");
	md_json_add_text(object, "version", MESHVERBS_VERSION);
	md_json_add_number(object, "agent_version", MV_CTL_VERSION);
	md_json_add_number(object, "pid", (uint64_t)getpid());
	md_json_add_id(object, "id", &agent->self.id);
	md_json_add_text(object, "name", agent->self.name);
	md_json_add_number(object, "uptime_ms", (md_now() - agent->self.begun_ns) / MD_MS);
	md_json_add_number(object, "port", agent->udp.port);
	md_json_add_bool(object, "has_key", md_secure_has_key(agent->secure));
	add_identity(object, agent);
	md_json_add_number(object, "hosts", agent->hosts.n);
	md_json_add_number(object, "processes", agent->clients.n);
	md_json_add_number(object, "registered_qps", agent->clients.qps.n);
	md_json_add_number(object, "claims", agent->clients.qps.n); /* former name, until the next release */
	md_json_add_number(object, "directory_generation", agent->publishing.published.generation);
	md_json_add_number(object, "directory_bytes", agent->publishing.published.size_bytes);
	md_json_add(object, "nets", nets_array(agent));
	add_rails(object, agent->watch.view->desc);
	return object;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static struct json_object *sightings_array(const struct md_agent *agent, const struct md_host *host,
					   uint64_t now_ns)
{
	struct json_object *sightings = json_object_new_array();

	for (size_t i = 0; i < host->sightings.n; i++) {
		const struct md_sighting *sighting = &host->sightings.list[i];
		const struct md_net *net = md_view_net(agent->watch.view, sighting->ifindex);
		union ibv_gid ip = md_paths_gid(&sighting->ip);
		struct json_object *object = json_object_new_object();

		md_json_add_text(object, "netdev", net ? net->name : "");
		md_json_add_number(object, "rail", sighting->rail);
		md_json_add_gid(object, "address", &ip);
		md_json_add_number(object, "heard_ms_ago", (now_ns - sighting->heard_ns) / MD_MS);
		md_json_append(sightings, object);
	}
	return sightings;
}

static struct json_object *host_object(const struct md_agent *agent, const struct md_host *host,
				       uint64_t now_ns)
{
	struct json_object *object = json_object_new_object();

	md_json_add_id(object, "id", &host->id);
	md_json_add_text(object, "name", host->name);
	md_json_add_number(object, "agent_version", host->agent_version);
	md_json_add_number(object, "heard_ms_ago", (now_ns - host->heard_ns) / MD_MS);
	md_json_add_bool(object, "described", host->desc != NULL);
	md_json_add(object, "heard", sightings_array(agent, host, now_ns));
	add_rails(object, host->desc);
	return object;
}

static struct json_object *target_object(const struct md_target *target)
{
	struct json_object *object = json_object_new_object();

	md_json_add_gid(object, "address", &target->gid);
	md_json_add_text(object, "name", target->name);
	md_json_add_bool(object, "answers", target->answered_ns && !target->silent_since_ns);
	if (target->answered_ns)
		md_json_add_id(object, "id", &target->host);
	return object;
}

static void report_peers(const struct md_agent *agent, FILE *out)
{
	struct md_json_list list = {.out = out};
	struct md_target *target, *next_target;
	struct md_host *host, *next;
	uint64_t now_ns = md_now();

	fputc('{', out);
	md_json_list_begin(&list, "hosts");
	HASH_ITER(hh, agent->hosts.by_id, host, next)
	{
		if (md_json_list_has_room(&list))
			md_json_list_put(&list, host_object(agent, host, now_ns));
		else
			list.left_out++;
	}
	md_json_list_end(&list, "hosts");
	fputc(',', out);
	md_json_list_begin(&list, "asked");
	HASH_ITER(hh, agent->targets.by_gid, target, next_target)
	{
		if (md_json_list_has_room(&list))
			md_json_list_put(&list, target_object(target));
		else
			list.left_out++;
	}
	md_json_list_end(&list, "asked");
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
			md_json_add_number(object, metrics[i].name, metrics[i].value);
			continue;
		}
		if (!json_object_object_get_ex(object, metrics[i].name, &labelled)) {
			labelled = json_object_new_object();
			md_json_add(object, metrics[i].name, labelled);
		}
		if (labelled)
			md_json_add_number(labelled, metrics[i].label_value, metrics[i].value);
	}
	return object;
}

static struct json_object *report_error(const char *text)
{
	struct json_object *object = json_object_new_object();

	md_json_add_text(object, "error", text);
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
		md_report_keys(arg, out);
	else if (name && !strcmp(name, "qps"))
		md_report_qps(arg, peer, out);
	else if (name && !strcmp(name, "probes"))
		md_report_probes(arg, out);
	else if (name && !strcmp(name, "qualified"))
		md_report_qualified(arg, out);
	else
		write_report(arg, name, out);
	if (!fclose(out))
		return answer;
	free(answer);
	return NULL;
}
