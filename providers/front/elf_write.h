/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Makes the front: a copy of a shared library that brings the plugin along, and rests behind the original. Pure. */
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
 * @facts: of the real library, from elf_read().
 * @library: the real library's file, @library_bytes bytes, of which @facts are.
 * @real: its absolute path: DT_AUXILIARY, so each symbol comes from the real library where that file is.
 * @plugin: absolute path of the plugin: DT_AUXILIARY as well.
 *
 * The image is the library's file and a piece behind it. Its constructors run only where ld.so has not found the real library,
 * for example in a container into which a runtime has copied the front. Same input, same bytes.
 *
 * Return: 0 with *@ret_image (free it) and *@ret_size, or -EINVAL for a path that is not absolute
 * or too long, -ENOMEM.
 */
int elf_write(void **ret_image, size_t *ret_size, const struct elf_facts *facts, const void *library, size_t library_bytes,
	      const char *real, const char *plugin);

#endif
