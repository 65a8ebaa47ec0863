/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Makes the front: a shared library without code that stands before another one. Pure. */
#ifndef FRONT_ELF_WRITE_H
#define FRONT_ELF_WRITE_H

#include <stddef.h>

#include "elf_read.h"

/*
 * Versions that are added after the last one of the real library (MLX5_1.24: also MLX5_1.25 ...
 * MLX5_1.40). Between an upgrade of the real library and the refresh of the front, a program built
 * against the new one must load: ld.so looks for the version's name in the front, and for the
 * symbol in the real library.
 */
#define ELF_SPARE_VERSIONS 16

/**
 * elf_write() - the image of a front.
 * @facts: of the real library.
 * @real: its absolute path: DT_NEEDED.
 * @plugin: absolute path of what is loaded with it: DT_AUXILIARY, so ld.so goes on without it if it
 * cannot be loaded.
 *
 * Same input, same bytes. The image has no symbols; ld.so finds all of them in the real library.
 *
 * Return: 0 with *@ret_image (free it) and *@ret_size, or -EINVAL for a path that is not absolute
 * or too long, -ENOMEM.
 */
int elf_write(void **ret_image, size_t *ret_size, const struct elf_facts *facts, const char *real,
	      const char *plugin);

#endif
