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
 * json-c's constructors give NULL without memory, and its adders take that for null: an answer may
 * then lack things, but nothing goes wrong.
 */
/** md_json_add - gives @value away */
void md_json_add(struct json_object *to, const char *key, struct json_object *value);
void md_json_add_text(struct json_object *to, const char *key, const char *text);
void md_json_add_number(struct json_object *to, const char *key, uint64_t number);
void md_json_add_bool(struct json_object *to, const char *key, bool value);
void md_json_add_id(struct json_object *to, const char *key, const struct mv_host_id *id);
void md_json_add_gid(struct json_object *to, const char *key, const union ibv_gid *gid);
void md_json_add_public(struct json_object *to, const char *key, const struct md_public *value);
/** md_json_append - to an array; gives @value away */
void md_json_append(struct json_object *to, struct json_object *value);

/*
 * A list that may be long is written item by item: never more than one in json-c's form, which
 * takes fifteen times as much memory as text, and no more than MD_ANSWER_BYTES_MAX altogether.
 */
struct md_json_list {
	FILE *out;
	size_t n, bytes, left_out;
};

/** md_json_list_begin - @list: all zeros but for @out */
void md_json_list_begin(struct md_json_list *list, const char *key);
/** md_json_list_has_room - if not, the caller counts in @left_out what it does not put there */
bool md_json_list_has_room(const struct md_json_list *list);
/** md_json_list_put - gives @item away; NULL: nothing */
void md_json_list_put(struct md_json_list *list, struct json_object *item);
void md_json_list_end(struct md_json_list *list, const char *key);

#endif
