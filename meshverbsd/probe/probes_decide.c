/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sends probes, and checks paths that do not answer. */
#include "probes_internal.h"

/*
 * No warning before DOWN can follow within this time: a warned process waits for a limited time
 * (providers/mesh/pathmon/path_monitor.h).
 */
#define WARN_AHEAD_NS (MD_S / 10)

/* Return: the first remembered turn >= @from in which the path was probed as suspect or witness; 0: none. */
static uint64_t first_turn(const struct md_probe *p, uint64_t from)
{
	uint64_t first = 0;

	for (size_t i = 0; i < MD_PROBE_TURNS; i++)
		if (p->turns[i] >= from && (!first || p->turns[i] < first))
			first = p->turns[i];
	return first;
}

static bool is_asked_in_this_turn(const struct md_probes *probes, const struct md_probe *p)
{
	return p->turns[p->number % MD_PROBE_TURNS] == probes->turn;
}

/*
 * Return: the path to the suspect's host with the newest echo, of those probed after the suspect: in the same turn, or
 * a later one. Many suspects are probed in different turns, but share witnesses.
 */
static struct md_probe *witness_of(struct md_probes *probes, const struct md_probe *suspect)
{
	/* 0: the suspect itself was not probed yet. Its own echoes are all older. */
	struct md_probe *p = suspect->suspicion.counted_from ? md_probe_newest_of_host(probes, suspect) : NULL;

	return p && p->turn_answered >= suspect->suspicion.counted_from ? p : NULL;
}

/*
 * Marks other paths SILENT that were probed before the witness and did not answer. Processes that have to choose
 * another path learn that first.
 */
static void check_others(struct md_probes *probes, const struct md_probe *suspect, const struct md_probe *witness)
{
	uint64_t from = suspect->suspicion.counted_from, first;
	struct md_probe *p;

	TAILQ_FOREACH(p, &suspect->host->paths, of_host) {
		if (p == suspect || p->state != MV_PROBED_UP || p->turn_answered >= from)
			continue;
		first = first_turn(p, from);
		if (first && first <= witness->turn_answered)
			md_probe_set_state(probes, p, MV_PROBED_SILENT);
	}
}

static unsigned int rounds_needed(const struct md_probes *probes)
{
	return MD_PROBE_PARTS * (probes->multiplier - 1);
}

/* Late enough that a warned process does not give up waiting for the verdict. */
static bool is_time_to_warn(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	uint64_t rest = (rounds_needed(probes) - p->suspicion.rounds) * md_probe_pace_on_grid(probes, p, now_ns);

	return p->suspicion.rounds >= MD_PROBE_WARN_ROUNDS && rest <= WARN_AHEAD_NS && !p->suspicion.warned &&
	       now_ns >= p->suspicion.no_warning_ns;
}

static void warn(struct md_probes *probes, struct md_probe *p, const struct md_probe *witness, uint64_t now_ns)
{
	struct md_probe_watch *watch;

	if (!is_time_to_warn(probes, p, now_ns))
		return;
	check_others(probes, p, witness);
	LIST_FOREACH(watch, &p->watches, of_path) {
		if (!(watch->watch & MV_WATCH_WORK) || probes->n_tells >= MD_TELLS_AT_ONCE)
			continue;
		probes->n_tells += MD_TELLS_OF_WARNING;
		if (probes->ops->warn(probes->arg, watch->client, &p->key))
			p->suspicion.warned = watch->warned = true;
	}
	probes->count.warnings += p->suspicion.warned;
}

static void is_down(struct md_probes *probes, struct md_probe *suspect, const struct md_probe *witness)
{
	check_others(probes, suspect, witness);
	md_probe_set_suspect(probes, suspect, false);
	suspect->suspicion.warned = false;
	probes->count.down++;
	md_probe_set_state(probes, suspect, MV_PROBED_DOWN);
}

static void count_round(struct md_probes *probes, struct md_probe *p, const struct md_probe *witness, uint64_t now_ns)
{
	if (witness->peer_dropped != p->peer_dropped && now_ns < p->suspicion.excused_until_ns) {
		p->peer_dropped = witness->peer_dropped;
		md_probe_set_rounds(probes, p, 0);
		probes->count.void_rounds++;
		return;
	}
	probes->count.rounds++;
	md_probe_set_rounds(probes, p, p->suspicion.rounds + 1);
	if (p->suspicion.rounds >= rounds_needed(probes))
		is_down(probes, p, witness);
	else
		warn(probes, p, witness, now_ns);
}

