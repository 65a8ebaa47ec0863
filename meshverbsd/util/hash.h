/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_HASH_H
#define MD_HASH_H

#include <stddef.h>
#include <stdint.h>

/** md_hash64 - hash of any bytes, keyed with a secret of this process. Event loop's thread only */
uint64_t md_hash64(const void *bytes, size_t len);
/** md_hash - its lower half */
uint32_t md_hash(const void *key, unsigned int len);

/*
 * uthash with a keyed hash: others choose keys (host ids, GIDs, QPNs), and must not be able to put all into one bucket.
 * Out of memory, an element is not added, and its hh.tbl is NULL, instead of uthash's exit(-1).
 */
#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, len, ret) ((ret) = md_hash((key), (unsigned int)(len)))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-align"
#include <uthash.h>
#pragma GCC diagnostic pop

#endif
