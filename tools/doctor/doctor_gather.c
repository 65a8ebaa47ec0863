// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Data of the checks, gathered once, and their findings. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "agentask.h"
#include "doctor.h"
#include "sysfs.h"

char *words(const char *fmt, ...)
{
	va_list args;
	char *text;
	int len;

	va_start(args, fmt);
	len = vasprintf(&text, fmt, args);
	va_end(args);
	return len < 0 ? NULL : text;
}

void doctor_find(struct doctor *d, enum doctor_level level, char *thing, char *what, char *fix)
{
	struct doctor_finding *grown = NULL;

	if (thing && what && fix)
		grown = reallocarray(d->findings, d->n_findings + 1, sizeof(*grown));
	if (!grown) {
		d->out_of_memory = true;
		free(thing);
		free(what);
		free(fix);
		return;
	}
	d->findings = grown;
	grown[d->n_findings++] = (struct doctor_finding){d->check, level, thing, what, fix};
}

#define NAMED_MAX 5

void names_add(struct names *names, const char *name)
{
	if (names->n++ < NAMED_MAX && names->len < sizeof(names->text))
		names->len += (size_t)snprintf(names->text + names->len, sizeof(names->text) - names->len, "%s%s",
					       names->len ? ", " : "", name);
}

char *names_words(const struct names *names)
{
	if (names->n > NAMED_MAX)
		return words("%s and %zu more", names->text, names->n - NAMED_MAX);
	return words("%s", names->text);
}

void doctor_skip(struct doctor *d, const char *why)
{
	d->skipped = why;
}

bool doctor_serves(const struct doctor *d, const char *device)
{
	char provider[32];

	if (mv_config_list_match(&d->status.config.exclude, device))
		return false;
	return sysfs_provider(d->cli->sysfs, device, provider, sizeof(provider)) ||
	       mv_config_list_match(&d->status.config.base, provider);
}

/* Signs of a container: a file of the engine; a variable that Kubernetes, systemd-nspawn or LXC sets. */
static bool in_container(const struct doctor *d)
{
	bool here = !*d->cli->root; /* else the environment is not that host's */

	return files_exist(d, "/.dockerenv") || files_exist(d, "/run/.containerenv") ||
	       files_exist(d, "/run/systemd/container") ||
	       (here && (getenv("KUBERNETES_SERVICE_HOST") || getenv("container")));
}

void doctor_gather(const struct cli *cli, struct doctor *d)
{
	memset(d, 0, sizeof(*d));
	d->cli = cli;
	d->container = in_container(d);
	d->have_status = !status_gather(cli, &d->status);
	if (d->have_status)
		status_decide(&d->status);
	d->host_error = host_read(cli, &d->host, d->host_why, sizeof(d->host_why));
	d->view_error = dirview_read(cli, &d->view);
	d->agent_error = agent_ask(cli, "status", "agent", json_type_string, &d->agent);
	if (d->agent_error)
		return;
	agent_ask(cli, "metrics", "uptime_seconds", json_type_int, &d->counters);
	agent_ask(cli, "keys", "hosts", json_type_array, &d->keys);
	agent_ask(cli, "qualified", "devices", json_type_array, &d->qualified);
}

void doctor_fini(struct doctor *d)
{
	while (d->n_findings) {
		struct doctor_finding *finding = &d->findings[--d->n_findings];

		free(finding->thing);
		free(finding->what);
		free(finding->fix);
	}
	free(d->findings);
	json_object_put(d->agent);
	json_object_put(d->counters);
	json_object_put(d->keys);
	json_object_put(d->qualified);
	mv_directory_close(&d->view.dir);
	host_close(&d->host);
	status_fini(&d->status);
}
