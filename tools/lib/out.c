// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "out.h"
#include "table.h"
#include "text.h"

#define OUT_DEPTH_MAX   8
#define OUT_LABEL_WIDTH 14

struct out {
	FILE *file;
	bool json;
	bool colour;
	int error; /* first error, -errno */

	/* JSON: open containers, outermost first; each owns the next one. */
	struct json_object *stack[OUT_DEPTH_MAX];
	unsigned int depth;
	bool in_row; /* stack[depth - 1] is a row */
	bool in_record; /* fields are lines, below the headline of a record */

	/* text */
	struct table table;
	const char *list_title;
	unsigned int indent;
	bool printed; /* text was printed, so a headline needs an empty line before it */
	bool indents[OUT_DEPTH_MAX +
		     1]; /* which open sections, and lists in them, are indented */
	unsigned int n_sections;
};

static void out_fail(struct out *out, int error)
{
	if (!out->error)
		out->error = error;
}

struct out *out_new(FILE *file, bool json, bool colour)
{
	struct out *out = calloc(1, sizeof(*out));

	if (!out)
		return NULL;
	out->file = file;
	out->json = json;
	out->colour = colour;
	if (json) {
		out->stack[0] = json_object_new_object();
		out->depth = 1;
		if (!out->stack[0])
			out_fail(out, -ENOMEM);
	}
	return out;
}

int out_finish(struct out *out)
{
	const char *text;
	int rc;

	if (!out)
		return 0;
	if (out->json && !out->error) {
		text = json_object_to_json_string_ext(
			out->stack[0], JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
					       JSON_C_TO_STRING_NOSLASHESCAPE);
		if (text)
			fprintf(out->file, "%s\n", text);
		else
			out_fail(out, -ENOMEM);
	}
	errno = 0;
	if (fflush(out->file) || ferror(out->file))
		out_fail(out, errno ? -errno : -EIO);
	if (out->json)
		json_object_put(out->stack[0]);
	table_fini(&out->table);
	rc = out->error;
	free(out);
	return rc;
}

void out_cancel(struct out *out)
{
	out_fail(out, -ECANCELED);
	out_finish(out);
}

bool out_is_json(const struct out *out)
{
	return out->json;
}

/* Adds @value to the innermost container, and takes it over; NULL: null. */
static void json_add(struct out *out, const char *key, struct json_object *value)
{
	struct json_object *parent = out->stack[out->depth - 1];
	int rc;

	if (out->error) {
		json_object_put(value);
		return;
	}
	if (json_object_is_type(parent, json_type_array))
		rc = json_object_array_add(parent, value);
	else
		rc = json_object_object_add(parent, key, value);
	if (rc) {
		json_object_put(value);
		out_fail(out, -ENOMEM);
	}
}

static void json_push(struct out *out, const char *key, struct json_object *container)
{
	assert(out->depth < OUT_DEPTH_MAX);
	if (!container)
		out_fail(out, -ENOMEM);
	else
		json_add(out, key, container);
	out->stack[out->depth] = out->error ? NULL : container; /* unused after an error */
	out->depth++;
}

static void print_title(struct out *out, const char *title)
{
	if (out->printed)
		fputc('\n', out->file);
	fprintf(out->file, "%*s%s\n", (int)out->indent, "", title);
	out->printed = true;
}

void out_section(struct out *out, const char *key, const char *title)
{
	if (out->json) {
		json_push(out, key, json_object_new_object());
		return;
	}
	assert(out->n_sections < OUT_DEPTH_MAX);
	if (title) {
		print_title(out, title);
		out->indent += 2;
	}
	out->indents[out->n_sections++] = title;
}

void out_section_end(struct out *out)
{
	if (out->json) {
		out->depth--;
		return;
	}
	if (out->indents[--out->n_sections])
		out->indent -= 2;
	/* From now on this level is for a list after the section. */
	out->indents[out->n_sections] = false;
}

void out_list(struct out *out, const char *key, const char *title)
{
	if (out->json)
		json_push(out, key, json_object_new_array());
	out->list_title = title;
}

static void end_row(struct out *out)
{
	if (out->in_record)
		out->indent -= 2;
	out->in_record = false;
	if (!out->in_row)
		return;
	out->in_row = false;
	if (out->json)
		out->depth--;
}

/* Prints the headline with the first row or item, so that an empty list prints nothing. */
static void list_title(struct out *out)
{
	if (!out->list_title)
		return;
	print_title(out, out->list_title);
	out->list_title = NULL;
	out->indent += 2;
	out->indents[out->n_sections] = true; /* the list's own level, reset at its end */
}

