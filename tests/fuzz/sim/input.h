/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef FUZZ_SIM_INPUT_H
#define FUZZ_SIM_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What is left of a fuzzer's input. */
struct input {
	const uint8_t *p;
	size_t left;
};

/** take - a number of @n bytes, 8 at most; those that are not there any more are 0 */
static inline uint64_t take(struct input *in, size_t n)
{
	uint64_t v = 0;

	n = n < in->left ? n : in->left;
	memcpy(&v, in->p, n);
	in->p += n;
	in->left -= n;
	return v;
}

#endif
