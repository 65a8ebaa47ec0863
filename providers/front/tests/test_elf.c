// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Reading a library and writing its front: what goes in comes out, and no damage to a file does
 * harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_write.h"

static struct elf_facts made_up(uint16_t machine)
{
	struct elf_facts f = {.machine = machine, .soname = "libmlx5.so.1", .n_versions = 3};

	strcpy(f.versions[0], "MLX5_1.0");
	strcpy(f.versions[1], "MLX5_1.10"); /* not in order: the spare ones follow the highest */
	strcpy(f.versions[2], "MLX5_1.9");
	return f;
}

static void *written(const struct elf_facts *f, size_t *size)
{
	void *image = NULL;

	assert_int_equal(elf_write(&image, size, f, "/lib/libmlx5.so.1", "/lib/plugin.so"), 0);
	return image;
}

static void test_round_trip(void **unused)
{
	static const uint16_t machines[] = {EM_X86_64, EM_AARCH64};

	(void)unused;
	for (int i = 0; i < 2; i++) {
		struct elf_facts in = made_up(machines[i]), *out = calloc(1, sizeof(*out));
		char why[128] = "";
		size_t size;
		void *image;

		in.osabi = ELFOSABI_GNU;
		in.note_bytes = 32;
		memset(in.note, 7, in.note_bytes);
		image = written(&in, &size);
		assert_int_equal(elf_read(out, image, size, why, sizeof(why)), 0);
		assert_int_equal(out->machine, machines[i]);
		assert_int_equal(out->osabi, ELFOSABI_GNU);
		assert_string_equal(out->soname, "libmlx5.so.1");
		assert_int_equal(out->note_bytes, 32);
		assert_memory_equal(out->note, in.note, 32);
		assert_int_equal(out->n_versions, 3 + ELF_SPARE_VERSIONS);
		assert_string_equal(out->versions[1], "MLX5_1.10");
		assert_string_equal(out->versions[3], "MLX5_1.11");
		assert_string_equal(out->versions[2 + ELF_SPARE_VERSIONS], "MLX5_1.26");
		assert_string_equal(out->symbol, "");
		free(image);
		free(out);
	}
}

static void test_other_version_names_have_no_successor(void **unused)
{
	struct elf_facts in = made_up(EM_X86_64), *out = calloc(1, sizeof(*out));
	char why[128];
	size_t size;
	void *image;

	(void)unused;
	strcpy(in.versions[0], "MLX5_ABC");
	strcpy(in.versions[1], "MLX5_1.x");
	strcpy(in.versions[2], "MLX5_PRIVATE.");
	image = written(&in, &size);
	assert_int_equal(elf_read(out, image, size, why, sizeof(why)), 0);
	assert_int_equal(out->n_versions, 3);
	free(image);
	free(out);
}

static void test_same_input_same_bytes(void **unused)
{
	struct elf_facts in = made_up(EM_X86_64);
	size_t one_size, two_size;
	void *one = written(&in, &one_size), *two = written(&in, &two_size);

	(void)unused;
	assert_int_equal(one_size, two_size);
	assert_memory_equal(one, two, one_size);
	free(one);
	free(two);
}

static void test_relative_paths_are_refused(void **unused)
{
	struct elf_facts in = made_up(EM_X86_64);
	void *image;
	size_t size;

	(void)unused;
	assert_int_equal(elf_write(&image, &size, &in, "lib/libmlx5.so.1", "/p"), -EINVAL);
	assert_int_equal(elf_write(&image, &size, &in, "/lib/libmlx5.so.1", "p"), -EINVAL);
}

/* Copies to a block of exactly the size, so that a sanitizer sees a read past its end. */
static int read_copy(const void *image, size_t size, struct elf_facts *f)
{
	void *copy = malloc(size ? size : 1);
	char why[128] = "";
	int err;

	memcpy(copy, image, size);
	err = elf_read(f, copy, size, why, sizeof(why));
	assert_true(err == 0 || (err == -EINVAL && why[0]));
	free(copy);
	return err;
}

static void test_cut_off_files_are_refused(void **unused)
{
	struct elf_facts in = made_up(EM_X86_64), *out = calloc(1, sizeof(*out));
	size_t size, needed;
	void *image = written(&in, &size);
	const Elf64_Ehdr *h = image;

	(void)unused;
	/* All but section headers and their names is needed, down to the dynamic section's last
	 * entry. */
	for (needed = size; needed > h->e_phoff && !read_copy(image, needed, out); needed--)
		;
	assert_in_range(needed, 1, h->e_shoff - 1);
	for (size_t cut = 0; cut <= needed; cut++)
		assert_int_equal(read_copy(image, cut, out), -EINVAL);
	free(image);
	free(out);
}

static void test_damaged_files_do_no_harm(void **unused)
{
	static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	struct elf_facts in = made_up(EM_X86_64), *out = calloc(1, sizeof(*out));
	size_t size;
	uint8_t *image = written(&in, &size);

	(void)unused;
	for (size_t at = 0; at < size; at++) {
		for (size_t v = 0; v < sizeof(values); v++) {
			uint8_t kept = image[at];

			image[at] = values[v];
			read_copy(image, size, out);
			image[at] = kept;
		}
	}
	free(image);
	free(out);
}

static void refused(size_t at, uint8_t value, const char *reason)
{
	struct elf_facts in = made_up(EM_X86_64), *out = calloc(1, sizeof(*out));
	char why[128] = "";
	size_t size;
	uint8_t *image = written(&in, &size);

	image[at] = value;
	assert_int_equal(elf_read(out, image, size, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, reason));
	free(image);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_other_version_names_have_no_successor),
		cmocka_unit_test(test_same_input_same_bytes),
		cmocka_unit_test(test_relative_paths_are_refused),
		cmocka_unit_test(test_cut_off_files_are_refused),
		cmocka_unit_test(test_damaged_files_do_no_harm),
		cmocka_unit_test(test_other_kinds_of_file_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
