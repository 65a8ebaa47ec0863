/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
	struct md_metric *at;
	size_t n;
};

static void add(struct list *list, bool counter, const char *name, const char *label,
		const char *label_value, uint64_t value, const char *help)
{
	if (list->n < MD_METRICS_MAX)
		list->at[list->n++] =
			(struct md_metric){name, label, label_value, help, counter, value};
}

static void counter(struct list *list, const char *name, uint64_t value, const char *help)
{
	add(list, true, name, NULL, NULL, value, help);
}

static void gauge(struct list *list, const char *name, uint64_t value, const char *help)
{
	add(list, false, name, NULL, NULL, value, help);
}

static void add_datagrams(struct list *list, const struct md_agent *agent)
{
	const struct md_counts *counts = &agent->counts;

	counter(list, "datagrams_sent", counts->datagrams.sent,
		"Datagrams to single agents that were sent");
	counter(list, "datagrams_failed", counts->datagrams.failed,
		"Datagrams that the kernel would not send");
	counter(list, "datagrams_held", counts->datagrams.held,
		"Datagrams that were not sent because their netdev had no carrier");
	counter(list, "datagrams_received", counts->datagrams.received, "Datagrams received");
	for (int v = MD_OPEN_UNPROVEN; v < MD_OPEN_N_VERDICTS; v++)
		add(list, true, "datagrams_rejected", "reason", md_verdict_name((enum md_verdict)v),
		    counts->verdicts[v], "Datagrams dropped, by reason");
	add(list, true, "datagrams_rejected", "reason", "malformed_payload",
	    counts->payloads.malformed, "Datagrams dropped, by reason");
	add(list, true, "datagrams_rejected", "reason", "payload_version", counts->payloads.version,
	    "Datagrams dropped, by reason");
}

static void add_beacons(struct list *list, const struct md_agent *agent)
{
	const struct md_counts *counts = &agent->counts;

	counter(list, "beacons_sent", counts->beacons.sent, "Beacons sent, each piece of one");
	counter(list, "beacons_received", counts->beacons.received, "Beacons received");
	counter(list, "beacons_unchanged", counts->beacons.unchanged,
		"Beacons received that told nothing new");
	counter(list, "beacons_rejected", counts->beacons.rejected,
		"Beacons received that could not be used");
	counter(list, "queries_sent", counts->queries.sent, "Queries sent");
	counter(list, "queries_received", counts->queries.received, "Queries received");
	counter(list, "queries_refused", counts->queries.refused,
		"Queries not answered because there were too many");
	counter(list, "entries_sent", counts->entries.sent, "Answers to queries sent, and answers sent unasked because this host has changed");
	counter(list, "entries_received", counts->entries.received, "Answers to queries received");
	counter(list, "entries_rejected", counts->entries.rejected,
		"Answers to queries that could not be used");
}

/* Excluded ports are often not cabled, so their state does not matter. */
static void count_rails(const struct md_agent *agent, uint64_t *ret_n, uint64_t *ret_up)
{
	const struct md_desc *desc = agent->watch.view->desc;

	*ret_n = *ret_up = 0;
	for (uint32_t r = 0; r < desc->n_rails; r++) {
		if (mv_config_list_match(&agent->options->config.exclude, desc->rails[r].device))
			continue;
		++*ret_n;
		*ret_up += (desc->rails[r].flags & MV_RAIL_UP) != 0;
	}
}

static void add_hosts(struct list *list, const struct md_agent *agent)
{
	const struct md_desc *desc = agent->watch.view->desc;
	uint64_t n, up;

	count_rails(agent, &n, &up);
	gauge(list, "hosts", agent->hosts.n, "Other hosts known");
	gauge(list, "hosts_bytes", agent->hosts.bytes, "Memory of their descriptions");
	counter(list, "hosts_refused", agent->hosts.n_refused, "Hosts for which there was no room");
	counter(list, "hosts_forgotten", agent->hosts.n_forgotten, "Hosts that made room for hosts on links with fewer ones");
	counter(list, "descriptions_held_back", agent->hosts.n_held_back,
		"Descriptions of hosts that change too often for one without proof, not taken yet");
	gauge(list, "targets", agent->targets.n, "Addresses that are asked whose they are");
	gauge(list, "rails", n, "Rails of this host that are not excluded");
	gauge(list, "rails_up", up, "Rails of this host that are up");
	gauge(list, "gids", desc->n_gids, "GIDs of this host");
	counter(list, "looks", agent->watch.n_looks, "Times that the local devices were read");
	counter(list, "looks_failed", agent->watch.n_failed,
		"Times that the local devices could not be read");
	counter(list, "directory_writes", agent->counts.published,
		"Times the directory was written");
	counter(list, "directory_failures", agent->counts.publish_failed,
		"Times the directory could not be written");
	gauge(list, "directory_bytes", agent->publishing.published.size_bytes, "Size of the directory");
}

