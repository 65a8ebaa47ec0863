/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_EXPLAIN_H
#define TOOL_EXPLAIN_H

#include <stdbool.h>

#include "decide.h"
#include "host.h"
#include "out.h"

#define EXPLAIN_SEEN_MAX 16

/* The question of `meshverbs explain`. */
struct explain {
	const char *device_name;
	uint8_t port_num; /* 0: the first one */
	bool has_index;
	uint32_t index;
	union ibv_gid dgid;
	uint16_t dlid; /* 0: the program gives a GID; else @dgid is not known before explain_lid() */
	enum mv_transport transport;
	struct mv_seen seen[EXPLAIN_SEEN_MAX];
	size_t n_seen;

	/* found on the host */
	const struct mv_device *device;
	const struct mv_port *port;
};

/**
 * explain_lid - whose is the LID of a program that connects without a GRH?
 *
 * Fills @explain->dgid, and the index of the port's own GID, by which agents know the two ends.
 *
 * Return: 0; 1: not known, which has been shown; -errno, which has been said.
 */
int explain_lid(struct out *out, const struct cli *cli, struct explain *explain);

/**
 * explain_routes - look up the routes that the decision needs, and show them
 *
 * Return: 0, or -errno of rtnetlink, which has been said.
 */
int explain_routes(struct out *out, struct host *host, const struct explain *explain);

/**
 * explain_candidates - every entry of the port with its verdict and what a program that uses it
 * gets
 *
 * Return: the entry that is best when a program has not chosen yet, or NULL.
 */
const struct mv_gid_entry *explain_candidates(struct out *out, const struct mv_topo *topo,
					      const struct explain *explain);

/**
 * explain_result - the decision in words
 * @best: from explain_candidates()
 *
 * Return: is the destination reached from this port?
 */
bool explain_result(struct out *out, const struct mv_topo *topo, const struct explain *explain,
		    const struct mv_gid_entry *best);

/**
 * explain_elsewhere - entries of other ports that reach the destination
 *
 * Return: as explain_routes().
 */
int explain_elsewhere(struct out *out, struct host *host, const struct explain *explain);

/**
 * explain_peer - what the agent's directory says of the destination, if there is one
 * @best: from explain_candidates()
 * @reached: from explain_result(); changed to what the directory knows better
 *
 * Return: 0, or -errno, which has been said.
 */
int explain_peer(struct out *out, const struct cli *cli, const struct mv_topo *topo,
		 const struct explain *explain, const struct mv_gid_entry *best, bool *reached);

/* For the above. */

/* best entry of a port for the destination, NULL when none is fit */
const struct mv_gid_entry *explain_best(const struct mv_topo *topo, const struct mv_port *port,
					const union ibv_gid *dgid);

/*
 * Is the index a hole of the table, for a connected queue pair, of which nothing was seen before? Its program reads the zero
 * GID there and hands that to its peer, so neither end can connect, whatever the hosts could agree upon.
 */
bool explain_is_hole(const struct explain *explain);

/* what the engine decides for a program that uses @index */
struct mv_decision explain_decide(const struct mv_topo *topo, const struct explain *explain,
				  uint32_t index);

/* longest address prefix of a netdev around the destination, NULL when none covers it */
const struct mv_addr *explain_covering(const struct mv_topo *topo, uint32_t ifindex,
				       const union ibv_gid *dgid);

#endif
