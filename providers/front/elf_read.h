/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the front must know of the real library. Pure: works on a file image, trusts nothing in it.
 */
#ifndef FRONT_ELF_READ_H
#define FRONT_ELF_READ_H

#include <stddef.h>
#include <stdint.h>

#define ELF_MAX_VERSIONS 256
#define ELF_MAX_NAME     64
#define ELF_MAX_NOTE     256

struct elf_facts {
	uint16_t machine; /* EM_X86_64 or EM_AARCH64 */
	uint8_t osabi; /* EI_OSABI */
	uint32_t flags; /* e_flags */
	char soname[ELF_MAX_NAME];
	unsigned int n_versions;
	char versions[ELF_MAX_VERSIONS]
		     [ELF_MAX_NAME]; /* in the library's order, without its base definition */
	/* .note.gnu.property as it is (branch protection); it decides for the whole process, so the
	 * front repeats it */
	size_t note_bytes;
	uint8_t note[ELF_MAX_NOTE];
	/* One of the library's own symbols, to try a look-up with; empty if it has none. */
	char symbol[ELF_MAX_NAME], symbol_version[ELF_MAX_NAME];
};

/**
 * elf_read() - find the facts in a shared library.
 * @image: the whole file, @size bytes; may hold anything.
 * @why: on failure, a sentence without full stop that says what is not as expected.
 *
 * Return: 0, or -EINVAL if this is not a 64-bit little-endian shared library of a known machine
 * with a SONAME and version definitions, all within the file.
 */
int elf_read(struct elf_facts *facts, const void *image, size_t size, char *why, size_t why_size);

#endif
