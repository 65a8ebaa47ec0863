// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Reading a library and writing its front: what goes in comes out, and no damage to a file does
 * harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf_thunk.h"
#include "elf_write.h"

static uint8_t *library; /* a shared library as the linker made it */
static size_t library_bytes;
static const char *library_path;

static void read_facts(struct elf_facts *f)
{
	char why[128] = "";

	assert_int_equal(elf_read(f, library, library_bytes, why, sizeof(why)), 0);
}

static void *written(const struct elf_facts *f, size_t *size)
{
	void *image = NULL;

	assert_int_equal(elf_write(&image, size, f, library, library_bytes, "/lib/libmlx5.so.1", "/lib/plugin.so"), 0);
	return image;
}

/* Facts of the library under other version names. */
static struct elf_facts *renamed(const char *first, const char *second)
{
	struct elf_facts *f = calloc(1, sizeof(*f));

	read_facts(f);
	assert_int_equal(f->n_versions, 2);
	strcpy(f->versions[0].name, first);
	strcpy(f->versions[1].name, second);
	return f;
}

/* A program header of an image. */
static Elf64_Phdr header_of(const uint8_t *image, unsigned int i)
{
	Elf64_Ehdr h;
	Elf64_Phdr p;

	memcpy(&h, image, sizeof(h));
	assert_true(i < h.e_phnum);
	memcpy(&p, image + h.e_phoff + i * sizeof(p), sizeof(p));
	return p;
}

static unsigned int n_headers(const uint8_t *image)
{
	Elf64_Ehdr h;

	memcpy(&h, image, sizeof(h));
	return h.e_phnum;
}

/* The value of the @n-th dynamic entry with that tag; -1: there are fewer. */
static uint64_t dynamic_entry(const uint8_t *image, int64_t tag, unsigned int n)
{
	Elf64_Dyn d;

	for (unsigned int i = 0; i < n_headers(image); i++) {
		Elf64_Phdr p = header_of(image, i);

		for (uint64_t at = 0; p.p_type == PT_DYNAMIC && at < p.p_filesz; at += sizeof(d)) {
			memcpy(&d, image + p.p_offset + at, sizeof(d));
			if (d.d_tag == tag && !n--)
				return d.d_un.d_val;
		}
	}
	return UINT64_MAX;
}

static const uint8_t *at_address(const uint8_t *image, uint64_t address)
{
	for (unsigned int i = 0; i < n_headers(image); i++) {
		Elf64_Phdr p = header_of(image, i);

		if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz)
			return image + p.p_offset + (address - p.p_vaddr);
	}
	fail_msg("nothing at 0x%lx", (unsigned long)address);
	return NULL;
}

static const char *string_of(const uint8_t *image, uint64_t index)
{
	return (const char *)at_address(image, dynamic_entry(image, DT_STRTAB, 0) + index);
}

static void test_what_the_front_names(void **unused)
{
	struct elf_facts *f = calloc(1, sizeof(*f));
	unsigned int i, n_spares = 0;
	uint64_t last = 0;
	uint8_t *image;
	size_t size;

	(void)unused;
	read_facts(f);
	image = written(f, &size);
	assert_memory_equal(image + sizeof(Elf64_Ehdr), library + sizeof(Elf64_Ehdr), library_bytes - sizeof(Elf64_Ehdr));
	assert_string_equal(string_of(image, dynamic_entry(image, DT_SONAME, 0)), "libmlx5.so.1");
	assert_string_equal(string_of(image, dynamic_entry(image, DT_AUXILIARY, 0)), "/lib/libmlx5.so.1");
	assert_string_equal(string_of(image, dynamic_entry(image, DT_AUXILIARY, 1)), "/lib/plugin.so");
	/* Segments in the order of their addresses, none over another; offsets fit to pages. */
	for (i = 0; i < n_headers(image); i++) {
		Elf64_Phdr p = header_of(image, i);

		if (p.p_type != PT_LOAD)
			continue;
		assert_true(p.p_vaddr >= last && p.p_offset + p.p_filesz <= size);
		assert_int_equal(p.p_vaddr % p.p_align, p.p_offset % p.p_align);
		assert_true((p.p_flags & (PF_W | PF_X)) != (PF_W | PF_X));
		last = (p.p_vaddr + p.p_memsz + p.p_align - 1) / p.p_align * p.p_align;
	}
	assert_int_equal(dynamic_entry(image, DT_VERDEFNUM, 0), 3 + ELF_SPARE_VERSIONS);
	for (uint64_t at = dynamic_entry(image, DT_VERDEF, 0);;) {
		Elf64_Verdef def;
		Elf64_Verdaux aux;

		memcpy(&def, at_address(image, at), sizeof(def));
		memcpy(&aux, at_address(image, at + def.vd_aux), sizeof(aux));
		n_spares += def.vd_ndx > f->version_index_max;
		if (def.vd_ndx == f->version_index_max + 1)
			assert_string_equal(string_of(image, aux.vda_name), "MLX5_1.2");
		if (!def.vd_next)
			break;
		at += def.vd_next;
	}
	assert_int_equal(n_spares, ELF_SPARE_VERSIONS);
	free(image);
	free(f);
}