void out_list_end(struct out *out)
{
	end_row(out);
	if (out->json) {
		out->depth--;
		return;
	}
	if (out->table.n_columns) {
		table_print(&out->table, out->file, out->indent, out->colour);
		out->printed = true;
	}
	table_fini(&out->table);
	if (out->indents[out->n_sections])
		out->indent -= 2;
	out->indents[out->n_sections] = false;
	out->list_title = NULL;
}

void out_row(struct out *out)
{
	end_row(out);
	out->in_row = true;
	if (out->json) {
		json_push(out, "", json_object_new_object());
		return;
	}
	list_title(out);
	if (table_row(&out->table)) {
		out_fail(out, -ENOMEM);
		out->in_row = false;
	}
}

void out_record(struct out *out, enum out_tone tone, const char *headline)
{
	char *text = strdup(headline);
	bool first = out->list_title;

	end_row(out);
	if (out->json) {
		free(text);
		out->in_row = true;
		json_push(out, "", json_object_new_object());
		return;
	}
	list_title(out);
	if (!text_clean(text)) {
		out_fail(out, -ENOMEM);
		return;
	}
	fprintf(out->file, "%s%*s%s%s%s\n", first || !out->printed ? "" : "\n", (int)out->indent,
		"", tone_on(tone, out->colour), text, tone_off(tone, out->colour));
	out->printed = true;
	out->in_record = true;
	out->indent += 2;
	free(text);
}

/* Prints a field as text; takes @value over. */
static void print_field(struct out *out, const char *label, enum out_tone tone, char *value)
{
	int rc;

	if (!label) {
		free(value);
		return;
	}
	if (out->in_row) {
		rc = table_cell(&out->table, label, tone, value);
		if (rc)
			out_fail(out, rc);
		return;
	}
	fprintf(out->file, "%*s%s:%*s %s%s%s\n", (int)out->indent, "", label,
		(int)(strlen(label) < OUT_LABEL_WIDTH ? OUT_LABEL_WIDTH - strlen(label) : 0), "",
		tone_on(tone, out->colour), value, tone_off(tone, out->colour));
	out->printed = true;
	free(value);
}

/* Takes @value over; NULL: no memory. */
static void add_text(struct out *out, const char *key, const char *label, enum out_tone tone,
		     char *value)
{
	struct json_object *string;

	if (!text_clean(value)) {
		out_fail(out, -ENOMEM);
		return;
	}
	if (!out->json) {
		print_field(out, label, tone, value);
		return;
	}
	if (key) {
		string = json_object_new_string(value);
		if (string)
			json_add(out, key, string);
		else
			out_fail(out, -ENOMEM);
	}
	free(value);
}

void out_text(struct out *out, const char *key, const char *label, enum out_tone tone,
	      const char *value)
{
	if (!value && out->json) {
		if (key)
			json_add(out, key, NULL);
		return;
	}
	add_text(out, key, label, tone, strdup(value ? value : "-"));
}

__attribute__((format(printf, 1, 0))) static char *format(const char *fmt, va_list args)
{
	char *text;

	return vasprintf(&text, fmt, args) < 0 ? NULL : text;
}

void out_textf(struct out *out, const char *key, const char *label, enum out_tone tone,
	       const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = format(fmt, args);
	va_end(args);
	add_text(out, key, label, tone, text);
}

void out_uint(struct out *out, const char *key, const char *label, uint64_t value)
{
	struct json_object *number;

	if (!out->json) {
		out_textf(out, key, label, OUT_PLAIN, "%" PRIu64, value);
		return;
	}
	number = key ? json_object_new_uint64(value) : NULL;
	if (number)
		json_add(out, key, number);
	else if (key)
		out_fail(out, -ENOMEM);
}

void out_bool(struct out *out, const char *key, const char *label, bool value)
{
	struct json_object *boolean;

	if (!out->json) {
		out_text(out, key, label, OUT_PLAIN, value ? "yes" : "no");
		return;
	}
	boolean = key ? json_object_new_boolean(value) : NULL;
	if (boolean)
		json_add(out, key, boolean);
	else if (key)
		out_fail(out, -ENOMEM);
}

void out_item(struct out *out, enum out_tone tone, const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = format(fmt, args);
	va_end(args);
	if (out->json) {
		add_text(out, "", NULL, tone, text);
		return;
	}
	if (!text_clean(text)) {
		out_fail(out, -ENOMEM);
		return;
	}
	list_title(out);
	fprintf(out->file, "%*s%s%s%s\n", (int)out->indent, "", tone_on(tone, out->colour), text,
		tone_off(tone, out->colour));
	out->printed = true;
	free(text);
}
