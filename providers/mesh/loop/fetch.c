// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fetch.h"

#include "conn.h"
#include "vqp_int.h"

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
 * Another thread may change conn->vqp meanwhile: then useless memory is prefetched. The pointer is not dereferenced,
 * because its target may be freed.
 */
__attribute__((no_sanitize("thread"))) void mesh_fetch_vqp(const struct mesh_conn *conn)
{
	const struct mesh_vqp *vqp = conn ? __atomic_load_n(&conn->vqp, __ATOMIC_RELAXED) : NULL;

	if (vqp)
		fetch(vqp, sizeof(*vqp));
}
