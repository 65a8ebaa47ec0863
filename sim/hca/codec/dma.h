/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How the HCA reads and writes the program's memory: as a device does, behind the back of the
 * compiler and of the sanitizers. The copies are not calls of memcpy(), which ThreadSanitizer would
 * take for accesses of a thread that forgot its lock.
 */
#ifndef SIM_DMA_H
#define SIM_DMA_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Word by word is for speed only; ThreadSanitizer would see it. */
#if defined(__SANITIZE_THREAD__)
#define DMA_WORDS_MAX 0
#else
#define DMA_WORDS_MAX 256
#endif

static inline void dma_copy(void *dst, const void *src, size_t len)
{
#if defined(SIM_DMA_PLAIN)
	/* Unit tests and fuzzers want the sanitizers to look. */
	__builtin_memcpy(dst, src, len);
#elif defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
#else
	volatile uint8_t *d = dst;
	const volatile uint8_t *s = src;

	while (len--)
		*d++ = *s++;
#endif
}

/** dma_read() - from the program's memory. Small pieces go word by word: "rep movsb" takes long to
 * start. */
static inline void dma_read(void *dst, const void *src, size_t len)
{
	uint64_t *d = dst;
	const volatile uint64_t *s = src;

	if (len > DMA_WORDS_MAX || len & 7 || ((uintptr_t)dst | (uintptr_t)src) & 7) {
		dma_copy(dst, src, len);
		return;
	}
	for (; len; len -= 8)
		*d++ = *s++;
}

/** dma_write() - into the program's memory. */
static inline void dma_write(void *dst, const void *src, size_t len)
{
	volatile uint64_t *d = dst;
	const uint64_t *s = src;

	if (len > DMA_WORDS_MAX || len & 7 || ((uintptr_t)dst | (uintptr_t)src) & 7) {
		dma_copy(dst, src, len);
		return;
	}
	for (; len; len -= 8)
		*d++ = *s++;
}

/** dma_fetch_add() - add to a word of the program's memory that is aligned. Return: what was there.
 */
__attribute__((no_sanitize("thread"))) static inline uint64_t dma_fetch_add(uint64_t *dst,
									    uint64_t add)
{
	return __atomic_fetch_add(dst, add, __ATOMIC_SEQ_CST);
}

/** dma_cmp_swap() - as dma_fetch_add(); @swap is stored if @compare was there. */
__attribute__((no_sanitize("thread"))) static inline uint64_t
dma_cmp_swap(uint64_t *dst, uint64_t compare, uint64_t swap)
{
	__atomic_compare_exchange_n(dst, &compare, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return compare;
}

/** dma_db() - a doorbell record, in host byte order; what was written before it is seen after this.
 */
static inline uint32_t dma_db(const volatile uint32_t *db)
{
	uint32_t v = __atomic_load_n(db, __ATOMIC_ACQUIRE);

	return be32toh(v);
}

#endif
