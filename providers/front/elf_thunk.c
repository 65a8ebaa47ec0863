// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <elf.h>
#include <string.h>

#include "elf_thunk.h"

struct code {
	uint8_t *out;
	uint64_t at; /* address of what comes next */
};

static void put(struct code *c, const void *bytes, unsigned int n)
{
	memcpy(c->out, bytes, n);
	c->out += n;
	c->at += n;
}

static void put32(struct code *c, uint64_t value)
{
	const uint8_t bytes[] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};

	put(c, bytes, sizeof(bytes));
}

/* Arguments of a constructor are in rdi, rsi, rdx: only rax is used. A distance counts from the end of its instruction. */
static void x86_64(const struct elf_thunk *t, struct code *c)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa}, lea_rax[] = {0x48, 0x8d, 0x05}, cmp_rax[] = {0x48, 0x3b, 0x05};
	static const uint8_t cmpq_zero[] = {0x48, 0x83, 0x3d}, jne_ret[] = {0x75, 0x0f}, je_ret[] = {0x74, 0x05}, jmp[] = {0xe9};
	static const uint8_t zero[] = {0x00}, ret[] = {0xc3};

	put(c, endbr64, sizeof(endbr64));
	put(c, lea_rax, sizeof(lea_rax));
	put32(c, t->symbol - (c->at + 4));
	put(c, cmp_rax, sizeof(cmp_rax));
	put32(c, t->symbol_slot - (c->at + 4));
	put(c, jne_ret, sizeof(jne_ret));
	put(c, cmpq_zero, sizeof(cmpq_zero));
	put32(c, t->needed_slot - (c->at + 5));
	put(c, zero, sizeof(zero));
	put(c, je_ret, sizeof(je_ret));
	put(c, jmp, sizeof(jmp));
	put32(c, t->constructor - (c->at + 4));
	put(c, ret, sizeof(ret));
}

/* adrp: the page of @target, relative to that of the instruction */
static uint32_t adrp(unsigned int reg, uint64_t at, uint64_t target)
{
	uint64_t pages = (target >> 12) - (at >> 12);

	return 0x90000000u | (uint32_t)(pages & 3) << 29 | (uint32_t)(pages >> 2 & 0x7ffff) << 5 | reg;
}

/* Registers x16 and x17 are nobody's at a function's entry. */
static void aarch64(const struct elf_thunk *t, struct code *c)
{
	put32(c, 0xd503245f); /* bti c */
	put32(c, adrp(16, c->at, t->symbol));
	put32(c, 0x91000210 | (t->symbol & 0xfff) << 10); /* add x16, x16, #low */
	put32(c, adrp(17, c->at, t->symbol_slot));
	put32(c, 0xf9400231 | (t->symbol_slot & 0xfff) >> 3 << 10); /* ldr x17, [x17, #low] */
	put32(c, 0xeb11021f); /* cmp x16, x17 */
	put32(c, 0x540000a1); /* b.ne to ret */
	put32(c, adrp(17, c->at, t->needed_slot));
	put32(c, 0xf9400231 | (t->needed_slot & 0xfff) >> 3 << 10);
	put32(c, 0xb4000051); /* cbz x17, to ret */
	put32(c, 0x14000000 | ((t->constructor - c->at) >> 2 & 0x3ffffff)); /* b constructor */
	put32(c, 0xd65f03c0); /* ret */
}

void elf_thunk_write(const struct elf_thunk *thunk, uint8_t *out)
{
	struct code c = {.out = out, .at = thunk->at};

	if (thunk->machine == EM_X86_64)
		x86_64(thunk, &c);
	else
		aarch64(thunk, &c);
}
