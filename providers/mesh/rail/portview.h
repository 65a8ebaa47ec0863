/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PORTVIEW_H
#define MESH_PORTVIEW_H

#include "context.h"

/*
 * stand_in = on: the program is shown a port that is down as active while another port of this host serves its
 * connections. Only mesh_overlay_install() decides for which contexts: it sets mc->lower.query_port. For the plugin
 * itself the port stays down: mesh_real_port().
 */

/**
 * mesh_query_port - verbs entry point. Contract, errors and thread-safety as in libibverbs
 *
 * A port that is active costs one comparison.
 */
int mesh_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr);

/**
 * mesh_portview_event - make an event of a port agree with what mesh_query_port() shows
 *
 * PORT_ERR of a port that is shown as active all the same, and PORT_ACTIVE of a port that the program never saw down,
 * become GID_CHANGE. Any thread of the program, no lock of the plugin held. Changes errno.
 */
void mesh_portview_event(struct mesh_context *mc, struct ibv_context *context, struct ibv_async_event *event);

#endif