#ifdef __aarch64__
#define RELATIVE R_AARCH64_RELATIVE
#else
#define RELATIVE R_X86_64_RELATIVE
#endif

/* Each constructor's array entry is relocated to a thunk that ends in a jump to it. */
static void test_constructors(void **unused)
{
	struct elf_facts *f = calloc(1, sizeof(*f));
	uint64_t array, relocations, n, seen = 0;
	uint8_t *image;
	size_t size;

	(void)unused;
	read_facts(f);
	assert_true(f->n_init >= 2); /* the compiler's, and the library's own */
	image = written(f, &size);
	array = dynamic_entry(image, DT_INIT_ARRAY, 0);
	relocations = dynamic_entry(image, DT_RELA, 0);
	n = dynamic_entry(image, DT_RELASZ, 0) / sizeof(Elf64_Rela);
	assert_int_equal(dynamic_entry(image, DT_INIT_ARRAYSZ, 0), f->n_init * sizeof(uint64_t));
	assert_int_equal(n, f->relocations.bytes / sizeof(Elf64_Rela) + f->n_init + 2);
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Rela r;

		memcpy(&r, at_address(image, relocations + i * sizeof(r)), sizeof(r));
		if (r.r_offset < array || r.r_offset >= array + f->n_init * sizeof(uint64_t))
			continue;
		assert_int_equal(ELF64_R_TYPE(r.r_info), RELATIVE);
		seen++;
#ifdef __x86_64__
		{
			const uint8_t *code = at_address(image, (uint64_t)r.r_addend);
			int32_t distance;

			memcpy(&distance, code + 31, sizeof(distance));
			assert_int_equal(code[30], 0xe9);
			assert_int_equal((uint64_t)r.r_addend + 35 + (uint64_t)(int64_t)distance, f->init[(r.r_offset - array) / 8]);
		}
#endif
	}
	assert_int_equal(seen, f->n_init);
	free(image);
	free(f);
}

/* As the assembler has it, for code at 0x12340, "b.ne 1f ... cbz x17, 1f; b 0x9004; 1: ret". */
static void test_thunk_of_aarch64(void **unused)
{
	static const struct elf_thunk thunk = {.machine = EM_AARCH64, .at = 0x12340, .symbol = 0x8010, .symbol_slot = 0x23458,
					       .needed_slot = 0x33460, .constructor = 0x9004};
	static const uint32_t want[] = {0xd503245f, 0xd0ffffb0, 0x91004210, 0xb0000091, 0xf9422e31, 0xeb11021f, 0x540000a1,
					0xb0000111, 0xf9423231, 0xb4000051, 0x17ffdb27, 0xd65f03c0};
	uint8_t code[ELF_THUNK_BYTES] = {0};

	(void)unused;
	elf_thunk_write(&thunk, code);
	assert_memory_equal(code, want, sizeof(want));
}

static void test_spare_versions(void **unused)
{
	static const struct {
		const char *first, *second, *spare;
	} cases[] = {
		{"MLX5_1.10", "MLX5_1.9", "MLX5_1.11"}, /* not in order: the spare ones follow the highest */
		{"MLX5_ABC", "MLX5_1.x", NULL}, /* no successor */
		{"MLX5_1.x", "MLX5_PRIVATE.", NULL},
	};

	(void)unused;
	for (unsigned int i = 0; i < 3; i++) {
		struct elf_facts *f = renamed(cases[i].first, cases[i].second);
		size_t size;
		uint8_t *image = written(f, &size);
		const char *spare = cases[i].spare;

		assert_int_equal(dynamic_entry(image, DT_VERDEFNUM, 0), spare ? 3 + ELF_SPARE_VERSIONS : 3);
		assert_true(!spare || memmem(image + library_bytes, size - library_bytes, spare, strlen(spare) + 1));
		free(image);
		free(f);
	}
}

