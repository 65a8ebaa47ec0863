/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef CHAOS_SCRIPT_H
#define CHAOS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What one end of a queue pair sends, as a function of a number: both ends compute it, the one to
 * do it and the other to know what has to arrive. Pure.
 */

#define MAX_BYTES    4608u /* of one operation: four packets and a half of 1024 */
#define INLINE_BYTES 64u
#define N_SLOTS      64u /* for WRITEs that the other end looks at; operation n has slot n % N_SLOTS */
#define N_PRIVATE    96u /* for WRITEs that are read back */

enum op_kind {
	OP_SEND,
	OP_SEND_IMM,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_PRIVATE,
	OP_READ,
	OP_ADD,
	OP_SWAP,
	OP_KINDS
};

struct op {
	uint32_t number; /* from 0 on */
	enum op_kind kind;
	uint32_t bytes;
	bool signaled, in_line;
	uint32_t imm;
	uint32_t slot; /* PRIVATE, READ */
	uint32_t source; /* READ: number of the operation that wrote what it reads */
	uint64_t operand, compare; /* ADD: operand; SWAP: both */
	uint64_t result; /* what an ADD or SWAP has to return */
};

struct script {
	uint64_t id, random;
	unsigned int kinds; /* 1 << enum op_kind */
	uint32_t n; /* operations made so far */
	uint32_t unsignaled,
		unseen; /* since the last signaled one, the last that consumes a receive */
	struct private_slot {
		uint32_t writer, bytes, last_use;
		bool written;
	} privates[N_PRIVATE];
	uint64_t sum, word; /* what the operations so far make of the counter, and of what SWAP
			       works on */
};

/**
 * script_begin() - at the first operation
 * @id: of the data; from seed, end, queue pair and how often that was replaced
 */
void script_begin(struct script *s, uint64_t id, unsigned int kinds);
void script_next(struct script *s, struct op *ret);

/** script_kinds() - enum op_kind of words with commas between; 0: no such word */
unsigned int script_kinds(const char *words);
const char *script_kind_name(enum op_kind kind);

bool op_consumes_receive(enum op_kind kind);
/** script_fill() - the data of an operation */
void script_fill(uint64_t id, uint32_t number, uint8_t *data, size_t bytes);
/** script_differs() - the first byte that is not as script_fill() has it; -1: none */
int script_differs(uint64_t id, uint32_t number, const uint8_t *data, size_t bytes);
uint64_t script_mix(uint64_t x);

#endif
