/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_HASH_H
#define MD_HASH_H

#include <stddef.h>
#include <stdint.h>

/** md_hash64 - a hash of any bytes, keyed with a secret of this process */
uint64_t md_hash64(const void *bytes, size_t len);
/** md_hash - its lower half */
uint32_t md_hash(const void *key, unsigned int len);

/*
 * uthash, keyed: others choose the keys (host ids, GIDs, QPNs), and shall not be able to choose them so that all fall
 * into one bucket. Without memory an element is left out, and its hh.tbl is NULL, instead of uthash's exit(-1).
 */
#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, len, ret) ((ret) = md_hash((key), (unsigned int)(len)))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-align"
#include <uthash.h>
#pragma GCC diagnostic pop

#endif