static void test_same_input_same_bytes(void **unused)
{
	struct elf_facts *f = calloc(1, sizeof(*f));
	size_t one_size, two_size;
	void *one, *two;

	(void)unused;
	read_facts(f);
	one = written(f, &one_size);
	two = written(f, &two_size);
	assert_int_equal(one_size, two_size);
	assert_memory_equal(one, two, one_size);
	free(one);
	free(two);
	free(f);
}

static void test_relative_paths_are_refused(void **unused)
{
	struct elf_facts *f = calloc(1, sizeof(*f));
	void *image;
	size_t size;

	(void)unused;
	read_facts(f);
	assert_int_equal(elf_write(&image, &size, f, library, library_bytes, "lib/libmlx5.so.1", "/p"), -EINVAL);
	assert_int_equal(elf_write(&image, &size, f, library, library_bytes, "/lib/libmlx5.so.1", "p"), -EINVAL);
	free(f);
}

void verbs_register_driver_99(void);

__attribute__((visibility("default"))) void verbs_register_driver_99(void)
{
}

/* ld.so of an earlier glibc ends the program (glibc's bug 16272): meshverbs-front makes no front there. */
static void need_auxiliary_libraries(void)
{
	if (strverscmp(gnu_get_libc_version(), "2.33") < 0)
		skip();
}

/* Load a front of the test's library, and say whose function a program gets, and whether the front's own constructor has run. */
static void load_front(const char *real, bool *ret_own_function, bool *ret_own_constructed)
{
	struct elf_facts *f = calloc(1, sizeof(*f));
	char path[] = "/tmp/front-elf-XXXXXX";
	int fd = mkstemp(path), (*own)(void), (*found)(void); /* either says whether its library's constructor has run */
	struct link_map *map;
	void *image, *handle;
	size_t size;

	need_auxiliary_libraries();
	assert_true(fd >= 0);
	read_facts(f);
	assert_int_equal(elf_write(&image, &size, f, library, library_bytes, real, "/nonexistent/plugin.so"), 0);
	assert_int_equal(write(fd, image, size), size);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fail_msg("%s", dlerror());
	assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
	*(void **)&own = (void *)(map->l_addr + f->symbol_address);
	*(void **)&found = dlvsym(handle, f->symbol, f->symbol_version);
	assert_non_null(found);
	*ret_own_function = found == own;
	*ret_own_constructed = own();
	assert_true(found == own || found() == 1);
	dlclose(handle);
	close(fd);
	unlink(path);
	free(image);
	free(f);
}

/* Where the real library is, the front rests; where it is not, the front is the library. */
static void test_constructors_run_once(void **unused)
{
	bool function, constructed;

	(void)unused;
	load_front(library_path, &function, &constructed);
	assert_false(function);
	assert_false(constructed);
	load_front("/nonexistent/libmlx5.so.1", &function, &constructed);
	assert_true(function);
	assert_true(constructed);
}

/* Another text of the same length in the library's strings. */
static void rename_string(const char *from, const char *to)
{
	uint8_t *at = memmem(library, library_bytes, from, strlen(from));

	assert_non_null(at);
	memcpy(at, to, strlen(to));
}

/* While packages are upgraded libibverbs may be one that the copied library does not fit to. The front does no harm then. */
static void test_another_libibverbs(void **unused)
{
	bool function, constructed;

	(void)unused;
	rename_string("verbs_register_driver_99", "verbs_register_driver_98");
	load_front(library_path, &function, &constructed);
	assert_false(function || constructed);
	load_front("/nonexistent/libmlx5.so.1", &function, &constructed);
	assert_true(function);
	assert_false(constructed);
	rename_string("verbs_register_driver_98", "verbs_register_driver_99");
}

/* Nor does a version that nobody has. */
static void test_another_version_required(void **unused)
{
	bool function, constructed;

	(void)unused;
	rename_string("GLIBC_2", "GLIBC_9");
	load_front(library_path, &function, &constructed);
	assert_false(function || constructed);
	rename_string("GLIBC_9", "GLIBC_2");
}

