// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_thunk.h"
#include "elf_write.h"

/* The largest page size of both machines (aarch64 kernels with 64 KiB pages); the linkers use it there too. */
#define PAGE_BYTES 0x10000ull

/*
 * Behind the library's own bytes, in two segments:
 *   read and execute: program headers, strings, symbols, version definitions, relocations, a thunk for each constructor
 *   read and write:   the constructors' array, slots for two functions' addresses, the dynamic section
 */
enum part { SEGMENTS, STRINGS, SYMBOLS, VERSIONS, RELOCATIONS, THUNKS, CONSTRUCTORS, SLOTS, DYNAMIC, N_PARTS };

enum { SLOT_SYMBOL, SLOT_REGISTER, N_SLOTS }; /* 8 bytes each */

#define FIRST_WRITABLE CONSTRUCTORS

struct out {
	uint8_t *data;
	size_t size, room;
	bool failed; /* out of memory; looked at once, at the end */
	uint64_t offset[N_PARTS], bytes[N_PARTS];
	uint64_t code_delta, data_delta; /* from offsets to addresses, in either segment */
};

static void append(struct out *o, const void *data, size_t n)
{
	if (o->size + n > o->room) {
		size_t room = 2 * o->room + n + 4096;
		void *p = realloc(o->data, room);

		if (!p) {
			o->failed = true;
			return;
		}
		o->data = p;
		o->room = room;
	}
	if (data)
		memcpy(o->data + o->size, data, n);
	else
		memset(o->data + o->size, 0, n);
	o->size += n;
}

static void align(struct out *o, uint64_t to)
{
	if (!o->failed && o->size % to)
		append(o, NULL, to - o->size % to);
}

static void begin(struct out *o, enum part part)
{
	align(o, 16);
	o->offset[part] = o->size;
}

static void end(struct out *o, enum part part)
{
	o->bytes[part] = o->size - o->offset[part];
}

static uint64_t address(const struct out *o, enum part part)
{
	return o->offset[part] + (part >= FIRST_WRITABLE ? o->data_delta : o->code_delta);
}

static uint64_t round_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

/* ---- names and versions */

/* The hash of System V tables, by which ld.so compares version names. */
static uint32_t elf_hash(const char *name)
{
	uint32_t h = 0;

	for (; *name; name++) {
		h = (h << 4) + (uint8_t)*name;
		h ^= (h & 0xf0000000) >> 24;
		h &= 0x0fffffff;
	}
	return h;
}

struct names {
	uint32_t real, plugin; /* indexes in the string table */
	unsigned int n_spares;
	struct elf_version spares[ELF_SPARE_VERSIONS];
};

static uint32_t add_string(struct out *o, const char *text)
{
	uint32_t index = (uint32_t)(o->size - o->offset[STRINGS]);

	append(o, text, strlen(text) + 1);
	return index;
}

/* "MLX5_1.24" gives "MLX5_1.25" and so on; nothing for a scheme that does not end in a number. */
static void add_spares(struct out *o, struct names *n, const struct elf_facts *f)
{
	unsigned long most = 0;
	const char *scheme = NULL;
	size_t stem = 0;

	for (unsigned int i = 0; i < f->n_versions; i++) {
		const char *name = f->versions[i].name, *dot = strrchr(name, '.');
		unsigned long v = dot ? strtoul(dot + 1, NULL, 10) : 0;

		if (dot && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1) &&
		    v < 100000 && (!scheme || v > most)) {
			most = v;
			scheme = name;
			stem = (size_t)(dot + 1 - scheme);
		}
	}
	for (; scheme && n->n_spares < ELF_SPARE_VERSIONS; n->n_spares++) {
		struct elf_version *spare = &n->spares[n->n_spares];

		if (snprintf(spare->name, sizeof(spare->name), "%.*s%lu", (int)stem, scheme, most + 1 + n->n_spares) >=
		    (int)sizeof(spare->name))
			return;
		spare->name_index = add_string(o, spare->name);
		spare->index = (uint16_t)(f->version_index_max + 1 + n->n_spares);
	}
}

