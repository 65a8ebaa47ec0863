// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: is the plugin active in programs, and are its settings as intended? */
#include <fnmatch.h>
#include <string.h>

#include "doctor.h"

static bool can_tell(struct doctor *d)
{
	if (!d->have_status)
		doctor_skip(d, "the small verbs program that shows it could not be run");
	else if (!d->status.n_devices)
		doctor_skip(d,
			    "there is no RDMA device, and without one libibverbs loads no driver");
	else if (d->status.config.mode == MV_MODE_OFF)
		doctor_skip(d, "it is switched off");
	else
		return true;
	return false;
}

/* The program ended early. Return: true: so it did, and was reported. */
static bool find_end(struct doctor *d, const struct status_way *way)
{
	static const char *const ends[] = {
		[PROBE_EXITED] = "ends too early",
		[PROBE_CRASHED] = "crashes",
		[PROBE_HUNG] = "hangs",
	};
	const struct probe_report *report = &way->report;

	if (report->end == PROBE_DONE)
		return false;
	doctor_find(
		d, DOCTOR_ACTION, words("%s", way->title),
		words("a program that lists and opens the RDMA devices %s%s%s", ends[report->end],
		      report->n_stages ? "; the plugin's last word was: "
				       : ", before the plugin said anything",
		      report->n_stages ? report->stages[report->n_stages - 1].text : ""),
		words("run ibv_devinfo with MESHVERBS=off: if that works, report this with the "
		      "output of meshverbs "
		      "status --json; if not, libibverbs, its provider or the driver is at fault"));
	return true;
}

static void check_libibverbs(struct doctor *d)
{
	const struct status_way *way = &d->status.ways[STATUS_PLAIN];
	const char *warning;

	if (!can_tell(d) || find_end(d, way) || way->report.n_stages)
		return;
	warning = status_load_warning(&way->report);
	if (d->status.driver_error)
		doctor_find(
			d, DOCTOR_ACTION, words("%s", d->status.driver_file),
			words("%s, so libibverbs does not load the plugin", d->status.driver_error),
			words("install meshverbs-provider%s, or write the line 'driver mesh' into "
			      "that file",
			      d->container ? " in this image" : ""));
	else if (warning)
		doctor_find(d, DOCTOR_ACTION, words("the plugin"),
			    words("libibverbs cannot load it: %s", warning),
			    words("install the meshverbs-provider package that was built for this "
				  "distribution"));
	else
		doctor_find(
			d, DOCTOR_ACTION, words("the plugin"),
			words("it is not loaded, although %s names it", d->status.driver_file),
			words("install meshverbs-provider again; a libibverbs that was built by "
			      "hand reads another "
			      "directory: start the program with IBV_DRIVERS=/path/to/libmesh"));
}

static void check_libmlx5(struct doctor *d)
{
	const struct status_way *way = &d->status.ways[STATUS_MLX5];

	if (!can_tell(d))
		return;
	if (!way->run) {
		doctor_skip(d, "there is no mlx5 device, or no libmlx5");
		return;
	}
	if (find_end(d, way) || way->report.n_stages)
		return;
	doctor_find(
		d, DOCTOR_ACTION, words("libmlx5.so.1"),
		words("it is loaded without the front, so the plugin is not active in programs "
		      "that link or open "
		      "libmlx5 (perftest, UCX, NCCL)"),
		words("run, as root: meshverbs-front update%s",
		      d->container
			      ? "; in an image, do so when it is built, after libmlx5 was installed"
			      : ""));
}

static bool is_common(const struct probe_stage *stage)
{
	return strncmp(stage->name, "base:", 5) != 0 && strncmp(stage->name, "context:", 8) != 0 &&
	       strcmp(stage->name, "config") != 0 && strcmp(stage->name, "environment") != 0;
}

/* A step of stacking that concerns libibverbs as a whole, and has failed. */
static const struct probe_stage *failed_step(const struct probe_report *report)
{
	size_t i;

	for (i = 0; i < report->n_stages; i++)
		if (is_common(&report->stages[i]) && strcmp(report->stages[i].state, "ok") != 0)
			return &report->stages[i];
	return NULL;
}

static const struct probe_stage *step_of_any_way(const struct doctor *d)
{
	const struct probe_stage *stage = NULL;
	size_t i;

	for (i = 0; i < STATUS_N_WAYS && !stage; i++)
		if (d->status.ways[i].run)
			stage = failed_step(&d->status.ways[i].report);
	return stage;
}

static void check_calibration(struct doctor *d)
{
	const struct probe_stage *stage;

	if (!can_tell(d))
		return;
	stage = step_of_any_way(d);
	if (stage)
		doctor_find(d, DOCTOR_ACTION, words("%s", stage->name),
			    words("%s: %s", stage->state, stage->text),
			    words("use the libibverbs of your distribution or vendor, of rdma-core "
				  "32 or newer, and the newest "
				  "meshverbs; if it is that already, report this line with the "
				  "version of rdma-core"));
}

