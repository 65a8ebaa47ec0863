/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_FUZZ_H
#define MV_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Each target is one file with this function, linked either with libFuzzer or with replay.c. It
 * must check what the parser promises, not only that it survives.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* assert() that a release build keeps. */
#define FUZZ_CHECK(condition)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
