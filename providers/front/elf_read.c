// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "elf_read.h"

#define MAX_SEGMENTS 64
#define MAX_SYMBOLS  100000
#define MAX_ADDRESS  (1ull << 26) /* of any part of a library: half of what an aarch64 branch reaches */

struct image {
	const uint8_t *data;
	size_t size;
	Elf64_Ehdr header;
	Elf64_Phdr segments[MAX_SEGMENTS];
	unsigned int n_segments;
	/* of the dynamic section; addresses, sizes in bytes */
	uint64_t strings, strings_size, versions, n_versions, required, n_required, soname, symbols, versym;
	uint64_t relocations, relocations_size, init, init_size;
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

/* The place in the file of what is at an address, if all @bytes of it are there. */
static bool extent_at(const struct image *im, uint64_t address, uint64_t bytes, struct elf_extent *out)
{
	uint64_t offset;

	if (!offset_of(im, address, &offset) || offset > im->size || bytes > im->size - offset)
		return false;
	*out = (struct elf_extent){.offset = offset, .bytes = bytes};
	return true;
}

static int read_dynamic(struct image *im, struct elf_facts *f)
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
			f->dynamic = (struct elf_extent){.offset = s->p_offset, .bytes = at};
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
		case DT_VERNEED:
			im->required = d.d_un.d_ptr;
			break;
		case DT_VERNEEDNUM:
			im->n_required = d.d_un.d_val;
			break;
		case DT_RELA:
			im->relocations = d.d_un.d_ptr;
			break;
		case DT_RELASZ:
			im->relocations_size = d.d_un.d_val;
			break;
		case DT_INIT_ARRAY:
			im->init = d.d_un.d_ptr;
			break;
		case DT_INIT_ARRAYSZ:
			im->init_size = d.d_un.d_val;
			break;
		case DT_AUXILIARY:
		case DT_FILTER:
			return fail(im, "it is a filter itself, perhaps another front");
		}
	}
	return fail(im, "its dynamic section has no end");
}

static void note_index(struct elf_facts *f, uint16_t index)
{
	if (index > f->version_index_max)
		f->version_index_max = index;
}

static int read_versions(struct image *im, struct elf_facts *f)
{
	uint64_t at = im->versions;

	if (!at || !im->n_versions || im->n_versions > ELF_MAX_VERSIONS)
		return fail(im, "it has no version definitions, or too many");
	for (uint64_t i = 0; i < im->n_versions; i++) {
		struct elf_version *version;
		Elf64_Verdef def;
		Elf64_Verdaux aux;

		if (!get_at(im, at, &def, sizeof(def)) || def.vd_version != VER_DEF_CURRENT ||
		    !def.vd_cnt || !get_at(im, at + def.vd_aux, &aux, sizeof(aux)))
			return fail(im, "its version definitions cannot be read");
		version = def.vd_flags & VER_FLG_BASE ? &f->base : &f->versions[f->n_versions++];
		if (!get_name(im, aux.vda_name, version->name))
			return fail(im, "a version has no name");
		version->name_index = aux.vda_name;
		version->index = def.vd_ndx & 0x7fff;
		version->flags = def.vd_flags;
		note_index(f, version->index);
		if (i + 1 < im->n_versions && !def.vd_next)
			return fail(im, "its version definitions end early");
		at += def.vd_next;
	}
	return f->n_versions ? 0 : fail(im, "it defines no version but its own name");
}

/* Versions that it requires of other libraries have indexes of the same kind. */
static int read_required(struct image *im, struct elf_facts *f)
{
	uint64_t at = im->required;

	if (im->n_required > ELF_MAX_VERSIONS)
		return fail(im, "it requires versions of too many libraries");
	for (uint64_t i = 0; at && i < im->n_required; i++) {
		Elf64_Verneed need;
		Elf64_Vernaux aux;
		uint64_t aux_at;

		if (!get_at(im, at, &need, sizeof(need)))
			return fail(im, "the versions that it requires cannot be read");
		aux_at = at + need.vn_aux;
		for (unsigned int k = 0; k < need.vn_cnt; k++) {
			if (!get_at(im, aux_at, &aux, sizeof(aux)))
				return fail(im, "the versions that it requires cannot be read");
			note_index(f, aux.vna_other & 0x7fff);
			aux_at += aux.vna_next;
		}
		at += need.vn_next;
	}
	return 0;
}

static const struct elf_version *version_of(const struct elf_facts *f, uint16_t index)
{
	for (unsigned int i = 0; i < f->n_versions; i++)
		if (f->versions[i].index == index)
			return &f->versions[i];
	return NULL; /* also where it is hidden: an old version of the symbol */
}

static bool is_exported(const Elf64_Sym *s)
{
	return s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC && ELF64_ST_BIND(s->st_info) == STB_GLOBAL &&
	       ELF64_ST_VISIBILITY(s->st_other) == STV_DEFAULT;
}

