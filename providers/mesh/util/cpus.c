// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cpus.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS (8 * sizeof(unsigned long))

void mesh_cpus_of(int tid, struct mesh_cpus *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (sched_getaffinity(tid, sizeof(ret->words), (cpu_set_t *)(void *)ret->words))
		memset(ret, 0, sizeof(*ret));
}

void mesh_cpus_parse(const char *list, struct mesh_cpus *ret)
{
	unsigned long first, last;
	char *end;

	memset(ret, 0, sizeof(*ret));
	while (*list >= '0' && *list <= '9') {
		first = last = strtoul(list, &end, 10);
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < MESH_MAX_CPUS; first++)
			ret->words[first / WORD_BITS] |= 1ul << first % WORD_BITS;
		list = *end == ',' ? end + 1 : end;
	}
}

bool mesh_cpus_empty(const struct mesh_cpus *cpus)
{
	size_t i;

	for (i = 0; i < MESH_CPU_WORDS && !cpus->words[i]; i++)
		;
	return i == MESH_CPU_WORDS;
}

/* Return: false: nothing would be left, and @ret is unchanged. @ret may be @from. */
static bool without(const struct mesh_cpus *from, const struct mesh_cpus *what, struct mesh_cpus *ret)
{
	struct mesh_cpus rest;
	size_t i;

	for (i = 0; i < MESH_CPU_WORDS; i++)
		rest.words[i] = from->words[i] & ~what->words[i];
	if (mesh_cpus_empty(&rest))
		return false;
	*ret = rest;
	return true;
}

bool mesh_cpus_choose(const struct mesh_cpus *start, const struct mesh_cpus *isolated, const struct mesh_cpus *starter, bool realtime,
		      struct mesh_cpus *ret)
{
	struct mesh_cpus every;

	if (mesh_cpus_empty(start))
		return false;
	*ret = *start;
	without(start, isolated, ret);
	if (!realtime || without(ret, starter, ret) || without(start, starter, ret))
		return true;
	memset(&every, 0xff, sizeof(every));
	without(&every, starter, ret);
	return true;
}
