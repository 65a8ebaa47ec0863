// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs status: is the plugin active in programs started from this environment? */
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "agentask.h"
#include "dirview.h"
#include "status.h"

static const char *mode_name(enum mv_mode mode)
{
	static const char *const names[] = {
		[MV_MODE_ON] = "on", [MV_MODE_OBSERVE] = "observe", [MV_MODE_OFF] = "off"};

	return names[mode];
}

/* Text shows settings that differ from the defaults, JSON all. */
static void show_settings(struct out *out, const struct status *status)
{
	char value[2048], standard[2048];
	const struct mv_config_key *keys;
	struct mv_config defaults;
	bool differs;
	size_t i, n;

	mv_config_defaults(&defaults);
	keys = mv_config_keys(&n);
	out_list(out, "settings", NULL);
	for (i = 0; i < n; i++) {
		mv_config_format(&status->config, i, value, sizeof(value));
		mv_config_format(&defaults, i, standard, sizeof(standard));
		differs = strcmp(value, standard) != 0;
		if (!differs && !out_is_json(out))
			continue;
		out_row(out);
		out_text(out, "section", NULL, OUT_PLAIN, keys[i].section);
		out_text(out, "key", NULL, OUT_PLAIN, keys[i].key);
		out_textf(out, NULL, "SETTING", OUT_PLAIN, "[%s] %s", keys[i].section, keys[i].key);
		out_text(out, "value", "VALUE", OUT_PLAIN, value);
		out_text(out, "default", "DEFAULT", OUT_PLAIN, standard);
	}
	out_list_end(out);
}

static void show_lines(struct out *out, const char *key, const char *title, enum out_tone tone,
		       const struct status_lines *lines)
{
	size_t i;

	out_list(out, key, title);
	for (i = 0; i < lines->n; i++)
		out_item(out, tone, "%s", lines->lines[i]);
	out_list_end(out);
}

static void show_config(struct out *out, const struct status *status)
{
	const char *drivers;

	out_section(out, "config", NULL);
	out_text(out, "mode", NULL, OUT_PLAIN, mode_name(status->config.mode));
	out_textf(out, NULL, "Mode", status->config.mode == MV_MODE_OFF ? OUT_BAD : OUT_PLAIN,
		  "%s%s", mode_name(status->config.mode),
		  status->mode_by_env ? " (by MESHVERBS)" : "");
	out_text(out, "file", NULL, OUT_PLAIN, status->config_file);
	out_bool(out, "file_exists", NULL, status->have_config);
	out_textf(out, NULL, "Config file", OUT_PLAIN, "%s%s", status->config_file,
		  status->have_config ? "" : " (none: defaults serve)");
	out_text(out, "log_target", NULL, OUT_PLAIN, status->config.log_target);
	out_textf(out, NULL, "Log", OUT_PLAIN, "%s%s", status->config.log_target,
		  status->log_by_env ? " (by MESHVERBS_LOG)" : "");
	out_text(out, "environment", NULL, OUT_PLAIN, getenv("MESHVERBS"));
	out_text(out, "driver_file", NULL, OUT_PLAIN, status->driver_file);
	out_text(out, "driver_file_error", NULL, OUT_PLAIN, status->driver_error);
	out_textf(out, NULL, "Driver file", status->driver_error ? OUT_BAD : OUT_PLAIN, "%s%s%s",
		  status->driver_file, status->driver_error ? ": " : "",
		  status->driver_error ? status->driver_error : "");
	/* Variables of libibverbs; with the first one, it ignores the second. */
	drivers = getenv("RDMAV_DRIVERS") ? getenv("RDMAV_DRIVERS") : getenv("IBV_DRIVERS");
	out_text(out, "driver_environment", drivers ? "IBV_DRIVERS" : NULL, OUT_PLAIN, drivers);
	show_settings(out, status);
	show_lines(out, "errors", NULL, OUT_BAD, &status->config_errors);
	out_section_end(out);
}

static enum out_tone state_tone(const char *state)
{
	return !strcmp(state, "ok") ? OUT_GOOD : !strcmp(state, "off") ? OUT_WARN : OUT_BAD;
}

static const char *end_name(enum probe_end end)
{
	static const char *const names[] = {
		[PROBE_DONE] = "done",       [PROBE_NOT_RUN] = "not-run", [PROBE_EXITED] = "exited",
		[PROBE_CRASHED] = "crashed", [PROBE_HUNG] = "hung",
	};

	return names[end];
}

static void show_way(struct out *out, const struct status_way *way)
{
	const struct probe_report *report = &way->report;
	size_t i;

	out_section(out, way->key, way->title);
	out_bool(out, "loaded", "Plugin loaded", report->n_stages);
	out_text(out, "end", report->end == PROBE_DONE ? NULL : "Ended", OUT_BAD,
		 end_name(report->end));
	out_list(out, "stages", NULL);
	for (i = 0; i < report->n_stages; i++) {
		out_row(out);
		out_text(out, "name", "STAGE", OUT_PLAIN, report->stages[i].name);
		out_text(out, "state", "STATE", state_tone(report->stages[i].state),
			 report->stages[i].state);
		out_text(out, "text", "DETAIL", OUT_PLAIN, report->stages[i].text);
	}
	out_list_end(out);
	out_list(out, "devices", NULL);
	for (i = 0; i < report->n_devices; i++) {
		out_row(out);
		out_text(out, "device", "OPENED", OUT_PLAIN, report->devices[i].name);
		out_text(out, "error", "ERROR", OUT_BAD, report->devices[i].error);
	}
	out_list_end(out);
	out_list(out, "messages", NULL);
	for (i = 0; i < report->n_messages; i++)
		out_item(out, OUT_WARN, "%s", report->messages[i]);
	out_list_end(out);
	out_section_end(out);
}

