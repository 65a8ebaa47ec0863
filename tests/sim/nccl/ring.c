// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ring.h"

#include "job.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NUMBERS (STEP_BYTES / sizeof(uint32_t))

/* NCCL calls them; there is nobody to tell. */
static void log_nothing(int level, unsigned long flags, const char *file, int line,
			const char *format, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)format;
}

static int profile_nothing(void **event, int type, void *parent, int64_t id, void *data)
{
	(void)event, (void)type, (void)parent, (void)id, (void)data;
	return 0;
}

static void check(int result, const char *what)
{
	if (result)
		die(0, "%s: NCCL's error %d", what, result);
}

static uint8_t *buffer(void)
{
	void *memory = aligned_alloc(4096, N_STEPS * STEP_BYTES);

	if (!memory)
		die(0, "no memory");
	return memset(memory, 0, N_STEPS * STEP_BYTES);
}

/* Both ways of all channels at once: neither may make another rank wait. */
static bool connect_some(struct ring *ring)
{
	bool all = true;

	for (int c = 0; c < ring->n_channels; c++) {
		struct channel *ch = &ring->channels[c];
		void *offload = NULL;

		if (!ch->sender)
			check(ring->net->connect(ring->ctx, ch->dev, ch->handle, &ch->sender,
						 &offload),
			      "connect");
		if (!ch->receiver)
			check(ring->net->accept(ch->listener, &ch->receiver, &offload), "accept");
		all = all && ch->sender && ch->receiver;
	}
	return all;
}

static void register_buffers(struct ring *ring, struct channel *ch)
{
	const struct netib *net = ring->net;
	size_t size = N_STEPS * STEP_BYTES;

	ch->out = buffer();
	ch->in = buffer();
	check(net->register_memory(ch->sender, ch->out, size, NETIB_PTR_HOST, &ch->out_memory),
	      "regMr");
	check(net->register_memory(ch->receiver, ch->in, size, NETIB_PTR_HOST, &ch->in_memory),
	      "regMr");
}

/* All NICs as one device, as NCCL_NET_MERGE_LEVEL has it: each connection has queue pairs on all of them. */
static void merge(struct ring *ring)
{
	struct netib_merged merged = {.n_devs = ring->n_devs};

	for (int i = 0; i < ring->n_devs && i < 4; i++)
		merged.devs[i] = i;
	check(ring->net->make_device(&ring->first_dev, &merged), "makeVDevice");
	ring->n_devs = 1;
}

void ring_init(struct ring *ring, const struct netib *net, struct boot *boot, int channels_per_dev)
{
	struct netib_config config = {.traffic_class = -1};
	char mine[MAX_CHANNELS][NETIB_HANDLE_BYTES] = {{0}};
	char all[MAX_RANKS][MAX_CHANNELS][NETIB_HANDLE_BYTES];
	int next = (boot->rank + 1) % boot->n_ranks;

	*ring = (struct ring){.net = net, .boot = boot};
	check(net->init(&ring->ctx, 0, &config, (void *)log_nothing, (void *)profile_nothing),
	      "init");
	check(net->devices(&ring->n_devs), "devices");
	if (getenv("MERGE"))
		merge(ring);
	ring->n_channels = ring->n_devs * channels_per_dev;
	if (ring->n_channels < 1 || ring->n_channels > MAX_CHANNELS)
		die(0, "%d devices with %d channels each", ring->n_devs, channels_per_dev);
	for (int c = 0; c < ring->n_channels; c++) {
		ring->channels[c].dev = ring->first_dev + c % ring->n_devs;
		check(net->listen(ring->ctx, ring->channels[c].dev, mine[c],
				  &ring->channels[c].listener),
		      "listen");
	}
	boot_allgather(boot, mine, sizeof(mine), all);
	for (int c = 0; c < ring->n_channels; c++)
		memcpy(ring->channels[c].handle, all[next][c], NETIB_HANDLE_BYTES);
	while (!connect_some(ring)) {
		boot_watch(boot);
		sched_yield();
	}
	for (int c = 0; c < ring->n_channels; c++)
		register_buffers(ring, &ring->channels[c]);
}

/*
 * Of a share's blocks, one after the other, each takes 2 * (n - 1) steps: in step j the part (rank
 * - j) goes out, and (rank - j - 1) comes in, to be added in the first half, and to be kept in the
 * second.
 */
struct step {
	uint32_t *at;
	size_t count;
	bool add;
};

static struct step step_of(const struct ring *ring, const struct channel *ch, size_t number,
			   bool out)
{
	size_t n = (size_t)ring->boot->n_ranks, rank = (size_t)ring->boot->rank;
	size_t per_block = 2 * (n - 1), j = number % per_block,
	       start = number / per_block * ch->block;
	size_t block = ch->count - start < ch->block ? ch->count - start : ch->block;
	size_t part = (rank + 2 * n - j - (out ? 0 : 1)) % n;
	size_t from = block * part / n, to = block * (part + 1) / n;

	return (struct step){
		.at = ch->numbers + start + from, .count = to - from, .add = j < n - 1};
}

static bool is_first_of_block(const struct ring *ring, size_t number)
{
	return number % (2 * (size_t)(ring->boot->n_ranks - 1)) == 0;
}

static void progressed(struct ring *ring)
{
	double now = now_ms();

	if (ring->last_ms > 0 && now - ring->last_ms > ring->pause_ms)
		ring->pause_ms = now - ring->last_ms;
	ring->last_ms = now;
}

