// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fetch.h"

#include "conn.h"
#include "heldint.h"

/* Cache line of x86-64. Longer lines are prefetched twice. */
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
 * Another thread may change conn->held meanwhile: then useless memory is prefetched. The pointer is not dereferenced, because its
 * target may be freed.
 */
__attribute__((no_sanitize("thread"))) void mesh_fetch_held(const struct mesh_conn *conn)
{
	const struct mesh_held *held = conn ? __atomic_load_n(&conn->held, __ATOMIC_RELAXED) : NULL;

	if (held)
		fetch(held, sizeof(*held));
}
