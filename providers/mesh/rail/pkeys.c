// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "rails.h"

#define PKEY_NS	  5000000ull /* how long a looked-up index is used */
#define PKEYS_MAX 1024 /* more than any port has */

static bool has(struct ibv_context *context, uint8_t port, uint16_t index, __be16 pkey)
{
	__be16 there = 0;

	return !ibv_query_pkey(context, port, index, &there) && there == pkey;
}

/* Mostly @like is the index. Return: the index, or -ENOENT. */
static int find(struct ibv_context *context, uint8_t port, uint16_t like, __be16 pkey)
{
	__be16 there;

	if (has(context, port, like, pkey))
		return like;
	for (int i = 0; i < PKEYS_MAX && !ibv_query_pkey(context, port, i, &there); i++)
		if (there == pkey)
			return i;
	return -ENOENT;
}

/* Is the P_Key invalid (IBTA 10.9.2)? Such as in an unused entry of the table. */
static bool is_none(__be16 pkey)
{
	return !(pkey & htobe16(0x7fff));
}

static int look(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port, uint16_t own_index)
{
	__be16 pkey = 0;

	if (ibv_query_pkey(own, own_port, own_index, &pkey) || is_none(pkey))
		return -ENOENT;
	return find(rail->context, port, own_index, pkey);
}

/* The only P_Key of a port; 0: it has none, or several. */
static __be16 only_pkey(struct ibv_context *context, uint8_t port)
{
	__be16 there, only = 0;

	for (int i = 0; i < PKEYS_MAX && !ibv_query_pkey(context, port, i, &there); i++) {
		if (is_none(there))
			continue;
		if (only)
			return 0;
		only = there;
	}
	return only;
}

bool mesh_rail_has_one_partition(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port)
{
	__be16 pkey = only_pkey(own, own_port);

	return pkey && only_pkey(rail->context, port) == pkey;
}

int mesh_rail_find_pkey(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port, uint16_t own_index,
			uint16_t *ret_index)
{
	struct mesh_rail_pkey *known = &rail->known_pkey;
	uint64_t now_ns = mesh_now_ns();
	int index = 0;

	mesh_lock(&rail->gid_lock);
	if (!known->asked_ns || now_ns >= known->asked_ns + PKEY_NS || known->port != port || known->own != own ||
	    known->own_port != own_port || known->own_index != own_index) {
		known->asked_ns = 0;
		index = look(rail, port, own, own_port, own_index);
		if (index >= 0)
			*known = (struct mesh_rail_pkey){.asked_ns = now_ns,
							 .own = own,
							 .own_port = own_port,
							 .own_index = own_index,
							 .port = port,
							 .index = (uint16_t)index};
	}
	if (index >= 0)
		*ret_index = known->index;
	mesh_unlock(&rail->gid_lock);
	return index < 0 ? index : 0;
}
