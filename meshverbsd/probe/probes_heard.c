/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes and echoes that arrive. */
#include "probes_internal.h"

/*
 * With more paths, put_off() leaves the tick as it is: an idle tick is soon due anyway, and costs less than a search of
 * all paths.
 */
#define FEW_PATHS 64
/* After a false alarm, no warning of the path for this time. */
#define WARN_AGAIN_NS (10 * MD_S)

/*
 * May suspects be probed ahead of their schedule? Whoever answers some probes of thousands of paths would have all the
 * others probed each time. A turn probes each path once at most, suspects and witnesses. The suspects of a host with a
 * few paths never wait, even if all of these answer one after the other.
 */
static bool may_wake(const struct md_probes *probes, struct md_probe_host *host, uint64_t now_ns)
{
	size_t n = (1 + MD_WITNESSES_MAX) * probes->n_suspect, most = n < probes->n ? n : probes->n;

	host->wakes_room_ns = larger(host->wakes_room_ns, now_ns);
	if (host->wakes_room_ns - now_ns > MD_PROBES_PER_TURN * MD_S / MD_PROBES_BURST_PER_S)
		return false;
	host->wakes_room_ns += most * MD_S / MD_PROBES_BURST_PER_S;
	return true;
}

/* A path to the host answers again, so suspects of that host have a witness and need not wait. */
static void wake_suspects(struct md_probes *probes, const struct md_probe *of, uint64_t now_ns)
{
	struct md_probe_host *host = of->host;
	struct md_probe *p;

	if (!host || !may_wake(probes, host, now_ns))
		return;
	TAILQ_FOREACH(p, &host->paths, of_host) {
		probes->count.compared++;
		if (!p->suspect)
			continue;
		p->suspicion.since_ns = now_ns;
		if (p->next_ns > now_ns + md_probes_part(probes))
			p->next_ns = now_ns;
		md_probes_not_after(probes, p->next_ns);
	}
}

static void clear_suspicion(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	bool was_suspect = p->suspect;

	md_probe_set_suspect(probes, p, false);
	if (was_suspect)
		wake_suspects(probes, p, now_ns);
}

/* The path answers: tells the processes that were warned. */
static void end_warning(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	if (!p->suspicion.warned)
		return;
	p->suspicion.warned = false;
	p->suspicion.no_warning_ns = now_ns + WARN_AGAIN_NS;
	md_probe_tell(probes, p);
}

/*
 * @slow_us loses a sixteenth of its distance to @newest_us for each interval. There may be intervals without own echo:
 * md_probes_heard().
 */
static void time_it(const struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	uint64_t n = 1 + (now_ns - p->rtt.timed_ns) / md_probe_interval(probes, p);

	for (; n && p->rtt.slow_us > p->rtt.newest_us + 16; n--)
		p->rtt.slow_us -= (p->rtt.slow_us - p->rtt.newest_us) / 16;
	if (n || p->rtt.slow_us < p->rtt.newest_us)
		p->rtt.slow_us = p->rtt.newest_us;
	p->rtt.timed_ns = now_ns;
}

