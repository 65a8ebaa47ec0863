// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs doctor: runs all checks, and shows the findings. */
#include <assert.h>

#include "doctor.h"

static const struct doctor_check *const tables[] = {
	doctor_plugin_checks, doctor_device_checks, doctor_port_checks,  doctor_net_checks,
	doctor_agent_checks,  doctor_key_checks,    doctor_peer_checks,  doctor_infiniband_checks, doctor_limit_checks, doctor_qualify_checks,
};

#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

#define CHECKS_MAX 64

/* Result of a check. */
struct outcome {
	const struct doctor_check *check;
	const char *skipped;
	bool found;
};

struct totals {
	struct outcome outcomes[CHECKS_MAX];
	size_t n_checks, n_skipped, n_action, n_note;
};

static void run_check(struct doctor *d, const struct doctor_check *check, struct totals *totals)
{
	size_t n_before = d->n_findings;
	struct outcome *outcome;

	assert(totals->n_checks < CHECKS_MAX);
	outcome = &totals->outcomes[totals->n_checks++];
	d->check = check;
	d->skipped = NULL;
	check->run(d);
	outcome->check = check;
	outcome->found = d->n_findings > n_before;
	/* A check with findings counts as run, even if it could not see everything. */
	outcome->skipped = outcome->found ? NULL : d->skipped;
	totals->n_skipped += outcome->skipped != NULL;
}

static void run_checks(struct doctor *d, struct totals *totals)
{
	const struct doctor_check *check;
	size_t i;

	for (i = 0; i < N_TABLES; i++)
		for (check = tables[i]; check->name; check++)
			run_check(d, check, totals);
	for (i = 0; i < d->n_findings; i++)
		*(d->findings[i].level == DOCTOR_ACTION ? &totals->n_action : &totals->n_note) += 1;
}

/* Text shows skipped checks only, JSON all. */
static void show_checks(struct out *out, const struct totals *totals)
{
	size_t i;

	out_list(out, "checks", "Not looked at");
	for (i = 0; i < totals->n_checks; i++) {
		const struct outcome *outcome = &totals->outcomes[i];

		if (!out_is_json(out) && !outcome->skipped)
			continue;
		out_row(out);
		out_text(out, "name", "CHECK", OUT_PLAIN, outcome->check->name);
		out_text(out, "about", NULL, OUT_PLAIN, outcome->check->about);
		out_text(out, "state", NULL, OUT_PLAIN,
			 outcome->skipped ? "skipped"
			 : outcome->found ? "found"
					  : "ok");
		out_text(out, "skipped", "BECAUSE", OUT_PLAIN, outcome->skipped);
	}
	out_list_end(out);
}

static void show_finding(struct out *out, const struct doctor_finding *finding)
{
	enum out_tone tone = finding->level == DOCTOR_ACTION ? OUT_BAD : OUT_WARN;
	char headline[512];

	snprintf(headline, sizeof(headline), "%s: %s", finding->check->name, finding->thing);
	out_record(out, tone, headline);
	out_text(out, "check", NULL, OUT_PLAIN, finding->check->name);
	out_text(out, "level", NULL, OUT_PLAIN,
		 finding->level == DOCTOR_ACTION ? "action" : "note");
	out_text(out, "thing", NULL, OUT_PLAIN, finding->thing);
	out_text(out, "what", "What", OUT_PLAIN, finding->what);
	out_text(out, "why", "Why", OUT_PLAIN, finding->check->why);
	out_text(out, "fix", "Fix", OUT_PLAIN, finding->fix);
}

static void show_findings(struct out *out, const struct doctor *d, enum doctor_level level,
			  const char *title)
{
	size_t i;

	if (!out_is_json(out))
		out_list(out, NULL, title);
	for (i = 0; i < d->n_findings; i++)
		if (d->findings[i].level == level)
			show_finding(out, &d->findings[i]);
	if (!out_is_json(out))
		out_list_end(out);
}

static void show_totals(struct out *out, const struct totals *totals)
{
	out_section(out, "totals", "Result");
	out_uint(out, "checks", NULL, totals->n_checks);
	out_uint(out, "skipped", NULL, totals->n_skipped);
	out_textf(out, NULL, "Checks", OUT_PLAIN, "%zu, of which %zu could not look",
		  totals->n_checks, totals->n_skipped);
	out_uint(out, "action", NULL, totals->n_action);
	out_textf(out, NULL, "Needs action", totals->n_action ? OUT_BAD : OUT_GOOD, "%zu",
		  totals->n_action);
	out_uint(out, "note", "To be known", totals->n_note);
	out_section_end(out);
}

static int show(struct out *out, struct doctor *d)
{
	struct totals totals = {0};

	run_checks(d, &totals);
	out_text(out, "version", "Version", OUT_PLAIN, MESHVERBS_VERSION);
	out_bool(out, "container", "Container", d->container);
	if (out_is_json(out))
		out_list(out, "findings", NULL);
	show_findings(out, d, DOCTOR_ACTION, "Needs action");
	show_findings(out, d, DOCTOR_NOTE, "To be known");
	if (out_is_json(out))
		out_list_end(out);
	show_checks(out, &totals);
	show_totals(out, &totals);
	return cli_finish(out, totals.n_action ? CLI_ATTENTION : CLI_OK);
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct doctor d;
	struct out *out;
	int rc = cli_no_arguments(cli, &cmd_doctor, argc, argv);

	if (rc >= 0)
		return rc;
	doctor_gather(cli, &d);
	out = cli_out(cli);
	rc = out ? show(out, &d) : CLI_ERROR;
	if (d.out_of_memory || d.status.out_of_memory) {
		cli_error("out of memory");
		rc = CLI_ERROR;
	}
	doctor_fini(&d);
	return rc;
}

const struct cli_command cmd_doctor = {
	.name = "doctor",
	.args = "[-j]",
	.summary = "what is wrong on this host, why it matters, and the fix",
	.help = "Looks at everything that meshverbs and programs with RDMA need on this host: the "
		"plugin in programs,\n"
		"settings, kernel modules and device files, ports, GIDs and addresses, ARP, the "
		"agent, its key and its\n"
		"peers, limits of locked memory. Each finding says what is wrong, why it matters, "
		"and the fix. Changes\n"
		"nothing. meshverbs(1) has the list.\n\n"
		"  -j, --json   print JSON\n\n"
		"Exit status: 0 nothing needs action; 1 something does; 2 wrong usage.",
	.run = run,
};
