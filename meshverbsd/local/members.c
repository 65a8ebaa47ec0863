/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "members.h"

#include <string.h>

#include "agent_log.h"

static struct md_members *members_of(struct md_job *job)
{
	return md_job_of(job, struct md_members, job);
}

static void run(struct md_job *job)
{
	struct md_members *m = members_of(job);

	for (size_t i = 0; i < m->n; i++) {
		struct md_member *member = &m->members[i];

		if (member->wanted) {
			int err6 = md_udp_join(m->udp, member->ifindex, true);
			int err4 = md_udp_join(m->udp, member->ifindex, false);

			member->err = err4 ? err6 : 0; /* one family is enough */
		} else {
			md_udp_leave(m->udp, member->ifindex, true);
			md_udp_leave(m->udp, member->ifindex, false);
		}
	}
}

static void want(struct md_members *m, const struct md_net *net)
{
	struct md_member *member = m->members;

	while (member < m->members + m->n && member->ifindex != net->ifindex)
		member++;
	if (member == m->members + m->n) {
		m->n++;
		*member = (struct md_member){.ifindex = net->ifindex};
	}
	memcpy(member->name, net->name, sizeof(member->name));
	member->wanted = true;
}

/* At most MD_NETS_MAX members are kept, all wanted, and at most as many are added. */
static void set(struct md_members *m, const struct md_view *view)
{
	for (size_t i = 0; i < m->n; i++)
		m->members[i].wanted = false;
	for (size_t i = 0; i < view->n_nets; i++)
		want(m, &view->nets[i]);
}

static void done(struct md_job *job)
{
	struct md_members *m = members_of(job);
	const struct md_view *view = m->view;
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		struct md_member *member = &m->members[i];

		if (!member->wanted)
			continue;
		if (member->err && !member->said)
			md_log(MD_WARNING, "no beacons can be heard on %s: %s", member->name, md_strerror(member->err));
		member->said = member->err;
		m->members[n++] = *member;
	}
	m->n = n;
	m->view = NULL;
	if (view)
		md_members_follow(m, view);
}

void md_members_start(struct md_members *m, const struct md_view *view)
{
	m->job = (struct md_job){.run = run, .done = done};
	set(m, view);
	run(&m->job);
	done(&m->job);
}

void md_members_follow(struct md_members *m, const struct md_view *view)
{
	if (m->job.out) {
		m->view = view;
		return;
	}
	set(m, view);
	md_jobs_give(m->jobs, &m->job);
}