/* A front of a front would bring the plugin twice. */
static void test_front_of_a_front(void **unused)
{
	struct elf_facts *f = calloc(1, sizeof(*f)), *out = calloc(1, sizeof(*out));
	char why[128] = "";
	size_t size;
	void *image;

	(void)unused;
	read_facts(f);
	image = written(f, &size);
	assert_int_equal(elf_read(out, image, size, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "filter"));
	free(image);
	free(f);
	free(out);
}

/* Copies to a block of exactly the size, so that a sanitizer sees a read past its end. */
static int read_copy(const void *image, size_t size, struct elf_facts *f)
{
	void *copy = malloc(size ? size : 1), *front;
	char why[128] = "";
	size_t front_bytes;
	int err;

	memcpy(copy, image, size);
	err = elf_read(f, copy, size, why, sizeof(why));
	assert_true(err == 0 || (err == -EINVAL && why[0]));
	if (!err && !elf_write(&front, &front_bytes, f, copy, size, "/l", "/p"))
		free(front);
	free(copy);
	return err;
}

static void test_cut_off_files_are_refused(void **unused)
{
	struct elf_facts *out = calloc(1, sizeof(*out));
	size_t needed = library_bytes;

	(void)unused;
	while (needed && !read_copy(library, needed - 1, out))
		needed--;
	assert_in_range(needed, 1, library_bytes);
	for (size_t cut = 0; cut < needed; cut++)
		assert_int_equal(read_copy(library, cut, out), -EINVAL);
	free(out);
}

static void test_damaged_files_do_no_harm(void **unused)
{
	static const uint8_t values[] = {0x00, 0x7f, 0xff};
	struct elf_facts *out = calloc(1, sizeof(*out));

	(void)unused;
	for (size_t at = 0; at < library_bytes; at++) {
		for (size_t v = 0; v < sizeof(values); v++) {
			uint8_t kept = library[at];

			if (kept == values[v])
				continue;
			library[at] = values[v];
			read_copy(library, library_bytes, out);
			library[at] = kept;
		}
	}
	free(out);
}

static void refused(size_t at, uint8_t value, const char *reason)
{
	struct elf_facts *out = calloc(1, sizeof(*out));
	char why[128] = "";
	uint8_t kept = library[at];

	library[at] = value;
	assert_int_equal(elf_read(out, library, library_bytes, why, sizeof(why)), -EINVAL);
	library[at] = kept;
	assert_non_null(strstr(why, reason));
	free(out);
}

static void test_other_kinds_of_file_are_named(void **unused)
{
	(void)unused;
	refused(0, 'M', "not an ELF file");
	refused(EI_CLASS, ELFCLASS32, "64-bit");
	refused(EI_DATA, ELFDATA2MSB, "little-endian");
	refused(offsetof(Elf64_Ehdr, e_machine), EM_386, "machine");
	refused(offsetof(Elf64_Ehdr, e_type), ET_EXEC, "not a shared library");
}

static int load(const char *name)
{
	FILE *file = fopen(name, "re");
	long n = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;

	library_bytes = n > 0 ? (size_t)n : 0;
	library = malloc(library_bytes + 1);
	if (!library || !library_bytes || fseek(file, 0, SEEK_SET) || fread(library, 1, library_bytes, file) != library_bytes)
		return -1;
	return fclose(file);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_the_front_names),
		cmocka_unit_test(test_constructors),
		cmocka_unit_test(test_thunk_of_aarch64),
		cmocka_unit_test(test_spare_versions),
		cmocka_unit_test(test_same_input_same_bytes),
		cmocka_unit_test(test_relative_paths_are_refused),
		cmocka_unit_test(test_constructors_run_once),
		cmocka_unit_test(test_another_libibverbs),
		cmocka_unit_test(test_another_version_required),
		cmocka_unit_test(test_front_of_a_front),
		cmocka_unit_test(test_cut_off_files_are_refused),
		cmocka_unit_test(test_damaged_files_do_no_harm),
		cmocka_unit_test(test_other_kinds_of_file_are_named),
	};

	library_path = argv[1];
	if (argc != 2 || load(argv[1])) {
		fprintf(stderr, "usage: test_front_elf LIBRARY\n");
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