static void add_keys(struct list *list, const struct md_agent *agent)
{
	const struct md_trust *trust = &agent->trust;
	const struct md_host *host;
	uint64_t n = 0;

	for (host = agent->hosts.by_id; host; host = host->hh.next)
		n += md_trust_is_authenticated(agent, host);
	gauge(list, "hosts_authenticated", n, "Other hosts of which what they say is known to be theirs: by the fleet key, or a pinned one");
	gauge(list, "host_keys", trust->pins.n, "Keys of hosts that are pinned");
	counter(list, "host_keys_changed", trust->count.changed, "Times a host showed another key than the pinned one, or a revoked one");
	counter(list, "host_keys_rotated", trust->count.rotated, "Times a host showed a new key that its former one has signed");
	counter(list, "impostors", trust->count.impostors, "Statements with another key in the name of a host whose key is known");
	counter(list, "statements_received", trust->count.received, "Statements of hosts about themselves received");
	counter(list, "statements_rejected", trust->count.rejected, "Of these, those that were not right");
	counter(list, "statements_throttled", trust->count.throttled, "Of these, those not verified because there were too many");
}

static void add_qualified(struct list *list, const struct md_agent *agent)
{
	const struct md_qualify *q = &agent->qualify;
	uint64_t n[MD_QUALIFY_REFUSED + 1] = {0};

	for (size_t i = 0; i < q->n; i++)
		n[q->devices[i].state]++;
	for (size_t s = 0; s <= MD_QUALIFY_REFUSED; s++)
		add(list, false, "devices_qualification", "state", md_qualify_state_name((enum md_qualify_state)s), n[s],
		    "Devices of this host by whether they have qualified (survive = auto)");
	counter(list, "qualifications", q->n_runs, "Times the agent had it found out whether a device qualifies");
	counter(list, "qualifications_interrupted", q->n_interrupted, "Of these, those ended because a program came");
}

static void add_messages(struct list *list, const struct md_agent *agent)
{
	const struct md_counts *counts = &agent->counts;
	const struct md_msg_relay *relay = &agent->msg_router.relay;

	gauge(list, "messages_waiting", relay->n, "Messages under way to other agents");
	counter(list, "messages_accepted", relay->count.accepted,
		"Messages of processes taken for other hosts");
	counter(list, "messages_arrived", relay->count.arrived, "Of these, those that arrived");
	counter(list, "messages_unreachable", relay->count.unreachable, "Of these, those given up");
	counter(list, "messages_retried", relay->count.retried, "Times a message was repeated");
	counter(list, "messages_merged", relay->count.merged,
		"Messages that were under way when their process said them again");
	counter(list, "messages_dropped", relay->count.no_room,
		"Messages of processes for which there was no room");
	counter(list, "messages_received", relay->count.received, "Messages from other hosts");
	counter(list, "messages_repeated", relay->count.repeated, "Further copies of these");
	counter(list, "messages_not_theirs", counts->messages.not_theirs,
		"Messages dropped, as the host that sent them has not the GID that they are from, or that of the path they offer");
	counter(list, "messages_throttled", counts->messages.throttled,
		"Messages dropped: their host, or all of them, sent too many");
	counter(list, "messages_not_ours", counts->messages.not_ours,
		"Messages for a GID that this host does not have");
	counter(list, "messages_unregistered", counts->messages.unregistered,
		"Messages for a QP that no process has registered");
	counter(list, "messages_delivered", agent->clients.count.delivered,
		"Messages handed to processes");
	counter(list, "messages_undelivered", agent->clients.count.not_delivered,
		"Messages lost because a process did not read its socket");
}