/* The library's own strings keep their places. */
static void write_strings(struct out *o, struct names *n, const struct elf_facts *f, const uint8_t *library,
			  const char *real, const char *plugin)
{
	begin(o, STRINGS);
	append(o, library + f->strings.offset, f->strings.bytes);
	append(o, "", 1);
	n->real = add_string(o, real);
	n->plugin = add_string(o, plugin);
	add_spares(o, n, f);
	end(o, STRINGS);
}

/*
 * What the front needs of libibverbs may be missing while packages are upgraded: libibverbs has another private ABI already, the
 * real library fits to it, and the front is still a copy of the old one. So all of that is weak, and no version is required.
 */
static void write_symbols(struct out *o, const struct elf_facts *f, const uint8_t *library)
{
	Elf64_Sym s;

	begin(o, SYMBOLS);
	for (uint64_t at = 0; at + sizeof(s) <= f->symbols.bytes; at += sizeof(s)) {
		memcpy(&s, library + f->symbols.offset + at, sizeof(s));
		if (s.st_shndx == SHN_UNDEF && ELF64_ST_BIND(s.st_info) == STB_GLOBAL)
			s.st_info = ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(s.st_info));
		append(o, &s, sizeof(s));
	}
	end(o, SYMBOLS);
}

static void write_version(struct out *o, const struct elf_version *version, bool last)
{
	const Elf64_Verdef def = {
		.vd_version = VER_DEF_CURRENT,
		.vd_flags = version->flags,
		.vd_ndx = version->index,
		.vd_cnt = 1,
		.vd_hash = elf_hash(version->name),
		.vd_aux = sizeof(def),
		.vd_next = last ? 0 : sizeof(Elf64_Verdef) + sizeof(Elf64_Verdaux),
	};
	const Elf64_Verdaux aux = {.vda_name = version->name_index};

	append(o, &def, sizeof(def));
	append(o, &aux, sizeof(aux));
}

static unsigned int write_versions(struct out *o, const struct names *n, const struct elf_facts *f)
{
	unsigned int i, count = f->n_versions + n->n_spares;

	begin(o, VERSIONS);
	if (f->base.name[0])
		write_version(o, &f->base, false);
	for (i = 0; i < count; i++)
		write_version(o, i < f->n_versions ? &f->versions[i] : &n->spares[i - f->n_versions], i + 1 == count);
	end(o, VERSIONS);
	return count + (f->base.name[0] != '\0');
}

/* ---- constructors */

/* Space for them; what they hold depends on where all the rest is. */
static void reserve_constructors(struct out *o, const struct elf_facts *f)
{
	begin(o, RELOCATIONS);
	append(o, NULL, f->relocations.bytes + (f->n_init + N_SLOTS) * sizeof(Elf64_Rela));
	end(o, RELOCATIONS);
	begin(o, THUNKS);
	append(o, NULL, f->n_init * ELF_THUNK_BYTES);
	end(o, THUNKS);
	begin(o, CONSTRUCTORS);
	append(o, NULL, f->n_init * sizeof(uint64_t));
	end(o, CONSTRUCTORS);
	begin(o, SLOTS);
	append(o, NULL, N_SLOTS * sizeof(uint64_t));
	end(o, SLOTS);
}

static uint8_t *put_relocation(uint8_t *at, uint64_t where, uint64_t symbol, uint32_t type, uint64_t addend)
{
	const Elf64_Rela r = {.r_offset = where, .r_info = ELF64_R_INFO(symbol, type), .r_addend = (Elf64_Sxword)addend};

	memcpy(at, &r, sizeof(r));
	return at + sizeof(r);
}