static void post_receives(struct ring *ring, struct channel *ch)
{
	int before = (ring->boot->rank + ring->boot->n_ranks - 1) % ring->boot->n_ranks;

	while (ch->posted_in < ch->n_steps && ch->posted_in < ch->received + N_STEPS) {
		size_t slot = (ch->turn + ch->posted_in) % N_STEPS, size = STEP_BYTES;
		void *data = ch->in + slot * STEP_BYTES, *profiled = NULL, *request = NULL;

		check(ring->net->receive(ch->receiver, 1, &data, &size, &before, &ch->in_memory,
					 &profiled, &request),
		      "irecv");
		if (!request)
			return;
		ch->in_requests[slot] = request;
		ch->posted_in++;
	}
}

static void use(struct ring *ring, struct channel *ch, const uint32_t *got)
{
	struct step step = step_of(ring, ch, ch->received, false);

	if (!step.add) {
		memcpy(step.at, got, step.count * sizeof(*got));
		return;
	}
	for (size_t i = 0; i < step.count; i++)
		step.at[i] += got[i];
}

/* By a READ over a queue pair to itself. None is made where NCCL finds no driver for GPUDirect on
 * the host. */
static void begin_flush(struct ring *ring, struct channel *ch, void *data, int size)
{
	check(ring->net->flush(ch->receiver, 1, &data, &size, &ch->in_memory, &ch->flush),
	      "iflush");
}

static void take_receives(struct ring *ring, struct channel *ch)
{
	while (ch->received < ch->posted_in) {
		size_t slot = (ch->turn + ch->received) % N_STEPS;
		void *data = ch->in + slot * STEP_BYTES;
		int done = 0, size = -1;

		if (ch->in_requests[slot]) {
			struct step step = step_of(ring, ch, ch->received, false);

			check(ring->net->test(ch->in_requests[slot], &done, &size), "irecv");
			if (!done)
				return;
			if ((size_t)size != step.count * sizeof(uint32_t))
				die(0, "%d bytes came, not %zu", size,
				    step.count * sizeof(uint32_t));
			ch->in_requests[slot] = NULL;
			if (ring->flush)
				begin_flush(ring, ch, data, size);
		}
		if (ch->flush) {
			check(ring->net->test(ch->flush, &done, NULL), "iflush");
			if (!done)
				return;
			ch->flush = NULL;
		}
		use(ring, ch, data);
		ch->received++;
		progressed(ring);
	}
}

static void post_sends(struct ring *ring, struct channel *ch)
{
	while (ch->posted_out < ch->n_steps && ch->posted_out < ch->sent + N_STEPS) {
		size_t number = ch->posted_out, slot = (ch->turn + number) % N_STEPS;
		struct step step = step_of(ring, ch, number, true);
		void *data = ch->out + slot * STEP_BYTES, *request = NULL;

		if (!is_first_of_block(ring, number) && ch->received < number)
			return; /* it is what the step before brings */
		memcpy(data, step.at, step.count * sizeof(uint32_t));
		check(ring->net->send(ch->sender, data, step.count * sizeof(uint32_t),
				      ring->boot->rank, ch->out_memory, NULL, &request),
		      "isend");
		if (!request)
			return;
		ch->out_requests[slot] = request;
		ch->posted_out++;
	}
}

static void take_sends(struct ring *ring, struct channel *ch)
{
	while (ch->sent < ch->posted_out) {
		int done = 0, size;

		check(ring->net->test(ch->out_requests[(ch->turn + ch->sent) % N_STEPS], &done,
				      &size),
		      "isend");
		if (!done)
			return;
		ch->sent++;
		progressed(ring);
	}
}

static void begin(const struct ring *ring, struct channel *ch, uint32_t *numbers, size_t count)
{
	size_t n = (size_t)ring->boot->n_ranks;

	ch->turn = (ch->turn + ch->n_steps) % N_STEPS;
	ch->numbers = numbers;
	ch->count = count;
	ch->block = STEP_NUMBERS * n;
	ch->n_steps = (count + ch->block - 1) / ch->block * 2 * (n - 1);
	ch->posted_in = ch->received = ch->posted_out = ch->sent = 0;
}

void ring_all_reduce(struct ring *ring, uint32_t *numbers, size_t count)
{
	size_t n = (size_t)ring->n_channels;
	bool busy = true;

	for (size_t c = 0; c < n; c++)
		begin(ring, &ring->channels[c], numbers + count * c / n,
		      count * (c + 1) / n - count * c / n);
	while (busy) {
		busy = false;
		for (size_t c = 0; c < n; c++) {
			struct channel *ch = &ring->channels[c];

			post_receives(ring, ch);
			post_sends(ring, ch);
			take_receives(ring, ch);
			take_sends(ring, ch);
			busy = busy || ch->received < ch->n_steps || ch->sent < ch->n_steps;
		}
		boot_watch(ring->boot);
		sched_yield(); /* so does NCCL's proxy */
	}
}

void ring_close(struct ring *ring)
{
	const struct netib *net = ring->net;

	for (int c = 0; c < ring->n_channels; c++) {
		struct channel *ch = &ring->channels[c];

		check(net->deregister(ch->sender, ch->out_memory), "deregMr");
		check(net->deregister(ch->receiver, ch->in_memory), "deregMr");
		check(net->close_send(ch->sender), "closeSend");
		check(net->close_receive(ch->receiver), "closeRecv");
		check(net->close_listen(ch->listener), "closeListen");
		free(ch->out);
		free(ch->in);
	}
	check(net->finalize(ring->ctx), "finalize");
}
