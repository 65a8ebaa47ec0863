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

struct file {
	const char *at;
	size_t n;
};

static struct file map_file(const char *name)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *at;

	if (fd < 0 || fstat(fd, &st))
		skip("%s cannot be read", name);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		skip("%s cannot be mapped", name);
	return (struct file){at, (size_t)st.st_size};
}

/* The value of a symbol in a file's full table, which the dynamic linker does not read; 0: none. */
static uint64_t symbol_in(struct file file, const char *name)
{
	const ElfW(Ehdr) *head = (const void *)file.at;
	const ElfW(Shdr) *sections = (const void *)(file.at + head->e_shoff);

	for (int i = 0; i < head->e_shnum; i++) {
		const ElfW(Sym) *symbols = (const void *)(file.at + sections[i].sh_offset);

		if (sections[i].sh_type != SHT_SYMTAB)
			continue;
		for (size_t k = 0; k < sections[i].sh_size / sizeof(*symbols); k++) {
			const char *names = file.at + sections[sections[i].sh_link].sh_offset;

			if (!strcmp(names + symbols[k].st_name, name))
				return symbols[k].st_value;
		}
	}
	return 0;
}

/*
 * NCCL's own tables have the form of the newest network plugin that the library can load. The library looks plugins up by
 * names like "ncclNetPlugin_v11". Return: the largest of these numbers; 0: none.
 */
static int interface_of(struct file file)
{
	static const char prefix[] = "ncclNetPlugin_v";
	const char *at = file.at, *end = file.at + file.n;
	int newest = 0;

	while ((at = memmem(at, (size_t)(end - at), prefix, sizeof(prefix) - 1))) {
		int number = 0;

		for (at += sizeof(prefix) - 1; at < end && *at >= '0' && *at <= '9'; at++)
			number = number * 10 + (*at - '0');
		newest = number > newest ? number : newest;
	}
	return newest;
}

const struct netib *netib_load(int *ret_version)
{
	void *library = netib_library(ret_version);
	const struct netib *table;
	struct link_map *map;
	struct file file;
	int interface;
	uint64_t value;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map))
		skip("%s", dlerror());
	file = map_file(map->l_name);
	interface = interface_of(file);
	if (interface < NETIB_INTERFACE_MIN || interface > NETIB_INTERFACE_MAX)
		skip("NCCL %d has version %d of the network plugin interface; versions %d to %d are known here", *ret_version, interface,
		     NETIB_INTERFACE_MIN, NETIB_INTERFACE_MAX);
	value = symbol_in(file, "ncclNetIb");
	munmap((void *)(uintptr_t)file.at, file.n);
	if (!value)
		skip("%s has no symbol table", map->l_name);
	table = (const void *)(map->l_addr + value);
	if (strcmp(table->name, "IB") != 0)
		skip("%s: NET/IB is not where it is said to be", map->l_name);
	return table;
}
