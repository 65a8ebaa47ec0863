/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "fd_all.h"
#include "qualified.h"

#define FILE_BYTES_MAX (1u << 20)
#define DEPTH_MAX      8

/* ---- reading ----------------------------------------------------------------------------------- */

static struct json_object *member(struct json_object *object, const char *key, enum json_type type)
{
	struct json_object *value;

	return json_object_object_get_ex(object, key, &value) && json_object_is_type(value, type) ? value : NULL;
}

/* Return: true: the member exists, and fits. */
static bool read_text(struct json_object *object, const char *key, char *ret, size_t size)
{
	struct json_object *value = member(object, key, json_type_string);
	size_t len = value ? (size_t)json_object_get_string_len(value) : 0;

	if (!value || len >= size || strlen(json_object_get_string(value)) != len)
		return false;
	memcpy(ret, json_object_get_string(value), len + 1);
	return true;
}

static bool read_number(struct json_object *object, const char *key, double *ret)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
	    !(json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double)))
		return false;
	*ret = json_object_get_double(value);
	return isfinite(*ret);
}

static bool read_trial_verdict(struct json_object *object, enum mv_trial_verdict *ret)
{
	struct json_object *value = member(object, "verdict", json_type_string);

	for (int v = MV_TRIAL_PASS; value && v <= MV_TRIAL_SKIPPED; v++)
		if (!strcmp(json_object_get_string(value), mv_trial_verdict_text((enum mv_trial_verdict)v))) {
			*ret = (enum mv_trial_verdict)v;
			return true;
		}
	return false;
}

static bool read_figures(struct json_object *object, struct mv_qualified_trial *ret)
{
	struct json_object *figures = member(object, "figures", json_type_object);

	if (!figures)
		return false;
	json_object_object_foreach(figures, name, value) {
		struct mv_qualified_figure *f = &ret->figures[ret->n_figures];

		(void)value;
		if (ret->n_figures == MV_QUALIFIED_FIGURES || strlen(name) >= sizeof(f->name) || !read_number(figures, name, &f->value))
			return false;
		strcpy(f->name, name);
		ret->n_figures++;
	}
	return true;
}

static bool read_trial(struct json_object *object, struct mv_qualified_trial *ret)
{
	return json_object_is_type(object, json_type_object) && read_text(object, "name", ret->name, sizeof(ret->name)) &&
	       read_trial_verdict(object, &ret->verdict) && read_text(object, "assumption", ret->assumption, sizeof(ret->assumption)) &&
	       read_text(object, "source", ret->source, sizeof(ret->source)) && read_text(object, "reason", ret->reason, sizeof(ret->reason)) &&
	       read_figures(object, ret);
}

static bool read_trials(struct json_object *object, struct mv_qualified *ret)
{
	struct json_object *trials = member(object, "trials", json_type_array);
	size_t n = trials ? json_object_array_length(trials) : 0;

	if (!trials || n > MV_QUALIFIED_TRIALS)
		return false;
	for (; ret->n_trials < n; ret->n_trials++)
		if (!read_trial(json_object_array_get_idx(trials, ret->n_trials), &ret->trials[ret->n_trials]))
			return false;
	return true;
}

static bool read_object(struct json_object *object, struct mv_qualified *ret)
{
	struct json_object *verdict = member(object, "verdict", json_type_string);
	struct mv_qualified_key *key = &ret->key;
	double time_s;

	if (!read_text(object, "device", ret->device, sizeof(ret->device)) || !read_text(object, "board_id", key->board_id, sizeof(key->board_id)) ||
	    !read_text(object, "firmware", key->firmware, sizeof(key->firmware)) || !read_text(object, "kernel", key->kernel, sizeof(key->kernel)) ||
	    !read_text(object, "libmlx5", key->libmlx5, sizeof(key->libmlx5)) || !read_number(object, "time", &time_s) || time_s < 0 ||
	    time_s > 1e15 || !read_number(object, "seconds", &ret->seconds) || !read_trials(object, ret))
		return false;
	ret->time_s = (uint64_t)time_s;
	ret->verdict = mv_qualified_decide(ret->trials, ret->n_trials);
	return verdict && !strcmp(json_object_get_string(verdict), mv_verdict_text(ret->verdict));
}

static int read_versioned(struct json_object *object, struct mv_qualified *ret)
{
	struct json_object *version = member(object, "version", json_type_int);
	struct mv_qualified *q;
	int err = 0;

	if (!version)
		return -EBADMSG;
	if (json_object_get_int(version) != MV_QUALIFIED_VERSION)
		return -EPROTONOSUPPORT;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	if (read_object(object, q))
		*ret = *q;
	else
		err = -EBADMSG;
	free(q);
	return err;
}

static bool is_blank(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] != ' ' && text[i] != '\n' && text[i] != '\r' && text[i] != '\t')
			return false;
	return true;
}

