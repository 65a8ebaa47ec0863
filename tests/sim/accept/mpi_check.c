// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An MPI program that checks what it gets: a ring of point-to-point messages of sizes that take each of UCX's
 * protocols, then MPI_CHECK_ROUNDS (of the environment, default 1) rounds of the common collectives with other values
 * each. Rank 0 prints one line with ranks, hosts, rounds, checks and how many were wrong.
 * No one-sided operations: MPICH 4.0.2 of Debian 12 gets them wrong over UCX's tcp too (MPI_Accumulate is lost).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGES 5
#define MAX_BYTES (1 << 20)
#define MANY 2000 /* numbers of a collective: more than goes into one packet */

static int rank, ranks;
static long checks, wrong;

static void expect(long got, long want, const char *what)
{
	checks++;
	if (got == want)
		return;
	wrong++;
	fprintf(stderr, "rank %d: %s: got %ld, not %ld\n", rank, what, got, want);
}

static unsigned char byte_of(int sender, int round, int at)
{
	return (unsigned char)(sender * 31 + round * 7 + at + at / 251);
}

static void ring(int bytes)
{
	int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
	unsigned char *out = malloc(bytes + 1), *in = calloc(1, bytes + 1);

	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int round = 0; round < MESSAGES; round++) {
		MPI_Request request[2];
		MPI_Status status[2];
		int bad = 0;

		for (int i = 0; i < bytes; i++)
			out[i] = byte_of(rank, round, i);
		MPI_Irecv(in, bytes, MPI_BYTE, prev, round, MPI_COMM_WORLD, &request[0]);
		MPI_Isend(out, bytes, MPI_BYTE, next, round, MPI_COMM_WORLD, &request[1]);
		MPI_Waitall(2, request, status);
		for (int i = 0; i < bytes; i++)
			bad += in[i] != byte_of(prev, round, i);
		expect(bad, 0, "bytes of a message that differ");
	}
	free(in);
	free(out);
}

static long *numbers(int n)
{
	long *made = calloc(n, sizeof(*made));

	if (!made)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return made;
}

/* What a rank says to another in a round, or to all. */
static long word(int round, int from, int to, int at)
{
	return round * 1000003L + from * 10007L + to * 101L + at;
}

/* Hosts that are simulated have one clock; MPI_Wtime() of Open MPI begins anew in each process. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Nobody leaves before the last one has come. */
static void barrier(void)
{
	double came = now(), left, last, first;

	MPI_Barrier(MPI_COMM_WORLD);
	left = now();
	MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&left, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
	expect(first < last, 0, "barrier");
}

static void collectives(int round)
{
	long *out = numbers(ranks * MANY), *in = numbers(ranks * MANY);
	int root = round % ranks, bad;

	for (int i = 0; i < MANY; i++)
		out[i] = word(round, rank, 0, i);
	MPI_Allreduce(out, in, MANY, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	bad = 0;
	for (int i = 0; i < MANY; i++)
		bad += in[i] != ranks * word(round, 0, 0, i) + word(0, 1, 0, 0) * ranks * (ranks - 1) / 2;
	expect(bad, 0, "allreduce");

	for (int i = 0; i < MANY; i++)
		in[i] = rank == root ? word(round, root, 0, i) : -1;
	MPI_Bcast(in, MANY, MPI_LONG, root, MPI_COMM_WORLD);
	bad = 0;
	for (int i = 0; i < MANY; i++)
		bad += in[i] != word(round, root, 0, i);
	expect(bad, 0, "bcast");

	memset(in, 0xff, ranks * MANY * sizeof(*in));
	MPI_Allgather(out, MANY, MPI_LONG, in, MANY, MPI_LONG, MPI_COMM_WORLD);
	bad = 0;
	for (int i = 0; i < ranks * MANY; i++)
		bad += in[i] != word(round, i / MANY, 0, i % MANY);
	expect(bad, 0, "allgather");

	for (int i = 0; i < ranks * MANY; i++)
		out[i] = word(round, rank, i / MANY, i % MANY);
	memset(in, 0xff, ranks * MANY * sizeof(*in));
	MPI_Alltoall(out, MANY, MPI_LONG, in, MANY, MPI_LONG, MPI_COMM_WORLD);
	bad = 0;
	for (int i = 0; i < ranks * MANY; i++)
		bad += in[i] != word(round, i / MANY, rank, i % MANY);
	expect(bad, 0, "alltoall");

	barrier();
	free(in);
	free(out);
}

/* How many machines the ranks are on, as MPI sees it. */
static int hosts(void)
{
	int first, inside, count;
	MPI_Comm machine;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
	MPI_Comm_rank(machine, &inside);
	first = inside == 0;
	MPI_Allreduce(&first, &count, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_free(&machine);
	return count;
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 0, 8, 200, 8000, 60000, MAX_BYTES };
	const char *rounds_text = getenv("MPI_CHECK_ROUNDS");
	int rounds = rounds_text ? atoi(rounds_text) : 1, machines;
	long local[2], total[2];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		ring(sizes[i]);
	for (int round = 0; round < rounds; round++)
		collectives(round);
	machines = hosts();
	local[0] = checks;
	local[1] = wrong;
	MPI_Reduce(local, total, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("mpi: %d ranks on %d hosts, %d rounds, %ld checks, %ld wrong\n", ranks, machines, rounds, total[0], total[1]);
	MPI_Finalize();
	return wrong ? 1 : 0;
}