static void fill_constructors(struct out *o, const struct elf_facts *f, const uint8_t *library)
{
	bool x86 = f->machine == EM_X86_64;
	uint32_t relative = x86 ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE;
	uint32_t glob_dat = x86 ? R_X86_64_GLOB_DAT : R_AARCH64_GLOB_DAT;
	/* Without a function that registers the symbol's slot is asked twice. */
	uint32_t registers = f->register_index ? f->register_index : f->symbol_index;
	struct elf_thunk thunk = {.machine = f->machine,
				  .symbol = f->symbol_address,
				  .symbol_slot = address(o, SLOTS) + SLOT_SYMBOL * sizeof(uint64_t),
				  .needed_slot = address(o, SLOTS) + SLOT_REGISTER * sizeof(uint64_t)};
	uint8_t *at = o->data + o->offset[RELOCATIONS];

	if (f->relocations.bytes)
		memcpy(at, library + f->relocations.offset, f->relocations.bytes);
	at += f->relocations.bytes;
	for (unsigned int i = 0; i < f->n_init; i++) {
		thunk.at = address(o, THUNKS) + i * ELF_THUNK_BYTES;
		thunk.constructor = f->init[i];
		elf_thunk_write(&thunk, o->data + o->offset[THUNKS] + i * ELF_THUNK_BYTES);
		at = put_relocation(at, address(o, CONSTRUCTORS) + i * sizeof(uint64_t), 0, relative, thunk.at);
	}
	at = put_relocation(at, thunk.symbol_slot, f->symbol_index, glob_dat, 0);
	put_relocation(at, thunk.needed_slot, registers, glob_dat, 0);
}

/* ---- the dynamic section */

/* Entries of the library that are replaced by ours, or say what is no longer so. */
static bool is_replaced(int64_t tag)
{
	switch (tag) {
	case DT_STRTAB:
	case DT_STRSZ:
	case DT_SYMTAB:
	case DT_VERNEED:
	case DT_VERNEEDNUM:
	case DT_VERDEF:
	case DT_VERDEFNUM:
	case DT_RELA:
	case DT_RELASZ:
	case DT_RELAENT:
	case DT_INIT_ARRAY:
	case DT_INIT_ARRAYSZ:
	case DT_CHECKSUM:
	case DT_GNU_PRELINKED:
	case DT_GNU_CONFLICT:
	case DT_GNU_LIBLIST:
		return true;
	}
	return false;
}

static void add_entry(struct out *o, int64_t tag, uint64_t value)
{
	const Elf64_Dyn d = {.d_tag = tag, .d_un.d_val = value};

	append(o, &d, sizeof(d));
}

static void write_dynamic(struct out *o, const struct names *n, const struct elf_facts *f, const uint8_t *library,
			  unsigned int n_versions)
{
	Elf64_Dyn d;

	begin(o, DYNAMIC);
	for (uint64_t at = 0; at < f->dynamic.bytes; at += sizeof(d)) {
		memcpy(&d, library + f->dynamic.offset + at, sizeof(d));
		if (!is_replaced(d.d_tag))
			append(o, &d, sizeof(d));
	}
	/* ld.so searches filtees in this order, all of them before the front itself. */
	add_entry(o, DT_AUXILIARY, n->real);
	add_entry(o, DT_AUXILIARY, n->plugin);
	add_entry(o, DT_STRTAB, address(o, STRINGS));
	add_entry(o, DT_STRSZ, o->bytes[STRINGS]);
	add_entry(o, DT_SYMTAB, address(o, SYMBOLS));
	add_entry(o, DT_VERDEF, address(o, VERSIONS));
	add_entry(o, DT_VERDEFNUM, n_versions);
	add_entry(o, DT_RELA, address(o, RELOCATIONS));
	add_entry(o, DT_RELASZ, o->bytes[RELOCATIONS]);
	add_entry(o, DT_RELAENT, sizeof(Elf64_Rela));
	if (f->n_init) {
		add_entry(o, DT_INIT_ARRAY, address(o, CONSTRUCTORS));
		add_entry(o, DT_INIT_ARRAYSZ, o->bytes[CONSTRUCTORS]);
	}
	add_entry(o, DT_NULL, 0);
	end(o, DYNAMIC);
}

