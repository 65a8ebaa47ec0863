// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs explain: a destination given as a LID. */
#include <errno.h>

#include "dirview.h"
#include "explain.h"
#include "lidfind.h"

static int look_up(const struct cli *cli, const struct explain *explain, struct mv_lid_ends *ret)
{
	struct dirview view;
	int err = dirview_open(cli, &view);

	if (err)
		return err == -ENOENT ? -ESRCH : err;
	err = view.alive ? mv_lid_find(&view.dir, explain->device->name, explain->port->num, explain->dlid, ret) : -ESRCH;
	mv_directory_close(&view.dir);
	return err;
}

/* The plugin connects an unknown LID as the program asks. */
static void show_unknown(struct out *out, int err)
{
	const char *why = err == -ESRCH ? "no agent runs on this host" : mv_lid_error_text(err);

	out_section(out, "lid", "LID");
	out_bool(out, "known", NULL, false);
	out_textf(out, "text", "Outcome", OUT_BAD, "as the program asks: %s", why);
	out_section_end(out);
}

static bool is_answer(int err)
{
	return err == -ESRCH || err == -ENODEV || err == -EINVAL || err == -EALREADY || err == -ENOENT || err == -EACCES ||
	       err == -ENOTUNIQ;
}

static void choose_index(struct explain *explain, const union ibv_gid *gid)
{
	for (size_t i = 0; i < explain->port->n_gids; i++)
		if (mv_gid_equal(&explain->port->gids[i].gid, gid)) {
			explain->index = explain->port->gids[i].index;
			explain->has_index = true;
			return;
		}
}

int explain_lid(struct out *out, const struct cli *cli, struct explain *explain)
{
	struct mv_lid_ends ends;
	char gid[MV_GID_STRLEN];
	int err = look_up(cli, explain, &ends);

	if (err && !is_answer(err))
		return err;
	if (err) {
		show_unknown(out, err);
		return 1;
	}
	out_section(out, "lid", "LID");
	out_bool(out, "known", NULL, true);
	out_textf(out, "text", "Port", OUT_PLAIN, "%u is that of the port with the GID %s", explain->dlid, mv_gid_format(&ends.remote, gid));
	out_section_end(out);
	explain->dgid = ends.remote;
	choose_index(explain, &ends.local);
	return 0;
}
