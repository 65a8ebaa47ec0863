/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TEST_SEALED_H
#define MESH_TEST_SEALED_H

#include "connect.h"

static struct mv_host_id said_by; /* the host that they are from; zero: not told */

/* Messages that come to a connection, sealed with their from_psn and to_psn as their sender would. */

static inline uint64_t message_comes(struct mesh_conn *to, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint64_t at_ns,
				     uint64_t silent_ns)
{
	struct mv_ctl_keys sealed_keys = *keys;
	struct mv_ctl_msg sealed = *msg;

	mv_proof_seal(&sealed, &sealed_keys);
	return mesh_conn_message(to, &said_by, &sealed, &sealed_keys, at_ns, silent_ns);
}

static inline void key_message_comes(struct mesh_conn *to, const struct mv_ctl_msg *msg)
{
	struct mv_ctl_msg sealed = *msg;

	mv_proof_seal(&sealed, NULL);
	mesh_conn_key_message(to, &said_by, &sealed, mesh_now_ns());
}

#endif
