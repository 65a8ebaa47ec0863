/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PORTS_H
#define MESH_PORTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/**
 * mesh_port_event - process an asynchronous event of a device
 * @ports_down: bits of ports (1 to 31), of its context or rail: set by PORT_ERR, cleared by PORT_ACTIVE
 *
 * Any thread. Return: true: PORT_ERR, so connections have to be checked.
 */
bool mesh_port_event(_Atomic uint32_t *ports_down, const struct ibv_async_event *event);

/**
 * mesh_port_is_down - is a port down by its events?
 *
 * The program may read events late, or not all. So a port that seems down is queried, and the answer is stored.
 */
bool mesh_port_is_down(_Atomic uint32_t *ports_down, struct ibv_context *context, uint8_t port);

#endif
