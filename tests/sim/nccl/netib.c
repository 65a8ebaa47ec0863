// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "netib.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static _Noreturn void skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("skipped: ", stdout);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	exit(77);
}

void *netib_library(int *ret_version)
{
	const char *path = getenv("NCCL_LIBRARY");
	void *library = dlopen(path ? path : "libnccl.so.2", RTLD_NOW);
	int (*get_version)(int *);

	if (!library)
		skip("no NCCL: %s", dlerror());
	*(void **)&get_version = dlsym(library, "ncclGetVersion");
	if (!get_version || get_version(ret_version))
		skip("libnccl.so.2 does not tell its version");
	return library;
}

/* The value of a symbol in a file's full table, which the dynamic linker does not read; 0: none. */
static uint64_t symbol_in(const char *file, const char *name)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	uint64_t value = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		skip("%s cannot be read", file);
	const char *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

	close(fd);
	if (at == MAP_FAILED)
		skip("%s cannot be mapped", file);
	const ElfW(Ehdr) *head = (const void *)at;
	const ElfW(Shdr) *sections = (const void *)(at + head->e_shoff);

	for (int i = 0; i < head->e_shnum && !value; i++) {
		const ElfW(Sym) *symbols = (const void *)(at + sections[i].sh_offset);

		if (sections[i].sh_type != SHT_SYMTAB)
			continue;
		for (size_t k = 0; k < sections[i].sh_size / sizeof(*symbols) && !value; k++) {
			const char *names = at + sections[sections[i].sh_link].sh_offset;

			if (!strcmp(names + symbols[k].st_name, name))
				value = symbols[k].st_value;
		}
	}
	munmap((void *)(uintptr_t)at, (size_t)st.st_size);
	return value;
}

const struct netib *netib_load(int *ret_version)
{
	void *library = netib_library(ret_version);
	const struct netib *table;
	struct link_map *map;
	uint64_t value;

	if (*ret_version / 100 != 228)
		skip("NCCL %d, where this knows the interface of 2.28", *ret_version);
	if (dlinfo(library, RTLD_DI_LINKMAP, &map))
		skip("%s", dlerror());
	value = symbol_in(map->l_name, "ncclNetIb");
	if (!value)
		skip("%s has no symbol table", map->l_name);
	table = (const void *)(map->l_addr + value);
	if (strcmp(table->name, "IB") != 0)
		skip("%s: NET/IB is not where it is said to be", map->l_name);
	return table;
}
