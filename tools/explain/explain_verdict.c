// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs explain: the verdict on each entry, and the decision in words. */
#include <string.h>

#include "entry.h"
#include "explain.h"

static const char *family_name(const union ibv_gid *gid)
{
	static const char *const names[] = {
		[MV_FAMILY_NONE] = "empty",          [MV_FAMILY_IPV4] = "IPv4",
		[MV_FAMILY_IPV6] = "IPv6",           [MV_FAMILY_LINK_LOCAL] = "link-local",
		[MV_FAMILY_MULTICAST] = "multicast",
	};

	return names[mv_gid_family(gid)];
}

const struct mv_gid_entry *explain_best(const struct mv_topo *topo, const struct mv_port *port,
					const union ibv_gid *dgid)
{
	struct mv_candidate candidate, best = {.entry = NULL};
	size_t i;

	for (i = 0; i < port->n_gids; i++) {
		mv_check_entry(topo, &port->gids[i], dgid, &candidate);
		if (candidate.verdict == MV_VERDICT_OK &&
		    (!best.entry || mv_candidate_cmp(&candidate, &best, 0) < 0))
			best = candidate;
	}
	return best.entry;
}

struct mv_decision explain_decide(const struct mv_topo *topo, const struct explain *explain,
				  uint32_t index)
{
	bool asked = explain->has_index && explain->index == index;
	struct mv_request request = {
		.device = explain->device->name,
		.port_num = explain->port->num,
		.sgid_index = index,
		.dgid = explain->dgid,
		.transport = explain->transport,
		.seen = asked && explain->n_seen ? explain->seen : NULL,
		.n_seen = asked ? explain->n_seen : 0,
	};

	return mv_decide(topo, &request);
}

bool explain_is_hole(const struct explain *explain)
{
	return explain->has_index && !explain->n_seen && explain->transport == MV_CONNECTED &&
	       explain->port->link_layer == IBV_LINK_LAYER_ETHERNET && !mv_port_gid(explain->port, explain->index);
}

/* Explains a verdict for this entry and this destination. */
static void verdict_text(const struct mv_topo *topo, const struct mv_candidate *candidate,
			 const union ibv_gid *dgid, char *buf, size_t size)
{
	const struct mv_netdev *netdev = candidate->netdev;
	const char *name = netdev ? netdev->name : "its netdev";
	const struct mv_addr *addr;
	char prefix[64];

	switch (candidate->verdict) {
	case MV_VERDICT_OK:
		addr = netdev ? explain_covering(topo, netdev->ifindex, dgid) : NULL;
		if (addr)
			snprintf(buf, size, "reaches it: %s on %s",
				 prefix_text(&addr->prefix, addr->prefix_len, prefix,
					     sizeof(prefix)),
				 name);
		else
			snprintf(buf, size, "reaches it: route of %s%s", name,
				 candidate->prefsrc ? ", whose source it is" : "");
		break;
	case MV_VERDICT_EMPTY:
		snprintf(buf, size, "empty");
		break;
	case MV_VERDICT_NO_NETDEV:
		snprintf(buf, size, "its netdev is not in this network namespace");
		break;
	case MV_VERDICT_FAMILY:
		snprintf(buf, size, "%s entry, %s destination", family_name(&candidate->entry->gid),
			 family_name(dgid));
		break;
	case MV_VERDICT_SUBNET:
		addr = netdev ? explain_covering(topo, netdev->ifindex, dgid) : NULL;
		snprintf(buf, size, "not in %s of %s",
			 addr ? prefix_text(&addr->prefix, addr->prefix_len, prefix, sizeof(prefix))
			      : "the destination's subnet",
			 name);
		break;
	case MV_VERDICT_UNROUTABLE:
		if (candidate->entry->type == MV_GID_TYPE_ROCE_V1)
			snprintf(buf, size, "no prefix of %s covers it, and routers forward no RoCE v1", name);
		else
			snprintf(buf, size, "no prefix and no route of %s covers it", name);
		break;
	case MV_VERDICT_DOWN:
		if (netdev && netdev->up)
			snprintf(buf, size, "would reach it, but %s has no carrier", name);
		else
			snprintf(buf, size, "would reach it, but %s is down", name);
		break;
	}
}

static enum out_tone verdict_tone(enum mv_verdict verdict)
{
	return verdict == MV_VERDICT_OK     ? OUT_GOOD
	       : verdict == MV_VERDICT_DOWN ? OUT_BAD
					    : OUT_PLAIN;
}

/* What a program that uses this entry gets, as a table cell. */
static void action_text(const struct mv_decision *decision, char *buf, size_t size)
{
	if (decision->action == MV_REPAIR || decision->action == MV_REPLACE)
		snprintf(buf, size, "%s: index %u", mv_action_name(decision->action),
			 decision->sgid_index);
	else
		snprintf(buf, size, "%s", mv_action_name(decision->action));
}

static void show_candidate(struct out *out, const struct mv_topo *topo,
			   const struct explain *explain, const struct mv_gid_entry *entry)
{
	struct mv_decision decision = explain_decide(topo, explain, entry->index);
	struct mv_candidate candidate;
	char text[192];

	mv_check_entry(topo, entry, &explain->dgid, &candidate);
	out_row(out);
	out_uint(out, "index", "INDEX", entry->index);
	out_gid(out, &entry->gid);
	out_text(out, "type", "TYPE", OUT_PLAIN, mv_gid_type_name(entry->type));
	out_netdev(out, candidate.netdev);
	out_text(out, "action", NULL, OUT_PLAIN, mv_action_name(decision.action));
	out_text(out, "reason", NULL, OUT_PLAIN, mv_reason_name(decision.reason));
	out_uint(out, "uses_index", NULL, decision.sgid_index);
	action_text(&decision, text, sizeof(text));
	out_text(out, NULL, "IF USED", OUT_PLAIN, text);
	out_text(out, "verdict", NULL, OUT_PLAIN, mv_verdict_name(candidate.verdict));
	verdict_text(topo, &candidate, &explain->dgid, text, sizeof(text));
	out_text(out, "verdict_text", "VERDICT", verdict_tone(candidate.verdict), text);
}

