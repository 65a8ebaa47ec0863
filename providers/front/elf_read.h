/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the front must know of the real library. Pure: works on a file image, trusts nothing in it.
 */
#ifndef FRONT_ELF_READ_H
#define FRONT_ELF_READ_H

#include <stddef.h>
#include <stdint.h>

#define ELF_MAX_VERSIONS 256
#define ELF_MAX_NAME     64
#define ELF_MAX_INIT     8 /* constructors: INIT_ARRAY */

/* A table of the library: where it lies in the file, and how long it is. */
struct elf_extent {
	uint64_t offset, bytes;
};

struct elf_version {
	char name[ELF_MAX_NAME];
	uint32_t name_index; /* of the name in the string table */
	uint16_t index, flags; /* as in .gnu.version; VER_FLG_... */
};

struct elf_facts {
	uint16_t machine; /* EM_X86_64 or EM_AARCH64 */
	char soname[ELF_MAX_NAME];
	struct elf_version base; /* the definition with VER_FLG_BASE; its name is the SONAME */
	unsigned int n_versions;
	struct elf_version versions[ELF_MAX_VERSIONS]; /* in the library's order, without the base definition */
	uint16_t version_index_max; /* of definitions and requirements */
	/* A function that the library exports with a version: by it the front sees whether the real library is there. */
	char symbol[ELF_MAX_NAME], symbol_version[ELF_MAX_NAME];
	uint32_t symbol_index; /* in the dynamic symbol table */
	uint64_t symbol_address;
	/* By which the library registers with libibverbs: verbs_register_driver_NN, of which libibverbs has its own NN; 0: none. */
	uint32_t register_index;
	unsigned int n_init;
	uint64_t init[ELF_MAX_INIT]; /* addresses of constructors, in their order */
	struct elf_extent segments, dynamic, strings, symbols, relocations; /* relocations: DT_RELA; may be empty */
	uint64_t end_address; /* behind the last segment */
};

/**
 * elf_read() - find the facts in a shared library.
 * @image: the whole file, @size bytes; may hold anything.
 * @why: on failure, a sentence without full stop that says what is not as expected.
 *
 * Return: 0, or -EINVAL if this is not a 64-bit little-endian shared library of a known machine with a SONAME, version
 * definitions, an exported function and constructors of the usual kind, all within the file.
 */
int elf_read(struct elf_facts *facts, const void *image, size_t size, char *why, size_t why_size);

#endif
