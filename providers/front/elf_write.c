// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_write.h"

/* The largest page size of both machines (aarch64 kernels with 64 KiB pages); the linkers use it
 * there too. */
#define PAGE_BYTES 0x10000ULL

enum {
	SEC_NULL,
	SEC_NOTE,
	SEC_HASH,
	SEC_SYMBOLS,
	SEC_STRINGS,
	SEC_VERSYM,
	SEC_VERDEF,
	SEC_DYNAMIC,
	SEC_NAMES,
	N_SECTIONS
};

static const struct {
	const char *name;
	uint32_t type, link;
	uint64_t flags, align, entry;
} sections[N_SECTIONS] = {
	[SEC_NULL] = {"", SHT_NULL, 0, 0, 0, 0},
	[SEC_NOTE] = {".note.gnu.property", SHT_NOTE, 0, SHF_ALLOC, 8, 0},
	[SEC_HASH] = {".gnu.hash", SHT_GNU_HASH, SEC_SYMBOLS, SHF_ALLOC, 8, 0},
	[SEC_SYMBOLS] = {".dynsym", SHT_DYNSYM, SEC_STRINGS, SHF_ALLOC, 8, sizeof(Elf64_Sym)},
	[SEC_STRINGS] = {".dynstr", SHT_STRTAB, 0, SHF_ALLOC, 1, 0},
	[SEC_VERSYM] = {".gnu.version", SHT_GNU_versym, SEC_SYMBOLS, SHF_ALLOC, 2,
			sizeof(Elf64_Half)},
	[SEC_VERDEF] = {".gnu.version_d", SHT_GNU_verdef, SEC_STRINGS, SHF_ALLOC, 8, 0},
	[SEC_DYNAMIC] = {".dynamic", SHT_DYNAMIC, SEC_STRINGS, SHF_ALLOC | SHF_WRITE, 8,
			 sizeof(Elf64_Dyn)},
	[SEC_NAMES] = {".shstrtab", SHT_STRTAB, 0, 0, 1, 0},
};

struct out {
	uint8_t *data;
	size_t size, room;
	bool failed; /* out of memory; looked at once, at the end */
	uint64_t at[N_SECTIONS], bytes[N_SECTIONS];
};

static void *append(struct out *o, const void *data, size_t n)
{
	if (o->size + n > o->room) {
		size_t room = 2 * o->room + n + 4096;
		void *p = realloc(o->data, room);

		if (!p) {
			o->failed = true;
			return NULL;
		}
		o->data = p;
		o->room = room;
	}
	if (data)
		memcpy(o->data + o->size, data, n);
	else
		memset(o->data + o->size, 0, n);
	o->size += n;
	return o->data + o->size - n;
}

static void begin(struct out *o, int section)
{
	uint64_t align = sections[section].align;

	while (o->size % align && !o->failed)
		append(o, NULL, 1);
	o->at[section] = o->size;
}

static void end(struct out *o, int section)
{
	o->bytes[section] = o->size - o->at[section];
}

/* Returns the string's index in the section under construction. */
static uint32_t add_string(struct out *o, int section, const char *text)
{
	uint32_t index = (uint32_t)(o->size - o->at[section]);

	append(o, text, strlen(text) + 1);
	return index;
}

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
	uint32_t soname, real, plugin;
	unsigned int n_versions;
	uint32_t versions[ELF_MAX_VERSIONS + ELF_SPARE_VERSIONS];
	uint32_t hashes[ELF_MAX_VERSIONS + ELF_SPARE_VERSIONS];
};

static void add_version(struct out *o, struct names *n, const char *name)
{
	n->hashes[n->n_versions] = elf_hash(name);
	n->versions[n->n_versions++] = add_string(o, SEC_STRINGS, name);
}

/* "MLX5_1.24" gives "MLX5_1.25" and so on; nothing for a scheme that does not end in a number. */
static void add_spares(struct out *o, struct names *n, const struct elf_facts *f)
{
	unsigned long most = 0;
	const char *scheme = NULL;
	size_t stem = 0;

	for (unsigned int i = 0; i < f->n_versions; i++) {
		const char *dot = strrchr(f->versions[i], '.');
		unsigned long v = dot ? strtoul(dot + 1, NULL, 10) : 0;

		if (dot && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1) &&
		    v < 100000 && (!scheme || v > most)) {
			most = v;
			scheme = f->versions[i];
			stem = (size_t)(dot + 1 - scheme);
		}
	}
	for (unsigned long i = 1; scheme && i <= ELF_SPARE_VERSIONS; i++) {
		char name[ELF_MAX_NAME + 8];

		snprintf(name, sizeof(name), "%.*s%lu", (int)stem, scheme, most + i);
		add_version(o, n, name);
	}
}

