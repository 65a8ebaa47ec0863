// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Parses the output of meshverbs-probe and of the plugin. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe_run.h"

/* Makes room for one more element in an array of @n. Return: 0 or -ENOMEM. */
static int grow(void *array, size_t n, size_t size)
{
	void **p = array;
	void *grown;

	/* grows at powers of two */
	if (n & (n - 1) && n)
		return 0;
	grown = reallocarray(*p, n ? n * 2 : 1, size);
	if (!grown)
		return -ENOMEM;
	*p = grown;
	return 0;
}

/* Return: next word of *@line; "": end. */
static char *next_word(char **line)
{
	char *word = *line + strspn(*line, " ");

	*line = word + strcspn(word, " ");
	if (**line)
		*(*line)++ = '\0';
	return word;
}

static int parse_stage(struct probe_report *report, char *line)
{
	struct probe_stage stage;

	if (strcmp(next_word(&line), "stage") != 0)
		return 0;
	stage.name = next_word(&line);
	stage.state = next_word(&line);
	stage.text = line;
	if (!*stage.state)
		return 0;
	if (grow(&report->stages, report->n_stages, sizeof(stage)))
		return -ENOMEM;
	report->stages[report->n_stages++] = stage;
	return 0;
}

static int parse_device(struct probe_report *report, char *line)
{
	struct probe_device device = {.name = next_word(&line)};

	if (!*device.name)
		return 0;
	if (strcmp(next_word(&line), "opened") != 0)
		device.error = line;
	if (grow(&report->devices, report->n_devices, sizeof(device)))
		return -ENOMEM;
	report->devices[report->n_devices++] = device;
	return 0;
}

static int parse_output(struct probe_report *report, char *line)
{
	const char *word = next_word(&line);

	if (!strcmp(word, "device"))
		return parse_device(report, line);
	if (!strcmp(word, "library"))
		report->missing_library = line;
	else if (!strcmp(word, "list")) {
		report->error = line;
	} else if (!strcmp(word, "norun")) {
		report->end = PROBE_NOT_RUN;
		report->error = line;
	} else if (!strcmp(word, "end") && report->end == PROBE_EXITED && report->code == 0)
		report->end = PROBE_DONE;
	return 0;
}

static int parse_message(struct probe_report *report, char *line)
{
	if (grow(&report->messages, report->n_messages, sizeof(*report->messages)))
		return -ENOMEM;
	report->messages[report->n_messages++] = line;
	return 0;
}

static int each_line(struct probe_report *report, char *text,
		     int (*parse)(struct probe_report *report, char *line))
{
	char *line;
	int rc;

	while (text && (line = strsep(&text, "\n"))) {
		rc = *line ? parse(report, line) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

int probe_report_parse(struct probe_report *report)
{
	int rc = each_line(report, report->lines, parse_stage);

	if (!rc)
		rc = each_line(report, report->output, parse_output);
	if (!rc)
		rc = each_line(report, report->warnings, parse_message);
	return rc;
}

const struct probe_stage *probe_report_stage(const struct probe_report *report, const char *name,
					     const char *suffix)
{
	size_t i = report->n_stages, len = strlen(name);

	while (i--)
		if (!strncmp(report->stages[i].name, name, len) &&
		    !strcmp(report->stages[i].name + len, suffix))
			return &report->stages[i];
	return NULL;
}

void probe_report_fini(struct probe_report *report)
{
	free(report->stages);
	free(report->devices);
	free(report->messages);
	free(report->output);
	free(report->warnings);
	free(report->lines);
	memset(report, 0, sizeof(*report));
}
