/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PORTS_H
#define MESH_PORTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/**
 * mesh_port_event - an asynchronous event of a device has been read
 * @ports_down: of its context or rail: bits of ports (1 to 31) that are set by PORT_ERR, and cleared by PORT_ACTIVE
 *
 * Any thread. Return: whether it was PORT_ERR, so that connections have to be looked at.
 */
bool mesh_port_event(_Atomic uint32_t *ports_down, const struct ibv_async_event *event);

/**
 * mesh_port_is_down - is a port down by what its events say?
 *
 * The program may read events late, or only some: so the port is asked, and what it says is remembered.
 */
bool mesh_port_is_down(_Atomic uint32_t *ports_down, struct ibv_context *context, uint8_t port);

#endif
