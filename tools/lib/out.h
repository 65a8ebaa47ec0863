/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_OUT_H
#define TOOL_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Output that is text for people or JSON for programs, from the same calls: every field is named
 * once, with its JSON key and its label. A NULL key keeps a field out of the JSON, a NULL label out
 * of the text. Strings are copied, and bytes that would upset a terminal or a JSON parser become
 * '?'.
 *
 * Errors (memory, writing) are kept and reported by out_finish(), so callers need not check each
 * call. One thread.
 */
struct out;

enum out_tone { OUT_PLAIN, OUT_GOOD, OUT_WARN, OUT_BAD };

/**
 * out_new - start a document
 * @file: where it goes; stays open
 * @json: JSON instead of text
 * @colour: tones are shown by terminal colours
 *
 * Return: the document, to be ended with out_finish(); NULL when out of memory.
 */
struct out *out_new(FILE *file, bool json, bool colour);

/**
 * out_finish - print what is still held back, flush and release
 * @out: NULL is fine
 *
 * Return: 0, -ENOMEM, or -errno of writing.
 */
int out_finish(struct out *out);

/**
 * out_cancel - release without an end: JSON is not printed, text stays as far as it came
 */
void out_cancel(struct out *out);

/**
 * out_is_json - for what is worth showing in one form only
 */
bool out_is_json(const struct out *out);

/**
 * out_section - begin an object
 * @title: headline of the text; NULL for none
 *
 * Sections nest, and hold fields, lists and sections.
 */
void out_section(struct out *out, const char *key, const char *title);
void out_section_end(struct out *out);

/**
 * out_list - begin a list of rows, or of items
 * @title: headline of the text, printed only if something follows; NULL for none
 */
void out_list(struct out *out, const char *key, const char *title);
void out_list_end(struct out *out);

/**
 * out_row - begin a row of a list: a table line, or an object
 *
 * The fields that follow belong to it, until the next row or the list's end. All rows of a list
 * have the same fields in the same order.
 */
void out_row(struct out *out);

/**
 * out_record - begin a row of a list whose fields are sentences: an object, or a headline with a
 * line for each field
 * @headline: of the text
 *
 * The fields that follow belong to it, until the next record or the list's end.
 */
void out_record(struct out *out, enum out_tone tone, const char *headline);

/**
 * out_item - one sentence of a list
 */
void out_item(struct out *out, enum out_tone tone, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * out_text - a string
 * @value: NULL when there is none: null, or a dash
 */
void out_text(struct out *out, const char *key, const char *label, enum out_tone tone,
	      const char *value);
void out_textf(struct out *out, const char *key, const char *label, enum out_tone tone,
	       const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void out_uint(struct out *out, const char *key, const char *label, uint64_t value);
void out_bool(struct out *out, const char *key, const char *label, bool value); /* yes, no */

#endif