static void write_strings(struct out *o, struct names *n, const struct elf_facts *f,
			  const char *real, const char *plugin)
{
	begin(o, SEC_STRINGS);
	add_string(o, SEC_STRINGS, "");
	n->soname = add_string(o, SEC_STRINGS, f->soname);
	n->real = add_string(o, SEC_STRINGS, real);
	n->plugin = add_string(o, SEC_STRINGS, plugin);
	for (unsigned int i = 0; i < f->n_versions; i++)
		add_version(o, n, f->versions[i]);
	add_spares(o, n, f);
	end(o, SEC_STRINGS);
}

static void write_verdef(struct out *o, const struct names *n, const struct elf_facts *f)
{
	begin(o, SEC_VERDEF);
	for (unsigned int i = 0; i <= n->n_versions; i++) {
		bool base = i == 0, last = i == n->n_versions;
		Elf64_Verdef def = {
			.vd_version = VER_DEF_CURRENT,
			.vd_flags = base ? VER_FLG_BASE : 0,
			.vd_ndx = (Elf64_Half)(i + 1),
			.vd_cnt = 1,
			.vd_hash = base ? elf_hash(f->soname) : n->hashes[i - 1],
			.vd_aux = sizeof(def),
			.vd_next = last ? 0 : sizeof(Elf64_Verdef) + sizeof(Elf64_Verdaux),
		};
		Elf64_Verdaux aux = {.vda_name = base ? n->soname : n->versions[i - 1]};

		append(o, &def, sizeof(def));
		append(o, &aux, sizeof(aux));
	}
	end(o, SEC_VERDEF);
}

static void write_tables(struct out *o, const struct elf_facts *f)
{
	/* One bucket, no symbol; the bloom filter says no to every name. */
	static const uint32_t hash[] = {1, 1, 1, 0, 0, 0, 0};

	begin(o, SEC_NOTE);
	append(o, f->note, f->note_bytes);
	end(o, SEC_NOTE);
	begin(o, SEC_HASH);
	append(o, hash, sizeof(hash));
	end(o, SEC_HASH);
	begin(o, SEC_SYMBOLS);
	append(o, NULL, sizeof(Elf64_Sym));
	end(o, SEC_SYMBOLS);
	begin(o, SEC_VERSYM);
	append(o, NULL, sizeof(Elf64_Half));
	end(o, SEC_VERSYM);
}

/* ld.so of older C libraries writes into this section: it is in the writable segment, as linkers do
 * it. */
static void write_dynamic(struct out *o, const struct names *n)
{
	const Elf64_Dyn entries[] = {
		{.d_tag = DT_NEEDED, .d_un.d_val = n->real},
		{.d_tag = DT_SONAME, .d_un.d_val = n->soname},
		{.d_tag = DT_AUXILIARY, .d_un.d_val = n->plugin},
		{.d_tag = DT_GNU_HASH, .d_un.d_ptr = o->at[SEC_HASH]},
		{.d_tag = DT_STRTAB, .d_un.d_ptr = o->at[SEC_STRINGS]},
		{.d_tag = DT_SYMTAB, .d_un.d_ptr = o->at[SEC_SYMBOLS]},
		{.d_tag = DT_STRSZ, .d_un.d_val = o->bytes[SEC_STRINGS]},
		{.d_tag = DT_SYMENT, .d_un.d_val = sizeof(Elf64_Sym)},
		{.d_tag = DT_VERSYM, .d_un.d_ptr = o->at[SEC_VERSYM]},
		{.d_tag = DT_VERDEF, .d_un.d_ptr = o->at[SEC_VERDEF]},
		{.d_tag = DT_VERDEFNUM, .d_un.d_val = n->n_versions + 1},
		{.d_tag = DT_NULL},
	};

	begin(o, SEC_DYNAMIC);
	append(o, entries, sizeof(entries));
	end(o, SEC_DYNAMIC);
}

static uint64_t address_of(const struct out *o, int section)
{
	if (!(sections[section].flags & SHF_ALLOC))
		return 0;
	return o->at[section] + (section == SEC_DYNAMIC ? PAGE_BYTES : 0);
}

