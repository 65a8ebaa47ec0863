// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An MPI program that checks what it gets: a ring of point-to-point messages of sizes that take each of UCX's
 * protocols, and the common collectives. Rank 0 prints one line with ranks, hosts, checks and how many were wrong.
 * No one-sided operations: MPICH 4.0.2 of Debian 12 gets them wrong over UCX's tcp too (MPI_Accumulate is lost).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 5
#define MAX_BYTES (1 << 20)

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
	for (int round = 0; round < ROUNDS; round++) {
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

static void collectives(void)
{
	long mine = rank + 1, sum = 0, root = rank ? 0 : 4711, *all = calloc(ranks, sizeof(*all)), *out = calloc(ranks, sizeof(*out));

	if (!all || !out)
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	expect(sum, (long)ranks * (ranks + 1) / 2, "allreduce");
	MPI_Bcast(&root, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	expect(root, 4711, "bcast");
	MPI_Allgather(&mine, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		expect(all[i], i + 1, "allgather");
	for (int i = 0; i < ranks; i++)
		out[i] = rank * 100 + i;
	MPI_Alltoall(out, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		expect(all[i], i * 100 + rank, "alltoall");
	MPI_Barrier(MPI_COMM_WORLD);
	free(all);
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
	long local[2], total[2];
	int machines;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		ring(sizes[i]);
	collectives();
	machines = hosts();
	local[0] = checks;
	local[1] = wrong;
	MPI_Reduce(local, total, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("mpi: %d ranks on %d hosts, %ld checks, %ld wrong\n", ranks, machines, total[0], total[1]);
	MPI_Finalize();
	return wrong ? 1 : 0;
}
