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
	uint8_t port_num; /* 0: the first port */
	bool has_index;
	uint32_t index;
	union ibv_gid dgid;
	uint16_t dlid; /* 0: the program gives a GID; else explain_lid() fills in @dgid */
	enum mv_transport transport;
	struct mv_seen seen[EXPLAIN_SEEN_MAX];
	size_t n_seen;

	/* found on the host */
	const struct mv_device *device;
	const struct mv_port *port;
};

/**
 * explain_lid - find the port with the LID, for a program that connects without a GRH
 *
 * Fills in @explain->dgid, and the index of the own port's GID, by which agents identify the ends.
 *
 * Return: 0; 1: not known, which was shown; -errno, after an error message.
 */
int explain_lid(struct out *out, const struct cli *cli, struct explain *explain);

/**
 * explain_routes - look up the routes that the decision needs, and show them
 *
 * Return: 0; -errno of rtnetlink, after an error message.
 */
int explain_routes(struct out *out, struct host *host, const struct explain *explain);

/**
 * explain_candidates - show each entry of the port with its verdict, and what a program that uses it gets
 *
 * Return: the best entry for a program that has not chosen one, in @topo; NULL: none.
 */
const struct mv_gid_entry *explain_candidates(struct out *out, const struct mv_topo *topo,
					      const struct explain *explain);

/**
 * explain_result - show the decision in words
 * @best: from explain_candidates()
 *
 * Return: true: the destination is reached from this port.
 */
bool explain_result(struct out *out, const struct mv_topo *topo, const struct explain *explain,
		    const struct mv_gid_entry *best);

/**
 * explain_elsewhere - show entries of other ports that reach the destination
 *
 * Return: as explain_routes().
 */
int explain_elsewhere(struct out *out, struct host *host, const struct explain *explain);

/**
 * explain_peer - show what the agent's directory tells about the destination, if there is one
 * @best: from explain_candidates()
 * @reached: in: from explain_result(); out: corrected by the directory
 *
 * Return: 0; -errno, after an error message.
 */
int explain_peer(struct out *out, const struct cli *cli, const struct mv_topo *topo,
		 const struct explain *explain, const struct mv_gid_entry *best, bool *reached);

/* Shared by the files explain*.c. */

/* Best entry of a port for the destination; NULL: none is fit. */
const struct mv_gid_entry *explain_best(const struct mv_topo *topo, const struct mv_port *port,
					const union ibv_gid *dgid);

/*
 * Is the index empty, for a connected queue pair that has seen nothing there? Its program reads the zero GID and gives
 * that to its peer, so neither end can connect, whatever the hosts could agree upon.
 */
bool explain_is_hole(const struct explain *explain);

/* The engine's decision for a program that uses @index. */
struct mv_decision explain_decide(const struct mv_topo *topo, const struct explain *explain,
				  uint32_t index);

/* Longest address prefix of a netdev that covers the destination; NULL: none. */
const struct mv_addr *explain_covering(const struct mv_topo *topo, uint32_t ifindex,
				       const union ibv_gid *dgid);

#endif