static void show_devices(struct out *out, const struct status *status)
{
	const struct status_device *device;
	size_t i;

	out_list(out, "devices", "RDMA devices");
	for (i = 0; i < status->n_devices; i++) {
		device = &status->devices[i];
		out_row(out);
		out_text(out, "device", "DEV", OUT_PLAIN, device->name);
		out_text(out, "provider", "PROVIDER", OUT_PLAIN,
			 *device->provider ? device->provider : NULL);
		out_bool(out, "should_serve", "TO SERVE", device->serve == SERVE_YES);
		out_bool(out, "active", "ACTIVE", device->active);
		out_text(out, "text", "DETAIL",
			 device->active               ? OUT_GOOD
			 : device->serve == SERVE_YES ? OUT_BAD
						      : OUT_PLAIN,
			 device->text);
	}
	out_list_end(out);
}

/* As the agent says, if it runs. Programs start in any case. */
static void show_drained(struct out *out, const struct cli *cli)
{
	const struct mv_dir_rail *rail;
	struct dirview view;
	uint32_t r;

	out_list(out, "drained", "Drained (meshverbs undrain brings them back)");
	if (!dirview_read(cli, &view)) {
		for (r = 0; r < view.dir.hosts[0].n_rails; r++) {
			rail = &view.dir.rails[view.dir.hosts[0].first_rail + r];
			if ((rail->flags & MV_RAIL_DRAINED) && view.alive)
				out_item(out, OUT_WARN, "%s", rail->device);
		}
		mv_directory_close(&view.dir);
	}
	out_list_end(out);
}

/* With survive = auto, as the agent says. */
static void show_qualified(struct out *out, const struct status *status)
{
	struct json_object *answer = NULL, *rows, *row;
	size_t i;

	out_list(out, "qualified", "Qualified (survive = auto)");
	if (status->config.survive == MV_SURVIVE_AUTO)
		agent_ask(status->cli, "qualified", "devices", json_type_array, &answer);
	rows = agent_member(answer, "devices", json_type_array);
	for (i = 0; rows && i < json_object_array_length(rows); i++) {
		const char *state, *why;

		row = json_object_array_get_idx(rows, i);
		state = agent_text(row, "state");
		why = agent_text(row, "trial") ? agent_text(row, "trial") : agent_text(row, "why");
		out_row(out);
		out_text(out, "device", "DEV", OUT_PLAIN, agent_text(row, "device"));
		out_text(out, "state", "STATE", state && !strcmp(state, "qualified") ? OUT_GOOD : OUT_WARN,
			 agent_flag(row, "running") ? "running" : state);
		out_text(out, "why", "WHY", OUT_PLAIN, why ? why : agent_text(answer, "waits"));
	}
	out_list_end(out);
	json_object_put(answer);
}

static int show(struct out *out, const struct status *status)
{
	bool active = status->n_serve && status->n_active == status->n_serve;
	size_t i;

	out_text(out, "version", "Version", OUT_PLAIN, MESHVERBS_VERSION);
	out_bool(out, "active", NULL, active);
	out_textf(out, NULL, "Active", active ? OUT_GOOD : OUT_BAD,
		  "%s, on %zu of %zu RDMA devices to serve", active ? "yes" : "no",
		  status->n_active, status->n_serve);
	show_config(out, status);
	out_section(out, "ways", NULL);
	for (i = 0; i < STATUS_N_WAYS; i++)
		if (status->ways[i].run)
			show_way(out, &status->ways[i]);
	out_section_end(out);
	show_devices(out, status);
	show_drained(out, status->cli);
	show_qualified(out, status);
	show_lines(out, "attention", "Needs attention", OUT_BAD, &status->attention);
	return cli_finish(out, active && !status->attention.n ? CLI_OK : CLI_ATTENTION);
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct status status;
	struct out *out;
	int rc = cli_no_arguments(cli, &cmd_status, argc, argv);

	if (rc >= 0)
		return rc;
	rc = CLI_ERROR;
	if (status_gather(cli, &status))
		goto out_fini;
	status_decide(&status);
	if (status.out_of_memory) {
		cli_error("out of memory");
		goto out_fini;
	}
	out = cli_out(cli);
	if (out)
		rc = show(out, &status);
out_fini:
	status_fini(&status);
	return rc;
}

const struct cli_command cmd_status = {
	.name = "status",
	.args = "[-j]",
	.summary = "is the plugin active in programs started from here?",
	.help = "Starts a small verbs program in this environment, which opens and closes every "
		"RDMA device, and\n"
		"shows how far the plugin came in it, the settings in force, and what needs "
		"attention. On hosts\n"
		"with mlx5 devices it does so twice: programs that link libmlx5 come to libibverbs "
		"another way.\n\n"
		"  -j, --json   print JSON\n\n"
		"Exit status: 0 active on every RDMA device that it should serve; 1 something "
		"needs attention;\n"
		"2 wrong usage, or the state could not be determined.",
	.run = run,
};