static void check_devices(struct doctor *d)
{
	size_t i;

	if (!can_tell(d))
		return;
	for (i = 0; i < STATUS_N_WAYS; i++) {
		if (d->status.ways[i].run && !d->status.ways[i].report.n_stages) {
			doctor_skip(d, "the plugin is not loaded");
			return;
		}
	}
	if (step_of_any_way(d) || d->status.config.doubtful) {
		doctor_skip(d, "the plugin serves no device at all, for reasons told elsewhere");
		return;
	}
	for (i = 0; i < d->status.n_devices; i++) {
		const struct status_device *device = &d->status.devices[i];

		if (device->serve == SERVE_YES && !device->active)
			doctor_find(d, DOCTOR_ACTION, words("%s", device->name),
				    words("not served: %s", device->text),
				    words("mend that, or name it in exclude in %s if it is not to "
					  "be used",
					  d->status.config_file));
	}
	if (!d->status.n_serve)
		doctor_find(d, DOCTOR_ACTION, words("base, exclude"),
			    words("no RDMA device here is to be served, by base and exclude in %s",
				  d->status.config_file),
			    words("name the provider of your NICs in base, and take them out of "
				  "exclude"));
}

static void check_config(struct doctor *d)
{
	size_t i;

	for (i = 0; i < d->status.config_errors.n; i++)
		doctor_find(d, DOCTOR_ACTION, words("%s", d->status.config_file),
			    words("%s", d->status.config_errors.lines[i]),
			    words("correct the line as it says, or take it out: defaults serve; "
				  "mesh.conf(5) has all settings"));
}

static bool is_device(const struct doctor *d, const char *pattern)
{
	size_t i;

	for (i = 0; i < d->host.topo.n_devices; i++)
		if (!fnmatch(pattern, d->host.topo.devices[i].name, 0))
			return true;
	return false;
}

static void check_exclude(struct doctor *d)
{
	const struct mv_config_list *exclude = &d->status.config.exclude;
	size_t i;

	if (d->host_error) {
		doctor_skip(d, "there are no RDMA devices, or no netdevs could be read");
		return;
	}
	for (i = 0; i < exclude->n; i++)
		if (!is_device(d, exclude->names[i]))
			doctor_find(d, DOCTOR_NOTE, words("%s", exclude->names[i]),
				    words("exclude in %s names it, and no RDMA device of this host is called so", d->status.config_file),
				    words("if it is meant for this host, write the name that rdma link shows; devices get other names when "
					  "they are bonded, or by udev (rdma-persistent-naming)"));
}

static const struct probe_stage *failed_environment(const struct doctor *d)
{
	const struct probe_stage *stage;
	size_t i;

	for (i = 0; i < STATUS_N_WAYS; i++) {
		stage = probe_report_stage(&d->status.ways[i].report, "environment", "");
		if (stage && !strcmp(stage->state, "failed"))
			return stage;
	}
	return NULL;
}

static void check_mode(struct doctor *d)
{
	const char *where =
		d->status.mode_by_env ? "MESHVERBS in the environment" : d->status.config_file;
	const struct probe_stage *stage = failed_environment(d);

	if (stage)
		doctor_find(d, DOCTOR_ACTION, words("MESHVERBS in the environment"),
			    words("%s", stage->text),
			    words("unset it, or set it to on, observe or off"));
	if (d->status.config.mode == MV_MODE_OFF)
		doctor_find(d, DOCTOR_ACTION, words("%s", where),
			    words("it is switched off: mode is off"),
			    words("%s", d->status.mode_by_env
						? "unset MESHVERBS"
						: "set mode = on, or take the line out"));
	if (d->status.config.mode == MV_MODE_OBSERVE)
		doctor_find(d, DOCTOR_NOTE, words("%s", where),
			    words("it decides and logs, but changes nothing: mode is observe"),
			    words("read what it would do in the log (%s), then %s",
				  d->status.config.log_target,
				  d->status.mode_by_env ? "unset MESHVERBS" : "set mode = on"));
}

const struct doctor_check doctor_plugin_checks[] = {
	{"plugin-libibverbs", "the plugin in programs that use libibverbs alone",
	 "Without the plugin programs use the GID and the NIC that they were told, right or wrong.",
	 check_libibverbs},
	{"plugin-libmlx5", "the plugin in programs that link or open libmlx5",
	 "libmlx5 registers its own driver, after which libibverbs looks for no others, so these "
	 "programs run bare.",
	 check_libmlx5},
	{"calibration", "how the plugin fits the libibverbs that is installed",
	 "The plugin measures libibverbs before it touches anything, and steps aside if it finds "
	 "what it does not know.",
	 check_calibration},
	{"devices", "RDMA devices that are to be served",
	 "Programs on a device that is not served run as without meshverbs.", check_devices},
	{"config", "mesh.conf",
	 "A line that cannot be used is as if it were not there. If it may have said what to leave "
	 "alone, it switches meshverbs off, so that no slip of the pen turns an exclude or mode = "
	 "off into its opposite.",
	 check_config},
	{"exclude", "devices that are to be left alone",
	 "A device that exclude misses is served like any other.", check_exclude},
	{"mode", "mode, in mesh.conf and in the environment",
	 "Programs that are started like this run as without meshverbs.", check_mode},
	{0},
};
