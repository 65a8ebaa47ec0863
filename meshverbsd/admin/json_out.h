/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_JSON_OUT_H
#define MD_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gid.h"
#include "hosts.h"

struct json_object;

/*
 * Helpers for json-c. Its constructors return NULL without memory, and its adders take NULL for null. So out of memory
 * an answer may be incomplete, but is valid.
 */
/** md_json_add - takes over @value */
void md_json_add(struct json_object *to, const char *key, struct json_object *value);
void md_json_add_text(struct json_object *to, const char *key, const char *text);
void md_json_add_number(struct json_object *to, const char *key, uint64_t number);
void md_json_add_bool(struct json_object *to, const char *key, bool value);
void md_json_add_id(struct json_object *to, const char *key, const struct mv_host_id *id);
void md_json_add_gid(struct json_object *to, const char *key, const union ibv_gid *gid);
void md_json_add_public(struct json_object *to, const char *key, const struct md_public *value);
/** md_json_append - append to an array; takes over @value */
void md_json_append(struct json_object *to, struct json_object *value);

/*
 * A possibly long list, written item by item: json-c needs fifteen times the memory of the text. Limited to
 * MD_ANSWER_BYTES_MAX.
 */
struct md_json_list {
	FILE *out;
	size_t n, bytes, left_out;
};

/** md_json_list_begin - @list: zeroed, except @out */
void md_json_list_begin(struct md_json_list *list, const char *key);
/** md_json_list_has_room - if false, the caller counts the item in @left_out */
bool md_json_list_has_room(const struct md_json_list *list);
/** md_json_list_put - takes over @item; NULL: no effect */
void md_json_list_put(struct md_json_list *list, struct json_object *item);
void md_json_list_end(struct md_json_list *list, const char *key);

#endif
