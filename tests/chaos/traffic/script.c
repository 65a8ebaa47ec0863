// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "script.h"

#include <string.h>

#define MAX_UNSIGNALED 7u /* in a row: so nothing waits for a completion for ever */
#define MAX_UNSEEN     7u /* the same for the other end, which looks when a receive completes */
/* Operations before a slot that was read is written again: until a READ completes, it may be
 * repeated. */
#define REST 64u

static const char *const names[OP_KINDS] = {"send",    "send_imm", "write", "write_imm",
					    "private", "read",     "add",   "swap"};

/* splitmix64 */
uint64_t script_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static uint64_t draw(struct script *s, uint64_t below)
{
	s->random = script_mix(s->random);
	return s->random % below;
}

void script_begin(struct script *s, uint64_t id, unsigned int kinds)
{
	memset(s, 0, sizeof(*s));
	s->id = id;
	s->random = script_mix(id);
	s->kinds = kinds;
}

bool op_consumes_receive(enum op_kind kind)
{
	return kind == OP_SEND || kind == OP_SEND_IMM || kind == OP_WRITE_IMM;
}

/* One of the kinds in @mask, which has some. */
static enum op_kind draw_kind(struct script *s, unsigned int mask)
{
	enum op_kind kind;

	do
		kind = (enum op_kind)draw(s, OP_KINDS);
	while (!(mask >> kind & 1));
	return kind;
}

static enum op_kind choose(struct script *s)
{
	const unsigned int consuming = 1u << OP_SEND | 1u << OP_SEND_IMM | 1u << OP_WRITE_IMM;
	unsigned int mask = s->kinds;

	if (s->unseen >= MAX_UNSEEN)
		mask = mask & consuming ? mask & consuming : 1u << OP_SEND;
	return draw_kind(s, mask);
}

/* Zero, one packet, its borders, several. */
static uint32_t draw_bytes(struct script *s)
{
	static const uint32_t edges[] = {0,    1,    8,    60,   64,   256,  1023,
					 1024, 1025, 2048, 2049, 4096, 4097, MAX_BYTES};

	if (draw(s, 2))
		return edges[draw(s, sizeof(edges) / sizeof(*edges))];
	return (uint32_t)draw(s, MAX_BYTES + 1);
}

static struct private_slot *rested(struct script *s, uint32_t *ret_slot)
{
	uint32_t slot = (uint32_t)draw(s, N_PRIVATE);

	while (s->privates[slot].last_use + REST > s->n && s->privates[slot].last_use)
		slot = (slot + 1) % N_PRIVATE;
	*ret_slot = slot;
	return &s->privates[slot];
}

/* A READ of what was written; there may be nothing yet, then that is done instead. */
static void private_op(struct script *s, struct op *op)
{
	uint32_t slot = (uint32_t)draw(s, N_PRIVATE), i;
	struct private_slot *p;

	for (i = 0; op->kind == OP_READ && i < N_PRIVATE && !s->privates[slot].written; i++)
		slot = (slot + 1) % N_PRIVATE;
	p = &s->privates[slot];
	if (op->kind == OP_READ && p->written) {
		op->source = p->writer;
		op->bytes = p->bytes;
		op->in_line = false;
		p->last_use = s->n + 1;
	} else {
		op->kind = OP_PRIVATE;
		p = rested(s, &slot);
		*p = (struct private_slot){.writer = s->n, .bytes = op->bytes, .written = true};
	}
	op->slot = slot;
}

static void atomic_op(struct script *s, struct op *op)
{
	op->bytes = 8;
	op->in_line = false;
	op->operand = draw(s, 1ull << 40);
	if (op->kind == OP_ADD) {
		op->result = s->sum;
		s->sum += op->operand;
		return;
	}
	op->result = s->word;
	op->compare = draw(s, 4) ? s->word : ~s->word;
	if (op->compare == s->word)
		s->word = op->operand;
}

void script_next(struct script *s, struct op *ret)
{
	struct op op = {.number = s->n, .kind = choose(s), .bytes = draw_bytes(s)};

	op.signaled = !draw(s, 3) || s->unsignaled >= MAX_UNSIGNALED;
	op.imm = (uint32_t)script_mix(s->id ^ s->n);
	op.in_line = op.bytes <= INLINE_BYTES && draw(s, 2);
	if (op.kind == OP_PRIVATE || op.kind == OP_READ)
		private_op(s, &op);
	if (op.kind == OP_ADD || op.kind == OP_SWAP)
		atomic_op(s, &op);
	s->unsignaled = op.signaled ? 0 : s->unsignaled + 1;
	s->unseen = op_consumes_receive(op.kind) ? 0 : s->unseen + 1;
	s->n++;
	*ret = op;
}

const char *script_kind_name(enum op_kind kind)
{
	return names[kind];
}

unsigned int script_kinds(const char *words)
{
	unsigned int kinds = 0;
	size_t len;
	int i;

	for (; *words; words += len + (words[len] == ',')) {
		len = strcspn(words, ",");
		for (i = 0; i < OP_KINDS; i++)
			if (strlen(names[i]) == len && !strncmp(words, names[i], len))
				break;
		if (i == OP_KINDS)
			return 0;
		kinds |= 1u << i;
	}
	return kinds;
}

static uint64_t word_at(uint64_t id, uint32_t number, size_t i)
{
	return script_mix(id ^ (uint64_t)number << 20 ^ i);
}

void script_fill(uint64_t id, uint32_t number, uint8_t *data, size_t bytes)
{
	uint64_t word;
	size_t i;

	for (i = 0; i < bytes; i += 8) {
		word = word_at(id, number, i);
		memcpy(data + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

int script_differs(uint64_t id, uint32_t number, const uint8_t *data, size_t bytes)
{
	uint64_t word;
	size_t i;

	for (i = 0; i < bytes; i += 8) {
		word = word_at(id, number, i);
		if (memcmp(data + i, &word, bytes - i < 8 ? bytes - i : 8))
			return (int)i;
	}
	return -1;
}
