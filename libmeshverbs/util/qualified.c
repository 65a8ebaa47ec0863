/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "qualified.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- build id ---------------------------------------------------------------------------------- */

struct search {
	uintptr_t address;
	char *ret;
	bool found;
};

static bool holds(const struct dl_phdr_info *info, uintptr_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD && address >= from && address - from < ph->p_memsz)
			return true;
	}
	return false;
}

static size_t padded(size_t bytes)
{
	return (bytes + 3) & ~(size_t)3;
}

/* @size: length of the notes. */
static bool find_in_notes(const char *notes, size_t size, char *ret)
{
	ElfW(Nhdr) note;
	size_t at = 0, desc;

	while (size - at >= sizeof(note)) {
		memcpy(&note, notes + at, sizeof(note));
		at += sizeof(note);
		if (padded(note.n_namesz) > size - at)
			return false;
		desc = at + padded(note.n_namesz);
		if (padded(note.n_descsz) > size - desc)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") && !memcmp(notes + at, "GNU", sizeof("GNU")) &&
		    note.n_descsz && note.n_descsz <= (MV_BUILD_ID_TEXT - 1) / 2) {
			for (size_t i = 0; i < note.n_descsz; i++)
				snprintf(ret + 2 * i, 3, "%02x", (unsigned char)notes[desc + i]);
			return true;
		}
		at = desc + padded(note.n_descsz);
	}
	return false;
}

static int look_into_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;

	(void)size;
	if (!holds(info, s->address))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && !s->found; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_NOTE)
			s->found = find_in_notes((const char *)(info->dlpi_addr + ph->p_vaddr), ph->p_memsz, s->ret);
	}
	return 1;
}

int mv_build_id(const void *address, char ret[MV_BUILD_ID_TEXT])
{
	char text[MV_BUILD_ID_TEXT];
	struct search s = {.address = (uintptr_t)address, .ret = text};

	dl_iterate_phdr(look_into_object, &s);
	if (!s.found)
		return -ENOENT;
	strcpy(ret, text);
	return 0;
}

/* ---- names ------------------------------------------------------------------------------------- */

static bool is_plain(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-';
}

int mv_qualified_file_name(const struct mv_qualified_key *key, char *ret, size_t size)
{
	char name[NAME_MAX + 1];
	int n;

	if (!key->board_id[0] || !key->firmware[0] || !key->kernel[0] || !key->libmlx5[0])
		return -EINVAL;
	n = snprintf(name, sizeof(name), "%s_%s_%s_%s.json", key->board_id, key->firmware, key->kernel, key->libmlx5);
	if (n < 0 || (size_t)n >= sizeof(name) || (size_t)n >= size)
		return -ENAMETOOLONG;
	for (char *c = name; *c; c++)
		if (!is_plain(*c))
			*c = '_';
	if (name[0] == '.') /* neither hidden nor a directory */
		name[0] = '_';
	memcpy(ret, name, (size_t)n + 1);
	return 0;
}

int mv_qualified_same_key(const struct mv_qualified_key *a, const struct mv_qualified_key *b)
{
	return !strcmp(a->board_id, b->board_id) && !strcmp(a->firmware, b->firmware) && !strcmp(a->kernel, b->kernel) &&
	       !strcmp(a->libmlx5, b->libmlx5);
}

const char *mv_trial_verdict_text(enum mv_trial_verdict verdict)
{
	static const char *const texts[] = {
		[MV_TRIAL_PASS] = "pass", [MV_TRIAL_FAIL] = "fail", [MV_TRIAL_UNSURE] = "unsure", [MV_TRIAL_SKIPPED] = "skipped"};

	return texts[verdict];
}

const char *mv_verdict_text(enum mv_verdict verdict)
{
	static const char *const texts[] = {
		[MV_VERDICT_QUALIFIED] = "qualified", [MV_VERDICT_FAILED] = "failed", [MV_VERDICT_UNSURE] = "unsure"};

	return texts[verdict];
}

/* ---- results -------------------------------------------------------------------------------- */

enum mv_verdict mv_qualified_decide(const struct mv_qualified_trial *trials, size_t n)
{
	bool passed = false, unsure = false;

	for (size_t i = 0; i < n; i++) {
		if (trials[i].verdict == MV_TRIAL_FAIL)
			return MV_VERDICT_FAILED;
		passed |= trials[i].verdict == MV_TRIAL_PASS;
		unsure |= trials[i].verdict == MV_TRIAL_UNSURE;
	}
	return passed && !unsure ? MV_VERDICT_QUALIFIED : MV_VERDICT_UNSURE;
}

double mv_qualified_figure(const struct mv_qualified_trial *trial, const char *name, double otherwise)
{
	for (size_t i = 0; i < trial->n_figures; i++)
		if (!strcmp(trial->figures[i].name, name))
			return trial->figures[i].value;
	return otherwise;
}

const struct mv_qualified_trial *mv_qualified_trial(const struct mv_qualified *q, const char *name)
{
	for (size_t i = 0; i < q->n_trials; i++)
		if (!strcmp(q->trials[i].name, name))
			return &q->trials[i];
	return NULL;
}
