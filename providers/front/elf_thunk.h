/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The only machine code of the front: a constructor that steps aside where the real library is loaded. Pure. */
#ifndef FRONT_ELF_THUNK_H
#define FRONT_ELF_THUNK_H

#include <stdint.h>

#define ELF_THUNK_BYTES 48

/* Addresses are relative to the library's start, and lie within 128 MiB, as far as aarch64 branches reach. */
struct elf_thunk {
	uint16_t machine; /* EM_X86_64 or EM_AARCH64 */
	uint64_t at; /* of the code */
	uint64_t symbol; /* of a function in the front */
	uint64_t symbol_slot; /* of the word in which ld.so puts what it has found for that function's name */
	uint64_t needed_slot; /* of such a word for a function that the constructor cannot do without */
	uint64_t constructor; /* to go on with if both are as they have to be */
};

/**
 * elf_thunk_write() - code for one constructor.
 * @out: ELF_THUNK_BYTES bytes.
 *
 * The code goes on with the constructor if the function that ld.so has found is the front's own, and the needed one is there;
 * else it returns. Words of 8 bytes are aligned to 8.
 */
void elf_thunk_write(const struct elf_thunk *thunk, uint8_t *out);

#endif