const struct mv_gid_entry *explain_candidates(struct out *out, const struct mv_topo *topo,
					      const struct explain *explain)
{
	const struct mv_port *port = explain->port;
	size_t i;

	out_list(out, "candidates", "Candidates");
	if (port->link_layer == IBV_LINK_LAYER_ETHERNET)
		for (i = 0; i < port->n_gids; i++)
			show_candidate(out, topo, explain, &port->gids[i]);
	out_list_end(out);
	return port->link_layer == IBV_LINK_LAYER_ETHERNET
		       ? explain_best(topo, port, &explain->dgid)
		       : NULL;
}

static bool reaches(const struct mv_decision *decision)
{
	return decision->action != MV_PASS && decision->reason != MV_REASON_PORT_DOWN;
}

static void decision_words(const struct mv_decision *decision, uint32_t index, char *buf,
			   size_t size)
{
	const char *reason = mv_reason_text(decision->reason);
	char gid[MV_GID_STRLEN];

	switch (decision->action) {
	case MV_KEEP:
		snprintf(buf, size, "a program that uses index %u keeps it: %s", index, reason);
		break;
	case MV_REPAIR:
	case MV_REPLACE:
		snprintf(buf, size, "a program that uses index %u gets index %u (%s) instead: %s",
			 index, decision->sgid_index, mv_gid_format(&decision->gid, gid), reason);
		break;
	case MV_PASS:
		snprintf(buf, size,
			 "a program that uses index %u gets it unchanged, and should not expect it "
			 "to work: %s",
			 index, reason);
		break;
	}
}

/* Advises on an index for the program, if any works. @hole: the program's own index is empty. */
static void advise(struct out *out, const struct explain *explain, const struct mv_gid_entry *instead, bool hole)
{
	if (instead)
		out_textf(out, "advice", "Advice", OUT_PLAIN,
			  "start the program with index %u (ibv_*_pingpong -g, perftest -x, NCCL_IB_GID_INDEX, UCX_IB_GID_INDEX)",
			  instead->index);
	else if (hole)
		out_textf(out, "advice", "Advice", OUT_PLAIN, "start the program with an index that has a GID: meshverbs gids -d %s",
			  explain->device->name);
	else
		out_text(out, "advice", NULL, OUT_PLAIN, NULL);
}

/* The index is given: the result for one program. @best: from explain_candidates() */
static bool result_of_index(struct out *out, const struct explain *explain, const struct mv_topo *topo,
			    const struct mv_gid_entry *best)
{
	struct mv_decision decision = explain_decide(topo, explain, explain->index);
	bool hole = explain_is_hole(explain), good = !hole && reaches(&decision);
	char text[512];

	if (hole)
		snprintf(text, sizeof(text), "index %u is empty: a program that reads it gets the zero GID, hands that to its peer, and "
					     "neither end connects", explain->index);
	else
		decision_words(&decision, explain->index, text, sizeof(text));
	out_text(out, "action", NULL, OUT_PLAIN, mv_action_name(decision.action));
	out_text(out, "reason", NULL, OUT_PLAIN, mv_reason_name(decision.reason));
	out_uint(out, "index", NULL, decision.sgid_index);
	out_bool(out, "reaches", NULL, good);
	out_text(out, "text", "Decision", good ? OUT_GOOD : OUT_BAD, text);
	advise(out, explain, hole ? best : decision.alternative, hole);
	return good;
}

/* No index is given: the best one, or why none is needed or exists. */
static bool result_of_port(struct out *out, const struct explain *explain,
			   const struct mv_topo *topo, const struct mv_gid_entry *best)
{
	struct mv_decision any = explain_decide(topo, explain, best ? best->index : 0);
	bool whatever = any.reason == MV_REASON_INFINIBAND || any.reason == MV_REASON_SELF;
	char gid[MV_GID_STRLEN];

	out_text(out, "action", NULL, OUT_PLAIN, NULL);
	out_text(out, "reason", NULL, OUT_PLAIN,
		 best || whatever ? mv_reason_name(any.reason) : NULL);
	if (best)
		out_uint(out, "index", NULL, best->index);
	else
		out_text(out, "index", NULL, OUT_PLAIN, NULL);
	out_bool(out, "reaches", NULL, best || whatever);
	if (whatever)
		out_textf(out, "text", "Decision", OUT_GOOD, "every index is kept: %s",
			  mv_reason_text(any.reason));
	else if (best)
		out_textf(out, "text", "Decision", OUT_GOOD,
			  "index %u (%s) is the best entry for it", best->index,
			  mv_gid_format(&best->gid, gid));
	else
		out_textf(out, "text", "Decision", OUT_BAD, "no entry of %s port %u reaches it",
			  explain->device->name, explain->port->num);
	out_text(out, "advice", NULL, OUT_PLAIN, NULL);
	return best || whatever;
}

bool explain_result(struct out *out, const struct mv_topo *topo, const struct explain *explain,
		    const struct mv_gid_entry *best)
{
	bool reached;

	out_section(out, "result", "Result");
	if (explain->has_index)
		reached = result_of_index(out, explain, topo, best);
	else
		reached = result_of_port(out, explain, topo, best);
	out_section_end(out);
	return reached;
}
