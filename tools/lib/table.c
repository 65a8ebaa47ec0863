// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* ECMA-48 sequences that every colour terminal knows. */
static const char *const tones[] = {
	[OUT_PLAIN] = "",
	[OUT_GOOD] = "\033[32m",
	[OUT_WARN] = "\033[33m",
	[OUT_BAD] = "\033[31m",
};

const char *tone_on(enum out_tone tone, bool colour)
{
	return colour ? tones[tone] : "";
}

const char *tone_off(enum out_tone tone, bool colour)
{
	return colour && tone != OUT_PLAIN ? "\033[0m" : "";
}

int table_row(struct table *table)
{
	struct table_cell *cells;

	cells = reallocarray(table->cells, table->n_rows + 1, TABLE_COLUMNS_MAX * sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	memset(cells + table->n_rows * TABLE_COLUMNS_MAX, 0, TABLE_COLUMNS_MAX * sizeof(*cells));
	table->cells = cells;
	table->n_rows++;
	table->column = 0;
	return 0;
}

int table_cell(struct table *table, const char *label, enum out_tone tone, char *text)
{
	struct table_cell *cell;

	if (!table->n_rows || table->column == TABLE_COLUMNS_MAX) {
		free(text);
		return -ENOSPC;
	}
	cell = table->cells + (table->n_rows - 1) * TABLE_COLUMNS_MAX + table->column;
	cell->text = text;
	cell->tone = tone;
	table->labels[table->column++] = label;
	if (table->column > table->n_columns)
		table->n_columns = table->column;
	return 0;
}

static const struct table_cell *table_at(const struct table *table, size_t row, size_t column)
{
	return table->cells + row * TABLE_COLUMNS_MAX + column;
}

/* Width on the screen: UTF-8 continuation bytes do not count. */
static size_t text_width(const char *text)
{
	size_t n = 0;

	for (; text && *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

static void print_cell(FILE *file, const char *text, enum out_tone tone, size_t width, bool colour)
{
	size_t used = text_width(text);

	fprintf(file, "%s%s%s", tone_on(tone, colour), text ? text : "", tone_off(tone, colour));
	if (width > used)
		fprintf(file, "%*s", (int)(width - used), "");
}

void table_print(const struct table *table, FILE *file, unsigned int indent, bool colour)
{
	size_t widths[TABLE_COLUMNS_MAX] = {0};
	size_t row, column, width;

	for (column = 0; column + 1 < table->n_columns; column++) {
		widths[column] = text_width(table->labels[column]) + 2;
		for (row = 0; row < table->n_rows; row++) {
			width = text_width(table_at(table, row, column)->text) + 2;
			if (width > widths[column])
				widths[column] = width;
		}
	}
	fprintf(file, "%*s", (int)indent, "");
	for (column = 0; column < table->n_columns; column++)
		print_cell(file, table->labels[column], OUT_PLAIN, widths[column], false);
	fputc('\n', file);
	for (row = 0; row < table->n_rows; row++) {
		fprintf(file, "%*s", (int)indent, "");
		for (column = 0; column < table->n_columns; column++)
			print_cell(file, table_at(table, row, column)->text,
				   table_at(table, row, column)->tone, widths[column], colour);
		fputc('\n', file);
	}
}

void table_fini(struct table *table)
{
	size_t i;

	for (i = 0; i < table->n_rows * TABLE_COLUMNS_MAX; i++)
		free(table->cells[i].text);
	free(table->cells);
	memset(table, 0, sizeof(*table));
}