static void write_sections(struct out *o, uint64_t *at, unsigned int *n_written,
			   const struct names *n, bool note)
{
	uint32_t name_of[N_SECTIONS];

	begin(o, SEC_NAMES);
	for (int i = 0; i < N_SECTIONS; i++)
		name_of[i] = add_string(o, SEC_NAMES, sections[i].name);
	end(o, SEC_NAMES);
	while (o->size % 8 && !o->failed)
		append(o, NULL, 1);
	*at = o->size;
	*n_written = 0;
	for (uint32_t i = 0; i < N_SECTIONS; i++) {
		Elf64_Shdr s = {
			.sh_name = name_of[i],
			.sh_type = sections[i].type,
			.sh_flags = sections[i].flags,
			.sh_addr = address_of(o, (int)i),
			.sh_offset = o->at[i],
			.sh_size = o->bytes[i],
			/* Without a note the sections behind it move up by one. */
			.sh_link = sections[i].link ? sections[i].link - !note : 0,
			.sh_addralign = sections[i].align,
			.sh_entsize = sections[i].entry,
		};

		if (i == SEC_NOTE && !note)
			continue;
		if (i == SEC_SYMBOLS)
			s.sh_info = 1; /* first global symbol */
		if (i == SEC_VERDEF)
			s.sh_info = n->n_versions + 1;
		append(o, &s, sizeof(s));
		(*n_written)++;
	}
}

static unsigned int write_segments(struct out *o, Elf64_Phdr *p, bool note)
{
	uint64_t dynamic = o->at[SEC_DYNAMIC], bytes = o->bytes[SEC_DYNAMIC];
	unsigned int n = 0;

	p[n++] = (Elf64_Phdr){.p_type = PT_LOAD,
			      .p_flags = PF_R,
			      .p_filesz = dynamic,
			      .p_memsz = dynamic,
			      .p_align = PAGE_BYTES};
	p[n++] = (Elf64_Phdr){.p_type = PT_LOAD,
			      .p_flags = PF_R | PF_W,
			      .p_offset = dynamic,
			      .p_vaddr = PAGE_BYTES + dynamic,
			      .p_paddr = PAGE_BYTES + dynamic,
			      .p_filesz = bytes,
			      .p_memsz = bytes,
			      .p_align = PAGE_BYTES};
	p[n++] = (Elf64_Phdr){.p_type = PT_DYNAMIC,
			      .p_flags = PF_R | PF_W,
			      .p_offset = dynamic,
			      .p_vaddr = PAGE_BYTES + dynamic,
			      .p_paddr = PAGE_BYTES + dynamic,
			      .p_filesz = bytes,
			      .p_memsz = bytes,
			      .p_align = 8};
	for (int i = 0; note && i < 2; i++)
		p[n++] = (Elf64_Phdr){.p_type = i ? PT_GNU_PROPERTY : PT_NOTE,
				      .p_flags = PF_R,
				      .p_offset = o->at[SEC_NOTE],
				      .p_vaddr = o->at[SEC_NOTE],
				      .p_paddr = o->at[SEC_NOTE],
				      .p_filesz = o->bytes[SEC_NOTE],
				      .p_memsz = o->bytes[SEC_NOTE],
				      .p_align = 8};
	/* Without this, the kernel and ld.so would give the whole process an executable stack. */
	p[n++] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16};
	return n;
}

#define MAX_SEGMENTS 6

static void write_header(struct out *o, const struct elf_facts *f, uint64_t sections_at,
			 unsigned int n_sections, const Elf64_Phdr *segments,
			 unsigned int n_segments)
{
	Elf64_Ehdr h = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = f->machine,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(h),
		.e_shoff = sections_at,
		.e_flags = f->flags,
		.e_ehsize = sizeof(h),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = (Elf64_Half)n_segments,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = (Elf64_Half)n_sections,
		.e_shstrndx = (Elf64_Half)(n_sections - 1),
	};

	h.e_ident[EI_OSABI] = f->osabi;
	memcpy(o->data, &h, sizeof(h));
	memcpy(o->data + sizeof(h), segments, n_segments * sizeof(*segments));
}

static bool path_ok(const char *path)
{
	return path[0] == '/' && strlen(path) < PATH_MAX;
}

int elf_write(void **ret_image, size_t *ret_size, const struct elf_facts *facts, const char *real,
	      const char *plugin)
{
	bool note = facts->note_bytes != 0;
	Elf64_Phdr segments[MAX_SEGMENTS];
	struct names names = {0};
	struct out o = {0};
	unsigned int n_segments, n_sections;
	uint64_t sections_at;

	if (!path_ok(real) || !path_ok(plugin))
		return -EINVAL;
	append(&o, NULL, sizeof(Elf64_Ehdr) + (MAX_SEGMENTS - (note ? 0 : 2)) * sizeof(Elf64_Phdr));
	write_tables(&o, facts);
	write_strings(&o, &names, facts, real, plugin);
	write_verdef(&o, &names, facts);
	write_dynamic(&o, &names);
	write_sections(&o, &sections_at, &n_sections, &names, note);
	if (o.failed) {
		free(o.data);
		return -ENOMEM;
	}
	n_segments = write_segments(&o, segments, note);
	write_header(&o, facts, sections_at, n_sections, segments, n_segments);
	*ret_image = o.data;
	*ret_size = o.size;
	return 0;
}