static bool is_excused(const struct md_probe *p, uint64_t now_ns)
{
	return !p->suspicion.excused_until_ns || now_ns < p->suspicion.excused_until_ns;
}

static void check_round(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	struct md_probe *witness = witness_of(probes, p);
	bool is_void;

	/* From the first witness on: while the peer's agent is away there is none, and when it is back it may be flooded. */
	if (witness && !p->suspicion.excused_until_ns)
		p->suspicion.excused_until_ns = now_ns + MD_PROBE_EXCUSED_NS;
	is_void = p->dropped != probes->dropped && is_excused(p, now_ns);
	if (witness && !is_void) {
		count_round(probes, p, witness, now_ns);
		/* However many echoes of the witness have arrived, they are one round. */
		p->suspicion.counted_from = first_turn(p, witness->turn_answered + 1);
		return;
	}
	probes->count.void_rounds++;
	if (is_void)
		p->suspicion.counted_from = 0;
	/* For processes that wait until the path works steadily. */
	if (now_ns - p->suspicion.since_ns >= probes->multiplier * probes->interval_ns)
		md_probe_set_state(probes, p, MV_PROBED_SILENT);
}

static void review(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	md_probe_await_no_more(probes, p);
	if (p->answered == p->number)
		return;
	p->n_answered = 0;
	if (p->suspect) {
		check_round(probes, p, now_ns);
	} else if ((p->state == MV_PROBED_UP || p->state == MV_PROBED_SILENT) && !md_probe_was_suspect_lately(probes, p, now_ns)) {
		md_probe_set_suspect(probes, p, true);
		p->suspicion.since_ns = now_ns;
		p->suspicion.excused_until_ns = 0;
		p->suspicion.counted_from = 0;
	}
}

/* The echo of the newest probe may be under way. Two probes without echo are silence. */
static bool answers(const struct md_probe *p)
{
	return p->number - p->answered < 2;
}

/* Is the suspect one of the MD_SCARCE_SUSPECTS with the most rounds? */
static bool is_among_first(struct md_probes *probes, const struct md_probe *suspect)
{
	const struct md_probe *p, *next;
	unsigned int n_before = 0;
	bool earlier = true;

	/* Thousands of paths may be probed in each second, and most of them are never among the first. */
	if (!suspect->suspicion.rounds)
		return false;
	HASH_ITER(hh, probes->by_key, p, next) {
		probes->count.compared++;
		if (p == suspect)
			earlier = false;
		else if (p->suspect && p->suspicion.rounds >= suspect->suspicion.rounds + !earlier && ++n_before == MD_SCARCE_SUSPECTS)
			return false;
	}
	return true;
}

/*
 * Paths that answer may always send. Other paths, also new ones, may while the buffer has room; then only the suspects
 * closest to a verdict, and each path once in MD_SCARCE_NS, because it may answer again.
 */
static bool has_room(struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	unsigned int waiting;

	if (p->met && answers(p))
		return true;
	waiting = probes->ops->waiting(probes->arg, &p->key);
	if (waiting < MD_SCARCE_PERCENT)
		return true;
	if (waiting >= MD_SCARCER_PERCENT)
		return false;
	return is_among_first(probes, p) || now_ns - p->sent_ns >= MD_SCARCE_NS;
}

enum md_probes_answer md_probes_answer(const struct md_probes *probes, const struct md_probe_key *path)
{
	const struct md_probe *p = md_probes_find(probes, path);
	unsigned int waiting;

	if (p && answers(p))
		return MD_PROBES_ANSWER;
	waiting = probes->ops->waiting(probes->arg, path);
	if (waiting < (p ? MD_SCARCE_PERCENT : MD_SCARCEST_PERCENT))
		return MD_PROBES_ANSWER;
	return p && p->state == MV_PROBED_DOWN ? MD_PROBES_LEAVE : MD_PROBES_REFUSE;
}

/* @in_turn: as suspect or witness, so that its echo counts as evidence */
static void send_probe(struct md_probes *probes, struct md_probe *p, bool in_turn, uint64_t now_ns)
{
	uint64_t behind = p->number + 1 - p->answered;
	const struct md_probe_wire wire = {
		.nonce = p->nonce, .number = p->number + 1, .behind = p->answered && behind <= UINT32_MAX ? (uint32_t)behind : 0};
	int err = has_room(probes, p, now_ns) ? probes->ops->send(probes->arg, &p->key, &wire) : -EAGAIN;

	if (md_probes_is_shortage(err)) {
		probes->count.held++;
		return;
	}
	p->number = wire.number;
	p->dropped = probes->dropped;
	p->sent_ns = now_ns;
	p->turns[p->number % MD_PROBE_TURNS] = in_turn ? probes->turn : 0;
	if (p->suspect && !p->suspicion.counted_from)
		p->suspicion.counted_from = probes->turn;
	if (err)
		probes->count.not_sent++;
	else
		probes->count.sent++;
}

