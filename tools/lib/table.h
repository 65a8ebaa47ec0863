/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_TABLE_H
#define TOOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "out.h"

#define TABLE_COLUMNS_MAX 16

struct table_cell {
	char *text;
	enum out_tone tone;
};

/* A text table. It is printed when complete, because column widths depend on all rows. */
struct table {
	const char *labels[TABLE_COLUMNS_MAX]; /* not owned */
	size_t n_columns;
	size_t n_rows;
	size_t column; /* column of the next cell in the current row */
	struct table_cell *cells; /* n_rows * TABLE_COLUMNS_MAX */
};

/**
 * table_row - begin a row
 *
 * Return: 0 or -ENOMEM.
 */
int table_row(struct table *table);

/**
 * table_cell - add a cell to the current row
 * @label: headline of the column; must outlive the table
 * @text: owned by the table from now on, also after an error
 *
 * Return: 0; -ENOSPC: the row is full.
 */
int table_cell(struct table *table, const char *label, enum out_tone tone, char *text);

/**
 * table_print - print headline and rows
 * @indent: blanks before each line
 */
void table_print(const struct table *table, FILE *file, unsigned int indent, bool colour);
void table_fini(struct table *table);

/** tone_on - terminal sequence that starts a tone; "": none. tone_off ends it */
const char *tone_on(enum out_tone tone, bool colour);
const char *tone_off(enum out_tone tone, bool colour);

#endif