int mv_qualified_parse(const char *text, size_t size, struct mv_qualified *ret)
{
	struct json_tokener *tokener;
	struct json_object *object;
	int err = -EBADMSG;

	if (size > FILE_BYTES_MAX)
		return -EBADMSG;
	tokener = json_tokener_new_ex(DEPTH_MAX);
	if (!tokener)
		return -ENOMEM;
	object = json_tokener_parse_ex(tokener, text, (int)size);
	if (json_object_is_type(object, json_type_object) && is_blank(text + json_tokener_get_parse_end(tokener),
								      size - json_tokener_get_parse_end(tokener)))
		err = read_versioned(object, ret);
	json_object_put(object);
	json_tokener_free(tokener);
	return err;
}

int mv_qualified_read(const char *path, struct mv_qualified *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	struct stat sb;
	char *buf = NULL;
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &sb))
		err = -errno;
	else if (!S_ISREG(sb.st_mode) || sb.st_size < 0 || sb.st_size > FILE_BYTES_MAX)
		err = -EBADMSG;
	else if (!(buf = malloc((size_t)sb.st_size + 1)))
		err = -ENOMEM;
	if (!err) {
		n = mv_read_all(fd, buf, (size_t)sb.st_size);
		err = n < 0 ? (int)n : mv_qualified_parse(buf, (size_t)n, ret);
	}
	free(buf);
	close(fd);
	return err;
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* Takes over @value, also on failure. */
static bool add(struct json_object *object, const char *key, struct json_object *value)
{
	if (value && !json_object_object_add(object, key, value))
		return true;
	json_object_put(value);
	return false;
}

static bool add_text(struct json_object *object, const char *key, const char *text)
{
	return add(object, key, json_object_new_string(text));
}

/* Whole numbers without fraction, others with few digits. */
static struct json_object *number(double value)
{
	char text[32];

	if (value == floor(value) && fabs(value) < 1e15)
		return json_object_new_int64((int64_t)value);
	snprintf(text, sizeof(text), "%.6g", value);
	return json_object_new_double_s(value, text);
}

static bool fill_figures(struct json_object *object, const struct mv_qualified_trial *t)
{
	struct json_object *figures = json_object_new_object();

	if (!add(object, "figures", figures))
		return false;
	for (size_t i = 0; i < t->n_figures; i++)
		if (!add(figures, t->figures[i].name, number(t->figures[i].value)))
			return false;
	return true;
}

static bool fill_trial(struct json_object *object, const struct mv_qualified_trial *t)
{
	return add_text(object, "name", t->name) && add_text(object, "verdict", mv_trial_verdict_text(t->verdict)) &&
	       add_text(object, "assumption", t->assumption) && add_text(object, "source", t->source) && add_text(object, "reason", t->reason) &&
	       fill_figures(object, t);
}

static bool fill_trials(struct json_object *object, const struct mv_qualified *q)
{
	struct json_object *trials = json_object_new_array(), *trial;

	if (!add(object, "trials", trials))
		return false;
	for (size_t i = 0; i < q->n_trials; i++) {
		trial = json_object_new_object();
		if (!trial || json_object_array_add(trials, trial)) {
			json_object_put(trial);
			return false;
		}
		if (!fill_trial(trial, &q->trials[i]))
			return false;
	}
	return true;
}

static bool fill_object(struct json_object *object, const struct mv_qualified *q)
{
	return add(object, "version", json_object_new_int(MV_QUALIFIED_VERSION)) && add_text(object, "device", q->device) &&
	       add_text(object, "board_id", q->key.board_id) && add_text(object, "firmware", q->key.firmware) &&
	       add_text(object, "kernel", q->key.kernel) && add_text(object, "libmlx5", q->key.libmlx5) &&
	       add_text(object, "verdict", mv_verdict_text(q->verdict)) && add(object, "time", json_object_new_int64((int64_t)q->time_s)) &&
	       add(object, "seconds", number(q->seconds)) && fill_trials(object, q);
}

char *mv_qualified_text(const struct mv_qualified *q)
{
	struct json_object *object = json_object_new_object();
	const char *json;
	char *text = NULL;

	if (object && fill_object(object, q)) {
		json = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
		if (json && asprintf(&text, "%s\n", json) < 0)
			text = NULL;
	}
	json_object_put(object);
	return text;
}

int mv_qualified_write(const char *path, const struct mv_qualified *q)
{
	char temporary[PATH_MAX], *text;
	int fd, err = 0;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= sizeof(temporary))
		return -ENAMETOOLONG;
	text = mv_qualified_text(q);
	if (!text)
		return -ENOMEM;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		goto out;
	}
	err = mv_write_all(fd, text, strlen(text));
	if (!err && (fchmod(fd, 0644) || fsync(fd)))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(temporary, path))
		err = -errno;
	if (err)
		unlink(temporary);
out:
	free(text);
	return err;
}
