// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Display of the agent's directory, for several commands. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "agentask.h"
#include "ctl.h"
#include "dirview.h"
#include "entry.h"

#define MS 1000000ull

static uint64_t boottime_ns(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

int dirview_read(const struct cli *cli, struct dirview *view)
{
	int rc;

	memset(view, 0, sizeof(*view));
	rc = mv_directory_open(cli->run_dir, &view->dir);
	if (rc)
		return rc;
	view->now_ns = boottime_ns();
	view->alive = mv_directory_alive(&view->dir, view->now_ns);
	return 0;
}

int dirview_open(const struct cli *cli, struct dirview *view)
{
	int rc = dirview_read(cli, view);

	if (rc == -EBADMSG)
		cli_error("%s/%s is not a directory of peers, or of another version of meshverbs",
			  cli->run_dir, MV_DIRECTORY_FILE);
	else if (rc == -EPERM)
		cli_error(
			"%s/%s is not taken seriously: somebody other than its owner may write it",
			cli->run_dir, MV_DIRECTORY_FILE);
	else if (rc && rc != -ENOENT)
		cli_error("cannot read %s/%s: %s", cli->run_dir, MV_DIRECTORY_FILE, strerror(-rc));
	return rc;
}

void dirview_missing(const struct cli *cli)
{
	cli_error("there is no %s/%s: no agent runs on this host; start meshverbsd, or name its "
		  "directory with --run-dir",
		  cli->run_dir, MV_DIRECTORY_FILE);
}

static uint64_t ms_ago(const struct dirview *view, uint64_t when_ns)
{
	return view->now_ns > when_ns ? (view->now_ns - when_ns) / MS : 0;
}

void dirview_agent(struct out *out, const struct dirview *view)
{
	const struct mv_dir_header *header = view->dir.header;
	uint64_t beat_ms =
		ms_ago(view, atomic_load_explicit(&header->heartbeat_ns, memory_order_relaxed));

	out_section(out, "agent", NULL);
	out_uint(out, "pid", NULL, header->agent_pid);
	out_bool(out, "alive", NULL, view->alive);
	out_uint(out, "heartbeat_ms", NULL, beat_ms);
	out_uint(out, "generation", NULL, header->generation);
	if (view->alive)
		out_textf(out, NULL, "Agent", OUT_GOOD, "process %u", header->agent_pid);
	else
		out_textf(
			out, NULL, "Agent", OUT_BAD,
			"not heard of for %.1f s: what follows is old, and programs do not use it",
			(double)beat_ms / 1000);
	out_section_end(out);
}

uint64_t dirview_heard_ms(const struct dirview *view, uint32_t host)
{
	if (!view->dir.hosts[host].agent_version)
		return UINT64_MAX;
	return ms_ago(view, view->dir.hosts[host].heard_ns);
}

static void rate_text(uint32_t rate_mbps, char *buf, size_t size)
{
	if (rate_mbps)
		snprintf(buf, size, "%g Gb/s", rate_mbps / 1000.0);
	else
		snprintf(buf, size, "-");
}

/* Return: state of a path, e.g. "up"; NULL: not watched. */
static const char *probe_of(struct json_object *probes, const struct mv_path *path)
{
	char local[MV_GID_STRLEN], remote[MV_GID_STRLEN];
	const char *gid, *peer_gid;
	size_t i;

	mv_gid_format(&path->local_gid, local);
	mv_gid_format(&path->remote_gid, remote);
	for (i = 0; i < json_object_array_length(probes); i++) {
		struct json_object *probe = json_object_array_get_idx(probes, i);

		gid = agent_text(probe, "gid");
		peer_gid = agent_text(probe, "peer_gid");
		if (gid && peer_gid && !strcmp(gid, local) && !strcmp(peer_gid, remote))
			return agent_text(probe, "state");
	}
	return NULL;
}

static enum out_tone probe_tone(const char *probe)
{
	if (!strcmp(probe, mv_probed_name(MV_PROBED_UP)))
		return OUT_GOOD;
	return !strcmp(probe, mv_probed_name(MV_PROBED_DOWN)) ? OUT_BAD : OUT_PLAIN;
}

static void show_path(struct out *out, const struct dirview *view, const struct mv_path *path,
		      size_t rank)
{
	const struct mv_directory *dir = &view->dir;
	const struct mv_dir_rail *local = &dir->rails[path->local_rail];
	const struct mv_dir_rail *remote = &dir->rails[path->remote_rail];
	char gid[MV_GID_STRLEN], rate[32];

	rate_text(path->rate_mbps, rate, sizeof(rate));
	out_row(out);
	out_uint(out, "rank", "RANK", rank);
	out_text(out, "device", "DEV", OUT_PLAIN, local->device);
	out_uint(out, "port", "PORT", local->port);
	out_text(out, "gid", "GID", OUT_PLAIN, mv_gid_format(&path->local_gid, gid));
	out_text(out, "peer_device", "PEER DEV", OUT_PLAIN, remote->device);
	out_uint(out, "peer_port", "PORT", remote->port);
	out_text(out, "peer_gid", "PEER GID", OUT_PLAIN, mv_gid_format(&path->remote_gid, gid));
	out_text(out, "type", "TYPE", OUT_PLAIN, mv_gid_type_name(path->type));
	out_bool(out, "linked", NULL, path->linked);
	out_text(out, NULL, "KNOWN BY", OUT_PLAIN, path->linked ? "beacons" : path->routed ? "route" : "subnet");
	out_bool(out, "stays", NULL, path->stays & 1);
	out_bool(out, "peer_stays", NULL, path->stays & 2);
	out_uint(out, "rate_mbps", NULL, path->rate_mbps);
	out_uint(out, "mtu_bytes", NULL, path->mtu_bytes);
	out_text(out, NULL, "RATE", OUT_PLAIN, rate);
	if (view->probes) {
		const char *probe = probe_of(view->probes, path);

		out_text(out, "probe", "PROBE", probe ? probe_tone(probe) : OUT_PLAIN, probe ? probe : "none");
	}
}

void dirview_paths(struct out *out, const struct dirview *view, const struct mv_path *paths,
		   size_t n, const char *title)
{
	size_t i;

	out_list(out, "paths", title);
	for (i = 0; i < n; i++)
		show_path(out, view, &paths[i], i + 1);
	out_list_end(out);
}

enum out_tone dirview_verdict_tone(enum mv_path_verdict verdict)
{
	switch (verdict) {
	case MV_PATH_WORKS:
	case MV_PATH_SELF:
		return OUT_GOOD;
	case MV_PATH_UNKNOWN:
	case MV_PATH_ASK:
	case MV_PATH_OTHER_SUBNET:
		return OUT_PLAIN;
	default:
		return OUT_BAD;
	}
}
