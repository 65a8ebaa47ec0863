// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs qualify: the folder of verdicts, export and import. */
#include "qualify_files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "text.h"
#include "verdicts.h"

#define VERDICTS_MAX 4096

/* Return: a descriptor; -errno, after an error message. */
static int open_folder(const struct cli *cli)
{
	char path[PATH_MAX], why[MV_VERDICTS_WHY] = "";
	int fd;

	snprintf(path, sizeof(path), "%s" MV_VERDICTS_PATH, cli->root);
	fd = mv_verdicts_open(path, 0, why);
	if (fd == -ENOENT)
		cli_error("%s is not there: the agent makes it with survive = auto", path);
	else if (fd < 0)
		cli_error("%s: %s", path, why);
	return fd;
}

/* Has a trial of the kept verdict failed with memory of a GPU? */
static bool failed_on_gpu(int fd, const struct mv_qualified_key *key)
{
	struct mv_qualified *kept = calloc(1, sizeof(*kept));
	char why[MV_VERDICTS_WHY];
	bool failed = false;

	if (kept && !mv_verdicts_load(fd, key, kept, why))
		for (size_t i = 0; i < kept->n_trials; i++)
			failed |= kept->trials[i].verdict == MV_TRIAL_FAIL && mv_qualified_figure(&kept->trials[i], "gpu_rounds", 0) > 0;
	free(kept);
	return failed;
}

int qualify_keep(const struct cli *cli, const struct mv_qualified *q, bool gpu)
{
	char path[PATH_MAX];
	int fd, err;

	snprintf(path, sizeof(path), "%s" MV_VERDICTS_PATH, cli->root);
	/* Without an agent, nobody reads the verdict. */
	if (geteuid() || access(path, F_OK)) {
		if (cli->json)
			return CLI_OK;
		cli_error("the verdict on %s is shown, and not kept: %s", q->device,
			  geteuid() ? "only root's verdicts decide where connections move" : "no agent has made " MV_VERDICTS_PATH " (survive = auto)");
		return CLI_OK;
	}
	fd = open_folder(cli);
	if (fd < 0)
		return CLI_ERROR;
	if (!gpu && failed_on_gpu(fd, &q->key)) {
		close(fd);
		if (!cli->json)
			cli_error("the verdict on %s is shown, and not kept: the device has failed with memory of a GPU; try again with --gpu", q->device);
		return CLI_ATTENTION;
	}
	err = mv_verdicts_store(fd, q);
	close(fd);
	if (err)
		cli_error("the verdict on %s cannot be kept: %s", q->device, strerror(-err));
	return err ? CLI_ERROR : CLI_OK;
}

/* ---- export ---------------------------------------------------------------------------------- */

static bool is_verdict(const char *name)
{
	size_t len = strlen(name);

	return name[0] != '.' && len > 5 && !strcmp(name + len - 5, ".json");
}

/* Return: true: added. */
static bool add_verdict(struct json_object *list, int fd, const char *name, struct mv_qualified *q)
{
	char why[MV_VERDICTS_WHY] = "it is no verdict";
	struct json_object *object = NULL;
	char *text;

	if (mv_verdicts_read(fd, name, q, why)) {
		cli_error("left out: %s", text_clean(why));
		return false;
	}
	text = mv_qualified_text(q);
	if (text)
		object = json_tokener_parse(text);
	free(text);
	if (object && !json_object_array_add(list, object))
		return true;
	json_object_put(object);
	cli_error("left out: %s: no memory", name);
	return false;
}

/* Return: number left out; -errno. */
static int add_all(struct json_object *list, int fd)
{
	struct mv_qualified *q = calloc(1, sizeof(*q));
	DIR *dir = q ? fdopendir(dup(fd)) : NULL;
	struct dirent *entry;
	int left_out = 0;

	if (!dir) {
		free(q);
		return -ENOMEM;
	}
	while ((entry = readdir(dir)))
		if (is_verdict(entry->d_name))
			left_out += !add_verdict(list, fd, entry->d_name, q);
	closedir(dir);
	free(q);
	return left_out;
}

static int write_list(struct json_object *list, const char *file)
{
	const char *text = json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	FILE *out = strcmp(file, "-") ? fopen(file, "we") : stdout;
	bool failed;

	if (!text || !out) {
		cli_error("%s: %s", file, strerror(text ? errno : ENOMEM));
		return CLI_ERROR;
	}
	failed = fprintf(out, "%s\n", text) < 0;
	failed |= (out == stdout ? fflush(out) : fclose(out)) != 0;
	if (failed)
		cli_error("%s: %s", file, strerror(errno));
	return failed ? CLI_ERROR : CLI_OK;
}

int qualify_export(const struct cli *cli, const char *file)
{
	struct json_object *list;
	int fd = open_folder(cli), left_out, rc;

	if (fd < 0)
		return CLI_ERROR;
	list = json_object_new_array();
	left_out = list ? add_all(list, fd) : -ENOMEM;
	close(fd);
	if (left_out < 0)
		cli_error("no memory");
	rc = left_out < 0 ? CLI_ERROR : write_list(list, file);
	json_object_put(list);
	return rc == CLI_OK && left_out ? CLI_ATTENTION : rc;
}

/* ---- import ---------------------------------------------------------------------------------- */

/* Return: 0; -errno: nothing was written. */
static int parse_one(struct json_object *object, struct mv_qualified *ret)
{
	const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);

	return text ? mv_qualified_parse(text, strlen(text), ret) : -ENOMEM;
}

static int store_one(int fd, struct json_object *object, size_t i, struct mv_qualified *q)
{
	int err = parse_one(object, q);

	if (err) {
		cli_error("verdict %zu of the list: %s", i + 1, err == -EBADMSG ? "it is none that can be read" : strerror(-err));
		return CLI_ERROR;
	}
	err = mv_verdicts_store(fd, q);
	if (err) {
		cli_error("verdict %zu of the list: %s", i + 1, strerror(-err));
		return CLI_ERROR;
	}
	/* Texts of other hosts have to be made fit for a terminal. */
	printf("%s: board %s, firmware %s, kernel %s, library %s\n", mv_verdict_text(q->verdict), text_clean(q->key.board_id),
	       text_clean(q->key.firmware), text_clean(q->key.kernel), text_clean(q->key.libmlx5));
	return CLI_OK;
}

static int store_all(int fd, struct json_object *root)
{
	bool is_list = json_object_is_type(root, json_type_array);
	size_t n = is_list ? json_object_array_length(root) : 1;
	struct mv_qualified *q = calloc(1, sizeof(*q));
	int rc = CLI_OK;

	if (!q || n > VERDICTS_MAX) {
		cli_error("%s", q ? "too many verdicts" : "no memory");
		free(q);
		return CLI_ERROR;
	}
	for (size_t i = 0; i < n; i++)
		if (store_one(fd, is_list ? json_object_array_get_idx(root, i) : root, i, q) != CLI_OK)
			rc = CLI_ERROR;
	free(q);
	return fflush(stdout) ? CLI_ERROR : rc;
}

int qualify_import(const struct cli *cli, const char *file)
{
	struct json_object *root = strcmp(file, "-") ? json_object_from_file(file) : json_object_from_fd(STDIN_FILENO);
	int fd, rc;

	if (!root) {
		cli_error("%s: it cannot be read, or is no JSON", file);
		return CLI_ERROR;
	}
	fd = open_folder(cli);
	rc = fd < 0 ? CLI_ERROR : store_all(fd, root);
	if (fd >= 0)
		close(fd);
	json_object_put(root);
	return rc;
}
