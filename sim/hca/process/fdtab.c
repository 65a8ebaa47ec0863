/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "fdtab.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define FDTAB_SIZE 65536

/* Pointer to the file with its kind in the low bits: one word, so that a reader never sees halves
 * of two entries. */
static _Atomic uintptr_t table[FDTAB_SIZE];

void fdtab_set(int fd, enum fd_kind kind, void *file)
{
	if (fd >= 0 && fd < FDTAB_SIZE)
		atomic_store_explicit(&table[fd], (uintptr_t)file | kind, memory_order_release);
}

void *fdtab_get(int fd, enum fd_kind kind)
{
	uintptr_t v;

	if (fd < 0 || fd >= FDTAB_SIZE)
		return NULL;
	v = atomic_load_explicit(&table[fd], memory_order_acquire);
	return v && (v & 3) == (uintptr_t)kind ? (void *)(v & ~(uintptr_t)3) : NULL;
}

void fdtab_clear(void)
{
	for (int fd = 0; fd < FDTAB_SIZE; fd++)
		if (atomic_load_explicit(&table[fd], memory_order_relaxed))
			atomic_store_explicit(&table[fd], 0, memory_order_relaxed);
}