static void add_probes(struct list *list, const struct md_agent *agent)
{
	const struct md_probes *probes = &agent->prober.probes;

	gauge(list, "paths_probed", probes->n_scheduled, "Paths that are probed");
	gauge(list, "paths_suspect", probes->n_suspect, "Of these, those that do not answer just now");
	gauge(list, "paths_down", probes->n_down, "Of these, those that are dead");
	counter(list, "path_failures", probes->count.down, "Times that probes found a path dead");
	counter(list, "path_recoveries", probes->count.recovered, "Times that such a path answered again");
	counter(list, "path_warnings", probes->count.warnings, "Times that processes were warned of a path that did not answer");
	counter(list, "probes_sent", probes->count.sent, "Probes sent");
	counter(list, "probes_failed", probes->count.not_sent, "Probes that could not be sent, or were for a port that is down");
	counter(list, "probes_held", probes->count.held, "Probes that were not sent because room to send was scarce");
	counter(list, "probes_spared", probes->count.spared, "Probes that were not due yet, because those of the peer had told as much");
	counter(list, "probes_answered", probes->count.echoes, "Probes answered");
	counter(list, "probe_rounds", probes->count.rounds,
		"Rounds in which a path was silent while another one to the same host answered");
	counter(list, "probe_rounds_void", probes->count.void_rounds,
		"Rounds that said nothing of the path: no other one answered, or datagrams had been dropped");
	counter(list, "probes_late", probes->count.late, "Turns of probing that came more than an interval late: no processor");
	counter(list, "bundles_sent", agent->counts.bundles.sent, "Datagrams with many messages or acks sent");
	counter(list, "bundles_received", agent->counts.bundles.received, "Such datagrams of other hosts");
	counter(list, "probes_received", agent->counts.probes.received, "Probes of other hosts");
	counter(list, "probes_astray", agent->counts.probes.astray,
		"Probes and echoes that came in by another netdev than the address is on");
	counter(list, "probes_refused", agent->counts.probes.refused,
		"Probes of other hosts that were too many to answer, or for which there was no room");
	counter(list, "echoes_sent", agent->counts.echoes.sent, "Answers to probes of other hosts");
	counter(list, "echoes_held", agent->counts.echoes.held,
		"Probes not answered over paths that are dead, because room to send was scarce");
	counter(list, "echoes_stray", probes->count.stray, "Answers to probes that were not sent");
	counter(list, "watches_refused", agent->clients.count.watches_refused,
		"Paths that processes wanted watched and that are not");
}

static void add_processes(struct list *list, const struct md_agent *agent)
{
	const struct md_clients *clients = &agent->clients;

	gauge(list, "processes", clients->n, "Processes connected");
	gauge(list, "processes_unread_bytes", clients->closing.unread_bytes,
	      "Sent to processes of others than root, and not read by them");
	gauge(list, "registered_qps", clients->qps.n, "QPs that processes have registered");
	counter(list, "process_connections", clients->count.connected, "Processes that connected");
	counter(list, "process_refusals", clients->count.refused,
		"Processes refused because there were too many");
	counter(list, "control_refusals", agent->controls.n_refusals,
		"Control connections refused because there were too many, of all or of one user");
	counter(list, "frames_received", clients->count.frames, "Frames from processes");
	counter(list, "frames_malformed", clients->count.malformed,
		"Frames or messages that were malformed");
	counter(list, "registrations", clients->count.registrations, "Registrations taken");
	counter(list, "registrations_refused", clients->count.registrations_refused,
		"Registrations of QPs that belong to others, or too many");
	counter(list, "messages_forged", clients->count.not_its_own,
		"Messages in the name of a QP that the process had not registered");
	/* Former names, until the next release. */
	gauge(list, "claims", clients->qps.n, "Former name of registered_qps");
	counter(list, "claims_made", clients->count.registrations, "Former name of registrations");
	counter(list, "claims_refused", clients->count.registrations_refused, "Former name of registrations_refused");
	counter(list, "messages_unclaimed", agent->counts.messages.unregistered, "Former name of messages_unregistered");
}