/* Probes witnesses of one kind: those that answer, or those that do not. Return: number probed. */
static unsigned int send_witnesses_that(bool answer, struct md_probes *probes, const struct md_probe *suspect, unsigned int max,
					uint64_t now_ns)
{
	struct md_probe *p;
	unsigned int n = 0;

	while (n < max && (p = md_probe_next_of_host(probes, suspect, answer))) {
		if (p->suspect || is_asked_in_this_turn(probes, p) || answers(p) != answer)
			continue;
		send_probe(probes, p, true, now_ns);
		if (p->n_scheduled) {
			md_probe_await(probes, p, now_ns);
			/*
			 * This probe replaces the scheduled one. A path that does not answer keeps its schedule,
			 * because it has to be reviewed.
			 */
			if (answer)
				md_probe_schedule(probes, p, now_ns);
		}
		n++;
	}
	return n;
}

/* Probes witnesses right after the suspects of this turn. Return: number probed. */
static unsigned int send_witnesses(struct md_probes *probes, const struct md_probe *suspect, uint64_t now_ns)
{
	/* Paths that do not answer come last, so that they do not take the places of those that do. */
	unsigned int n = send_witnesses_that(true, probes, suspect, MD_WITNESSES_MAX, now_ns);

	return n + send_witnesses_that(false, probes, suspect, MD_WITNESSES_MAX - n, now_ns);
}

/*
 * A path that is new is probed at once. Whoever ends a watch and begins it anew, again and again, must not have it probed
 * each time.
 */
static bool has_to_wait(struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	if (p->sent_ns)
		return false;
	probes->begins_room_ns = larger(probes->begins_room_ns, now_ns);
	if (probes->begins_room_ns - now_ns > MD_PROBES_PER_TURN * MD_S / MD_PROBES_BURST_PER_S)
		return true;
	probes->begins_room_ns += MD_S / MD_PROBES_BURST_PER_S;
	return false;
}

/* Datagrams wait: is the tick put off? Whoever sends that many datagrams must not put off all ticks. */
static bool is_put_off(struct md_probes *probes, bool drained)
{
	if (!drained && probes->n_put_off < MD_PROBE_EXCUSED_NS / md_probes_part(probes)) {
		probes->n_put_off++;
		return true;
	}
	if (probes->n_put_off)
		probes->n_put_off--;
	return false;
}

void md_probes_tick(struct md_probes *probes, bool drained, uint32_t dropped, uint64_t now_ns)
{
	uint64_t slack = md_probes_part(probes) / 2;
	unsigned int n_sent = 0;
	bool late = false;
	struct md_probe *p, *next;

	if (is_put_off(probes, drained)) {
		probes->next_ns = now_ns + md_probes_part(probes);
		return;
	}
	probes->dropped = dropped;
	probes->n_tells = 0;
	probes->turn++;
	/* Suspects that are due a little later are probed in this turn too, so that they stay in step. */
	HASH_ITER(hh, probes->by_key, p, next) {
		uint64_t due_ns = md_probe_due(probes, p);

		if (!p->n_scheduled || due_ns > now_ns + (p->suspect ? slack : 0) || n_sent >= MD_PROBES_PER_TURN ||
		    has_to_wait(probes, p, now_ns))
			continue;
		/* A late tick weakens no proof: both echoes had the same additional time. */
		late |= now_ns > due_ns + probes->interval_ns;
		review(probes, p, now_ns);
		send_probe(probes, p, p->suspect, now_ns);
		if (!p->suspect)
			md_probe_await(probes, p, now_ns);
		n_sent++;
		md_probe_schedule(probes, p, now_ns);
	}
	HASH_ITER(hh, probes->by_key, p, next)
	if (probes->n_suspect && p->suspect && is_asked_in_this_turn(probes, p) && n_sent < MD_PROBES_PER_TURN)
		n_sent += send_witnesses(probes, p, now_ns);
	probes->count.late += late;
	md_probes_tell_the_rest(probes);
	md_probes_find_next(probes, now_ns);
}
