// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "json_out.h"

#include <json-c/json.h>

#include "bounds.h"

void md_json_add(struct json_object *to, const char *key, struct json_object *value)
{
	if (!to || json_object_object_add(to, key, value))
		json_object_put(value);
}

void md_json_add_text(struct json_object *to, const char *key, const char *text)
{
	md_json_add(to, key, json_object_new_string(text));
}

void md_json_add_number(struct json_object *to, const char *key, uint64_t number)
{
	md_json_add(to, key, json_object_new_int64(number < INT64_MAX ? (int64_t)number : INT64_MAX));
}

void md_json_add_bool(struct json_object *to, const char *key, bool value)
{
	md_json_add(to, key, json_object_new_boolean(value));
}

void md_json_append(struct json_object *to, struct json_object *value)
{
	if (!to || json_object_array_add(to, value))
		json_object_put(value);
}

bool md_json_list_has_room(const struct md_json_list *list)
{
	return list->bytes < MD_ANSWER_BYTES_MAX;
}

void md_json_list_put(struct md_json_list *list, struct json_object *item)
{
	const char *text;
	size_t len;

	text = item ? json_object_to_json_string_length(item, JSON_C_TO_STRING_PLAIN, &len) : NULL;
	if (text) {
		fprintf(list->out, "%s%s", list->n++ ? "," : "", text);
		list->bytes += len + 1;
	}
	json_object_put(item);
}

void md_json_list_begin(struct md_json_list *list, const char *key)
{
	list->n = list->left_out = 0;
	fprintf(list->out, "\"%s\":[", key);
}

void md_json_list_end(struct md_json_list *list, const char *key)
{
	fputc(']', list->out);
	if (list->left_out)
		fprintf(list->out, ",\"%s_left_out\":%zu", key, list->left_out);
}

void md_json_add_id(struct json_object *to, const char *key, const struct mv_host_id *id)
{
	char text[2 * sizeof(id->bytes) + 1];

	for (size_t i = 0; i < sizeof(id->bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
	md_json_add_text(to, key, text);
}

void md_json_add_gid(struct json_object *to, const char *key, const union ibv_gid *gid)
{
	char text[MV_GID_STRLEN];

	md_json_add_text(to, key, mv_gid_format(gid, text));
}

void md_json_add_public(struct json_object *to, const char *key, const struct md_public *value)
{
	char text[MD_PUBLIC_TEXT_SIZE];

	md_public_format(value, text);
	md_json_add_text(to, key, text);
}
