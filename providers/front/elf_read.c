// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "elf_read.h"

#define MAX_SEGMENTS 64
#define MAX_SYMBOLS  100000

struct image {
	const uint8_t *data;
	size_t size;
	Elf64_Ehdr header;
	Elf64_Phdr segments[MAX_SEGMENTS];
	unsigned int n_segments;
	/* of the dynamic section; addresses */
	uint64_t strings, strings_size, versions, n_versions, soname, symbols, versym, gnu_hash;
	char *why;
	size_t why_size;
};

static int fail(const struct image *im, const char *text)
{
	snprintf(im->why, im->why_size, "%s", text);
	return -EINVAL;
}

/* Copy @n bytes at file offset @at; false if they are not all there. Copying spares thoughts about
 * alignment. */
static bool get(const struct image *im, uint64_t at, void *out, size_t n)
{
	if (at > im->size || n > im->size - at)
		return false;
	memcpy(out, im->data + at, n);
	return true;
}

static bool offset_of(const struct image *im, uint64_t address, uint64_t *offset)
{
	for (unsigned int i = 0; i < im->n_segments; i++) {
		const Elf64_Phdr *s = &im->segments[i];

		if (s->p_type == PT_LOAD && address >= s->p_vaddr &&
		    address - s->p_vaddr < s->p_filesz) {
			*offset = s->p_offset + (address - s->p_vaddr);
			return true;
		}
	}
	return false;
}

static bool get_at(const struct image *im, uint64_t address, void *out, size_t n)
{
	uint64_t offset;

	return offset_of(im, address, &offset) && get(im, offset, out, n);
}

static bool get_name(const struct image *im, uint64_t index, char out[ELF_MAX_NAME])
{
	uint64_t offset;
	size_t room;

	if (index >= im->strings_size || !offset_of(im, im->strings + index, &offset) ||
	    offset >= im->size)
		return false;
	room = im->size - offset;
	if (room > ELF_MAX_NAME)
		room = ELF_MAX_NAME;
	if (!memchr(im->data + offset, '\0', room))
		return false;
	strcpy(out, (const char *)im->data + offset);
	return out[0] != '\0';
}

static int read_header(struct image *im)
{
	const Elf64_Ehdr *h = &im->header;

	if (!get(im, 0, &im->header, sizeof(im->header)) || memcmp(h->e_ident, ELFMAG, SELFMAG))
		return fail(im, "it is not an ELF file");
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
		return fail(im, "it is not 64-bit little-endian");
	if (h->e_machine != EM_X86_64 && h->e_machine != EM_AARCH64)
		return fail(im, "it is for a machine other than x86-64 and aarch64");
	if (h->e_type != ET_DYN || h->e_phentsize != sizeof(Elf64_Phdr) ||
	    h->e_phnum > MAX_SEGMENTS)
		return fail(im, "it is not a shared library");
	im->n_segments = h->e_phnum;
	if (!get(im, h->e_phoff, im->segments, im->n_segments * sizeof(Elf64_Phdr)))
		return fail(im, "its program headers are cut off");
	return 0;
}

static int read_dynamic(struct image *im)
{
	const Elf64_Phdr *s = NULL;
	Elf64_Dyn d;

	for (unsigned int i = 0; i < im->n_segments; i++)
		if (im->segments[i].p_type == PT_DYNAMIC)
			s = &im->segments[i];
	if (!s)
		return fail(im, "it has no dynamic section");
	for (uint64_t at = 0; at + sizeof(d) <= s->p_filesz; at += sizeof(d)) {
		if (!get(im, s->p_offset + at, &d, sizeof(d)))
			return fail(im, "its dynamic section is cut off");
		switch (d.d_tag) {
		case DT_NULL:
			return 0;
		case DT_STRTAB:
			im->strings = d.d_un.d_ptr;
			break;
		case DT_STRSZ:
			im->strings_size = d.d_un.d_val;
			break;
		case DT_SONAME:
			im->soname = d.d_un.d_val;
			break;
		case DT_SYMTAB:
			im->symbols = d.d_un.d_ptr;
			break;
		case DT_VERSYM:
			im->versym = d.d_un.d_ptr;
			break;
		case DT_VERDEF:
			im->versions = d.d_un.d_ptr;
			break;
		case DT_VERDEFNUM:
			im->n_versions = d.d_un.d_val;
			break;
		}
	}
	return fail(im, "its dynamic section has no end");
}