static void look_at_symbol(const struct image *im, struct elf_facts *f, uint32_t i, const Elf64_Sym *s, Elf64_Half index)
{
	static const char registers[] = "verbs_register_driver";
	const struct elf_version *version = version_of(f, index);
	char name[ELF_MAX_NAME];

	if (!get_name(im, s->st_name, name))
		return;
	if (s->st_shndx == SHN_UNDEF && !strncmp(name, registers, sizeof(registers) - 1))
		f->register_index = i;
	if (f->symbol_index || !is_exported(s) || !version)
		return;
	strcpy(f->symbol, name);
	strcpy(f->symbol_version, version->name);
	f->symbol_index = i;
	f->symbol_address = s->st_value;
}

/* The number of symbols is not written down; the string table follows the symbols in every linker's output. */
static int read_symbols(struct image *im, struct elf_facts *f)
{
	uint64_t n = im->strings > im->symbols ? (im->strings - im->symbols) / sizeof(Elf64_Sym) : 0;
	Elf64_Half index;
	Elf64_Sym s;

	if (!im->symbols || !im->versym || n > MAX_SYMBOLS || !extent_at(im, im->symbols, n * sizeof(s), &f->symbols))
		return fail(im, "its symbols cannot be found");
	for (uint32_t i = 1; i < n; i++)
		if (get(im, f->symbols.offset + i * sizeof(s), &s, sizeof(s)) &&
		    get_at(im, im->versym + i * sizeof(index), &index, sizeof(index)))
			look_at_symbol(im, f, i, &s, index);
	return f->symbol_index ? 0 : fail(im, "it exports no function");
}

static bool is_code(const struct image *im, uint64_t address)
{
	for (unsigned int i = 0; i < im->n_segments; i++) {
		const Elf64_Phdr *s = &im->segments[i];

		if (s->p_type == PT_LOAD && s->p_flags & PF_X && address >= s->p_vaddr && address - s->p_vaddr < s->p_filesz)
			return true;
	}
	return false;
}

/* What ld.so puts into a word of the file; it is in the word itself where the relocation is packed (DT_RELR). */
static bool relocated(const struct image *im, const struct elf_facts *f, uint64_t address, uint64_t *ret)
{
	uint32_t relative = im->header.e_machine == EM_X86_64 ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE;
	Elf64_Rela r;

	for (uint64_t at = 0; at + sizeof(r) <= f->relocations.bytes; at += sizeof(r)) {
		if (!get(im, f->relocations.offset + at, &r, sizeof(r)))
			return false;
		if (r.r_offset != address)
			continue;
		*ret = (uint64_t)r.r_addend;
		return ELF64_R_TYPE(r.r_info) == relative;
	}
	return get_at(im, address, ret, sizeof(*ret));
}

static int read_constructors(struct image *im, struct elf_facts *f)
{
	f->n_init = (unsigned int)(im->init_size / sizeof(uint64_t));
	if (im->init_size > ELF_MAX_INIT * sizeof(uint64_t) || im->init_size % sizeof(uint64_t))
		return fail(im, "it has more constructors than are known how to deal with");
	for (unsigned int i = 0; i < f->n_init; i++)
		if (!relocated(im, f, im->init + i * sizeof(uint64_t), &f->init[i]) || !is_code(im, f->init[i]))
			return fail(im, "its constructors cannot be found");
	return 0;
}

static int read_tables(struct image *im, struct elf_facts *f)
{
	if (!extent_at(im, im->strings, im->strings_size, &f->strings))
		return fail(im, "its string table is cut off");
	if (im->relocations && !extent_at(im, im->relocations, im->relocations_size, &f->relocations))
		return fail(im, "its relocations are cut off");
	f->segments = (struct elf_extent){.offset = im->header.e_phoff, .bytes = im->n_segments * sizeof(Elf64_Phdr)};
	for (unsigned int i = 0; i < im->n_segments; i++) {
		const Elf64_Phdr *s = &im->segments[i];

		if (s->p_type != PT_LOAD)
			continue;
		if (s->p_vaddr > MAX_ADDRESS || s->p_memsz > MAX_ADDRESS || s->p_offset > im->size || s->p_filesz > im->size - s->p_offset)
			return fail(im, "its segments are cut off, or too large");
		if (s->p_vaddr + s->p_memsz > f->end_address)
			f->end_address = s->p_vaddr + s->p_memsz;
	}
	return 0;
}

int elf_read(struct elf_facts *facts, const void *image, size_t size, char *why, size_t why_size)
{
	struct image im = {.data = image, .size = size, .why = why, .why_size = why_size};
	int err;

	memset(facts, 0, sizeof(*facts));
	err = read_header(&im);
	if (!err)
		err = read_dynamic(&im, facts);
	if (!err)
		err = read_tables(&im, facts);
	if (!err && (!im.soname || !get_name(&im, im.soname, facts->soname)))
		err = fail(&im, "it has no SONAME");
	if (!err)
		err = read_versions(&im, facts);
	if (!err)
		err = read_required(&im, facts);
	if (!err)
		err = read_symbols(&im, facts);
	if (!err)
		err = read_constructors(&im, facts);
	facts->machine = im.header.e_machine;
	return err;
}