/* ---- segments */

static Elf64_Phdr segment(const struct out *o, uint32_t flags, enum part first, enum part last)
{
	uint64_t at = address(o, first), bytes = o->offset[last] + o->bytes[last] - o->offset[first];

	return (Elf64_Phdr){.p_type = PT_LOAD,
			    .p_flags = flags,
			    .p_offset = o->offset[first],
			    .p_vaddr = at,
			    .p_paddr = at,
			    .p_filesz = bytes,
			    .p_memsz = bytes,
			    .p_align = PAGE_BYTES};
}

/* PT_LOAD segments are in the order of their addresses: ours are the last ones. */
static void fill_segments(struct out *o, const struct elf_facts *f, const uint8_t *library)
{
	uint8_t *at = o->data + o->offset[SEGMENTS];
	unsigned int n = (unsigned int)(f->segments.bytes / sizeof(Elf64_Phdr));
	Elf64_Phdr p[2];

	for (unsigned int i = 0; i < n; i++, at += sizeof(p[0])) {
		memcpy(&p[0], library + f->segments.offset + i * sizeof(p[0]), sizeof(p[0]));
		if (p[0].p_type == PT_DYNAMIC) {
			p[0] = segment(o, PF_R | PF_W, DYNAMIC, DYNAMIC);
			p[0].p_type = PT_DYNAMIC;
			p[0].p_align = 8;
		} else if (p[0].p_type == PT_PHDR) {
			p[0] = (Elf64_Phdr){.p_type = PT_NULL};
		}
		memcpy(at, &p[0], sizeof(p[0]));
	}
	p[0] = segment(o, PF_R | PF_X, SEGMENTS, THUNKS);
	p[1] = segment(o, PF_R | PF_W, FIRST_WRITABLE, DYNAMIC);
	memcpy(at, p, sizeof(p));
}

static void fill_header(struct out *o)
{
	Elf64_Ehdr h;

	memcpy(&h, o->data, sizeof(h));
	h.e_phoff = o->offset[SEGMENTS];
	h.e_phnum = (Elf64_Half)(o->bytes[SEGMENTS] / sizeof(Elf64_Phdr));
	/* They describe the library as it was. */
	h.e_shoff = 0;
	h.e_shnum = h.e_shstrndx = 0;
	memcpy(o->data, &h, sizeof(h));
}

static bool path_ok(const char *path)
{
	return path[0] == '/' && strlen(path) < PATH_MAX;
}

int elf_write(void **ret_image, size_t *ret_size, const struct elf_facts *facts, const void *library, size_t library_bytes,
	      const char *real, const char *plugin)
{
	struct names names = {0};
	struct out o = {0};
	unsigned int n_versions;
	uint64_t code;

	if (!path_ok(real) || !path_ok(plugin))
		return -EINVAL;
	append(&o, library, library_bytes);
	align(&o, PAGE_BYTES);
	code = round_up(facts->end_address, PAGE_BYTES);
	o.code_delta = code - o.size;
	begin(&o, SEGMENTS);
	append(&o, NULL, facts->segments.bytes + 2 * sizeof(Elf64_Phdr));
	end(&o, SEGMENTS);
	write_strings(&o, &names, facts, library, real, plugin);
	write_symbols(&o, facts, library);
	n_versions = write_versions(&o, &names, facts);
	reserve_constructors(&o, facts);
	/* The writable segment begins in the middle of a page of the file; its addresses are one page further. */
	o.data_delta = o.code_delta + PAGE_BYTES;
	write_dynamic(&o, &names, facts, library, n_versions);
	if (o.failed) {
		free(o.data);
		return -ENOMEM;
	}
	fill_constructors(&o, facts, library);
	fill_segments(&o, facts, library);
	fill_header(&o);
	*ret_image = o.data;
	*ret_size = o.size;
	return 0;
}