/* @index_of_name: version index (as in .gnu.version) to position in facts->versions, or -1. */
static int read_versions(struct image *im, struct elf_facts *f, int index_of_name[ELF_MAX_VERSIONS])
{
	uint64_t at = im->versions;

	if (!at || !im->n_versions || im->n_versions > ELF_MAX_VERSIONS)
		return fail(im, "it has no version definitions, or too many");
	for (uint64_t i = 0; i < im->n_versions; i++) {
		Elf64_Verdef def;
		Elf64_Verdaux aux;

		if (!get_at(im, at, &def, sizeof(def)) || def.vd_version != VER_DEF_CURRENT ||
		    !def.vd_cnt || !get_at(im, at + def.vd_aux, &aux, sizeof(aux)))
			return fail(im, "its version definitions cannot be read");
		if (!(def.vd_flags & VER_FLG_BASE)) {
			if (!get_name(im, aux.vda_name, f->versions[f->n_versions]))
				return fail(im, "a version has no name");
			if (def.vd_ndx < ELF_MAX_VERSIONS)
				index_of_name[def.vd_ndx] = (int)f->n_versions;
			f->n_versions++;
		}
		if (i + 1 < im->n_versions && !def.vd_next)
			return fail(im, "its version definitions end early");
		at += def.vd_next;
	}
	return f->n_versions ? 0 : fail(im, "it defines no version but its own name");
}

/* The number of symbols is not written down; the string table follows the symbols in every linker's
 * output. */
static void find_symbol(struct image *im, struct elf_facts *f,
			const int index_of_name[ELF_MAX_VERSIONS])
{
	uint64_t n =
		im->strings > im->symbols ? (im->strings - im->symbols) / sizeof(Elf64_Sym) : 0;

	for (uint64_t i = 1; i < n && i < MAX_SYMBOLS && im->symbols && im->versym; i++) {
		Elf64_Sym s;
		Elf64_Half version;

		if (!get_at(im, im->symbols + i * sizeof(s), &s, sizeof(s)) ||
		    !get_at(im, im->versym + i * sizeof(version), &version, sizeof(version)))
			return;
		if (s.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s.st_info) != STT_FUNC ||
		    ELF64_ST_BIND(s.st_info) != STB_GLOBAL || version >= ELF_MAX_VERSIONS ||
		    index_of_name[version] < 0)
			continue;
		if (!get_name(im, s.st_name, f->symbol))
			continue;
		strcpy(f->symbol_version, f->versions[index_of_name[version]]);
		return;
	}
	f->symbol[0] = '\0';
}

static int read_note(struct image *im, struct elf_facts *f)
{
	for (unsigned int i = 0; i < im->n_segments; i++) {
		const Elf64_Phdr *s = &im->segments[i];

		if (s->p_type != PT_GNU_PROPERTY)
			continue;
		if (s->p_filesz > sizeof(f->note) || !get(im, s->p_offset, f->note, s->p_filesz))
			return fail(im, "its property note is too long or cut off");
		f->note_bytes = s->p_filesz;
	}
	return 0;
}

int elf_read(struct elf_facts *facts, const void *image, size_t size, char *why, size_t why_size)
{
	struct image im = {.data = image, .size = size, .why = why, .why_size = why_size};
	int index_of_name[ELF_MAX_VERSIONS], err;

	memset(facts, 0, sizeof(*facts));
	memset(index_of_name, -1, sizeof(index_of_name));
	err = read_header(&im);
	if (!err)
		err = read_dynamic(&im);
	if (!err && (!im.soname || !get_name(&im, im.soname, facts->soname)))
		err = fail(&im, "it has no SONAME");
	if (!err)
		err = read_versions(&im, facts, index_of_name);
	if (!err)
		err = read_note(&im, facts);
	if (err)
		return err;
	facts->machine = im.header.e_machine;
	facts->osabi = im.header.e_ident[EI_OSABI];
	facts->flags = im.header.e_flags;
	find_symbol(&im, facts, index_of_name);
	return 0;
}