void md_probes_echo(struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_wire *echo,
		    const struct mv_host_id *sender, uint64_t now_ns)
{
	struct md_probe *p = md_probes_find(probes, path);
	bool off_pace;

	if (!p || echo->nonce != p->nonce || !echo->number || echo->number > p->number) {
		probes->count.stray++;
		return;
	}
	if (echo->number <= p->answered)
		return;
	probes->count.echoes++;
	off_pace = p->suspect || md_probe_pace(probes, p, now_ns) > probes->interval_ns;
	if (p->number - echo->number < MD_PROBE_TURNS && p->turns[echo->number % MD_PROBE_TURNS])
		p->turn_answered = p->turns[echo->number % MD_PROBE_TURNS];
	p->answered = echo->number;
	p->answered_ns = now_ns;
	p->met = true;
	p->n_answered++;
	if (sender) {
		md_probe_set_host(probes, p, sender);
		p->host_told = true;
	}
	p->peer_dropped = echo->dropped;
	if (echo->number == p->number) {
		p->rtt.newest_us = (uint32_t)((now_ns - p->sent_ns) / 1000);
		time_it(probes, p, now_ns);
		md_probe_await_no_more(probes, p);
	}
	clear_suspicion(probes, p, now_ns);
	end_warning(probes, p, now_ns);
	if (p->state == MV_PROBED_DOWN && p->n_answered >= probes->multiplier) {
		probes->count.recovered++;
		md_probe_set_state(probes, p, MV_PROBED_UP);
	} else if (p->state != MV_PROBED_DOWN) {
		md_probe_set_state(probes, p, MV_PROBED_UP);
	}
	md_probes_tell_soon(probes, now_ns);
	if (off_pace && p->n_scheduled)
		md_probe_schedule(probes, p, now_ns);
	md_probes_set_next(probes, p->next_ns < probes->regular_ns ? p->next_ns : probes->regular_ns);
}

/* Does the peer's probe say that our echo of its previous probe arrived, at most two intervals ago? */
static bool confirms(const struct md_probes *probes, const struct md_probe *p, const struct md_probe_wire *probe, uint64_t now_ns)
{
	return probe->nonce == p->heard.nonce && probe->behind && probe->number - probe->behind == p->heard.number &&
	       now_ns - p->heard.at_ns <= 2 * md_probe_interval(probes, p);
}

static void put_off(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	bool was_first = p->next_ns <= probes->regular_ns;

	p->next_ns = md_probe_behind_peer(probes, p);
	md_probes_not_after(probes, p->next_ns); /* may be earlier than before, if there are fewer paths now */
	probes->count.spared++;
	if (was_first && !probes->untold && probes->n <= FEW_PATHS)
		md_probes_find_next(probes, now_ns);
}

static void probe_now(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	/* At most as often as a suspect is probed, whatever the peer says. */
	if (p->next_ns <= now_ns || now_ns - p->sent_ns < md_probes_part(probes))
		return;
	p->next_ns = now_ns;
	md_probes_not_after(probes, now_ns);
}

void md_probes_heard(struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_wire *probe,
		     const struct mv_host_id *sender, uint64_t now_ns)
{
	struct md_probe *p = md_probes_find(probes, path);
	bool confirmed, settled, rests;

	if (!p || !md_probe_leads_to(p, sender))
		return;
	p->met = true;
	confirmed = confirms(probes, p, probe, now_ns);
	if (confirmed)
		p->answered_ns = larger(p->answered_ns, p->heard.at_ns);
	p->heard.nonce = probe->nonce;
	p->heard.number = probe->number;
	p->heard.at_ns = now_ns;
	/*
	 * Our own probe under way tells more, so we do not rest then. If both ends probe at the same time again and
	 * again, the end with the larger address rests.
	 */
	settled = p->n_scheduled && p->state == MV_PROBED_UP && p->answered == p->number;
	rests = settled || (p->awaited && p->state == MV_PROBED_UP && memcmp(&path->local, &path->remote, sizeof(path->local)) > 0);
	if (rests && confirmed && now_ns - p->sent_ns < MD_PROBE_OWN_NS)
		put_off(probes, p, now_ns);
	else if (settled && probe->behind > 1)
		probe_now(probes, p, now_ns);
}

void md_probes_challenged(struct md_probes *probes, const struct md_probe_key *path, uint64_t now_ns)
{
	struct md_probe *p = md_probes_find(probes, path);

	if (!p || p->answered == p->number)
		return;
	p->met = true;
	clear_suspicion(probes, p, now_ns);
	end_warning(probes, p, now_ns);
	p->number = p->answered; /* the probe under way was refused */
	if (p->n_scheduled) {
		p->next_ns = now_ns;
		md_probes_not_after(probes, now_ns);
	}
}
