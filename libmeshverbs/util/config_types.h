/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_CONFIG_TYPES_H
#define MV_CONFIG_TYPES_H

#include "config.h"

/*
 * A parser reads @value (NUL-terminated, without blanks at its ends) into @field. On failure it leaves @field
 * unchanged, and returns a text about valid values; NULL: success. A formatter does the reverse.
 */
struct mv_config_type {
	const char *(*parse)(void *field, const char *value);
	void (*format)(const void *field, char *buf, size_t size);
};

extern const struct mv_config_type mv_config_mode; /* enum mv_mode */
extern const struct mv_config_type mv_config_survive; /* enum mv_survive */
extern const struct mv_config_type mv_config_qualify; /* enum mv_qualify */
extern const struct mv_config_type mv_config_level; /* enum mv_log_level */
extern const struct mv_config_type mv_config_names; /* struct mv_config_list */
extern const struct mv_config_type mv_config_target; /* char[MV_CONFIG_PATH_MAX] */
extern const struct mv_config_type mv_config_path; /* likewise, always a path */
extern const struct mv_config_type mv_config_port; /* uint32_t */
extern const struct mv_config_type mv_config_interval; /* uint32_t, ms */
extern const struct mv_config_type mv_config_probe_interval; /* likewise, or 0 */
extern const struct mv_config_type mv_config_multiplier; /* uint32_t */
extern const struct mv_config_type mv_config_switch; /* bool */

/* config.c: a part of the file was not understood, and may have named a key. */
void mv_config_may_name_key(struct mv_config *config);

#endif