static const char *name_of(size_t place, bool former)
{
	const char *name = mv_count_row(place)->name;

	return name && former ? mv_count_former(name) : name;
}

static bool is_of(size_t place, const char *name, bool former)
{
	return name_of(place, former) && !strcmp(name_of(place, former), name);
}

static bool is_first(size_t place, bool former)
{
	const char *name = name_of(place, former);

	for (size_t i = 0; name && i < place; i++)
		if (is_of(i, name, former))
			return false;
	return name;
}

/* Positions are historical; metrics of one name are put together here. */
static void add_counts(struct list *list, const struct md_agent *agent, bool former)
{
	uint64_t sums[MV_COUNTS_MAX];

	md_clients_counts(&agent->clients, sums);
	for (size_t first = 0; first < MV_N_COUNTS; first++) {
		for (size_t i = first; is_first(first, former) && i < MV_N_COUNTS; i++) {
			const struct mv_count_row *row = mv_count_row(i);

			if (is_of(i, name_of(first, former), former))
				add(list, true, name_of(i, former), row->label, row->label_value, sums[i], row->help);
		}
	}
}

size_t md_metrics_gather(const struct md_agent *agent, struct md_metric *ret)
{
	struct list list = {.at = ret};

	gauge(&list, "uptime_seconds", (md_now() - agent->self.begun_ns) / MD_S,
	      "Seconds since the agent started");
	add_hosts(&list, agent);
	add_beacons(&list, agent);
	add_datagrams(&list, agent);
	add_keys(&list, agent);
	add_qualified(&list, agent);
	add_messages(&list, agent);
	add_probes(&list, agent);
	add_processes(&list, agent);
	add_counts(&list, agent, false);
	add_counts(&list, agent, true);
	return list.n;
}

/* Buckets of a histogram are cumulative. */
static void write_pauses(FILE *out, const struct md_agent *agent)
{
	static const char name[] = "meshverbs_pause_seconds";
	const struct mv_pause_row *row;
	uint64_t sums[MV_COUNTS_MAX], n;

	md_clients_counts(&agent->clients, sums);
	fprintf(out, "# TYPE %s histogram\n# UNIT %s seconds\n# HELP %s Time that connections took to move, "
		     "or to be left where they were, by cause.\n", name, name, name);
	for (row = mv_pause_rows(); row->cause; row++) {
		n = 0;
		for (size_t b = 0; b < MV_PAUSE_BUCKETS; b++) {
			n += sums[row->first + b];
			fprintf(out, "%s_bucket{cause=\"%s\",le=\"", name, row->cause);
			if (mv_pause_bound_us(b) == UINT64_MAX)
				fputs("+Inf", out);
			else
				fprintf(out, "%g", (double)mv_pause_bound_us(b) / 1e6);
			fprintf(out, "\"} %llu\n", (unsigned long long)n);
		}
		fprintf(out, "%s_count{cause=\"%s\"} %llu\n%s_sum{cause=\"%s\"} %.6f\n", name, row->cause,
			(unsigned long long)n, name, row->cause,
			(double)sums[row->first + MV_PAUSE_BUCKETS] / 1e6);
	}
}

char *md_metrics_text(const struct md_agent *agent, size_t *ret_len)
{
	struct md_metric metrics[MD_METRICS_MAX];
	size_t n = md_metrics_gather(agent, metrics);
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	if (!out)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const struct md_metric *m = &metrics[i];
		const char *suffix = m->counter ? "_total" : "";

		if (!i || strcmp(m->name, metrics[i - 1].name))
			fprintf(out, "# TYPE meshverbs_%s %s\n# HELP meshverbs_%s %s.\n", m->name,
				m->counter ? "counter" : "gauge", m->name, m->help);
		fprintf(out, "meshverbs_%s%s", m->name, suffix);
		if (m->label)
			fprintf(out, "{%s=\"%s\"}", m->label, m->label_value);
		fprintf(out, " %llu\n", (unsigned long long)m->value);
	}
	write_pauses(out, agent);
	fputs("# EOF\n", out);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
