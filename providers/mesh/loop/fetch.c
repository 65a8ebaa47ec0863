// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fetch.h"

#include "conn.h"
#include "heldint.h"

/* Of x86-64; where lines are longer, some are asked for twice. */
#define LINE_BYTES 64

static void fetch(const void *memory, size_t bytes)
{
	size_t at;

	for (at = 0; at < bytes; at += LINE_BYTES)
		__builtin_prefetch((const char *)memory + at);
}

void mesh_fetch_conn(const struct mesh_conn *conn)
{
	if (conn)
		fetch(conn, sizeof(*conn));
}

/*
 * Others may have conn->lock and be about to change the pointer; if it is not that any more, some other memory is fetched. It is not looked
 * at what it points to, for that may be gone.
 */
__attribute__((no_sanitize("thread"))) void mesh_fetch_held(const struct mesh_conn *conn)
{
	const struct mesh_held *held = conn ? __atomic_load_n(&conn->held, __ATOMIC_RELAXED) : NULL;

	if (held)
		fetch(held, sizeof(*held));
}
