/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_OUT_H
#define TOOL_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Output as text for people or JSON for programs, by the same calls. A field has a JSON key and a text label; a NULL
 * key leaves it out of the JSON, a NULL label out of the text. Strings are copied; bytes unfit for terminals or JSON
 * become '?'.
 *
 * Errors (memory, writing) are remembered and returned by out_finish(), so other calls need no checks. One thread.
 */
struct out;

enum out_tone { OUT_PLAIN, OUT_GOOD, OUT_WARN, OUT_BAD };

/**
 * out_new - start a document
 * @file: owned by the caller; stays open
 * @json: JSON instead of text
 * @colour: show tones as terminal colours
 *
 * Return: end it with out_finish(); NULL: no memory.
 */
struct out *out_new(FILE *file, bool json, bool colour);

/**
 * out_finish - print what is still withheld, flush and free
 * @out: NULL is allowed
 *
 * Return: 0; -ENOMEM; -errno of writing.
 */
int out_finish(struct out *out);

/** out_cancel - free without end: JSON is not printed, text remains as printed so far */
void out_cancel(struct out *out);

/** out_is_json - for content of one form only */
bool out_is_json(const struct out *out);

/**
 * out_section - begin an object
 * @title: headline of the text; NULL: none
 *
 * Sections nest, and contain fields, lists and sections.
 */
void out_section(struct out *out, const char *key, const char *title);
void out_section_end(struct out *out);

/**
 * out_list - begin a list of rows, or of items
 * @title: headline of the text, printed only if something follows; NULL: none
 */
void out_list(struct out *out, const char *key, const char *title);
void out_list_end(struct out *out);

/**
 * out_row - begin a row of a list: a table line, or an object
 *
 * Following fields belong to it, until the next row or the end of the list. All rows of a list have the same fields in
 * the same order.
 */
void out_row(struct out *out);

/**
 * out_record - begin a row of a list whose fields are sentences: an object, or a headline with a line for each field
 * @headline: of the text
 *
 * Following fields belong to it, until the next record or the end of the list.
 */
void out_record(struct out *out, enum out_tone tone, const char *headline);

/** out_item - a sentence of a list */
void out_item(struct out *out, enum out_tone tone, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * out_text - a string
 * @value: NULL: null, or a dash
 */
void out_text(struct out *out, const char *key, const char *label, enum out_tone tone,
	      const char *value);
void out_textf(struct out *out, const char *key, const char *label, enum out_tone tone,
	       const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void out_uint(struct out *out, const char *key, const char *label, uint64_t value);
void out_bool(struct out *out, const char *key, const char *label, bool value); /* yes or no */

#endif
