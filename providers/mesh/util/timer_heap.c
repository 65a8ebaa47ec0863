// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "timer_heap.h"

#include <stddef.h>

/* Meld two heaps without siblings, neither NULL. Return: the new root; its link is not set. */
static struct mesh_timer *meld(struct mesh_timer *a, struct mesh_timer *b)
{
	struct mesh_timer *top = a->at_ns <= b->at_ns ? a : b, *below = top == a ? b : a;

	below->next = top->child;
	if (below->next)
		below->next->link = &below->next;
	below->link = &top->child;
	top->child = below;
	return top;
}

/* Meld a row of siblings: in pairs, then the results from last to first. Return: NULL for none. */
static struct mesh_timer *meld_all(struct mesh_timer *row)
{
	struct mesh_timer *pairs = NULL, *a, *b, *rest, *all = NULL;

	for (a = row; a; a = rest) {
		b = a->next;
		rest = b ? b->next : NULL;
		a->next = NULL;
		if (b) {
			b->next = NULL;
			a = meld(a, b);
		}
		a->next = pairs;
		pairs = a;
	}
	for (a = pairs; a; a = rest) {
		rest = a->next;
		a->next = NULL;
		all = all ? meld(all, a) : a;
	}
	return all;
}

static void put_on_top(struct mesh_timer **first, struct mesh_timer *timer)
{
	if (*first && timer)
		timer = meld(*first, timer);
	else if (!timer)
		timer = *first;
	*first = timer;
	if (timer) {
		timer->next = NULL;
		timer->link = first;
	}
}

void mesh_timer_add(struct mesh_timer **first, struct mesh_timer *timer, uint64_t at_ns)
{
	timer->at_ns = at_ns;
	timer->child = timer->next = NULL;
	put_on_top(first, timer);
}

void mesh_timer_remove(struct mesh_timer **first, struct mesh_timer *timer)
{
	struct mesh_timer *below = timer->child;

	if (!timer->link)
		return;
	*timer->link = timer->next;
	if (timer->next)
		timer->next->link = timer->link;
	timer->child = timer->next = NULL;
	timer->link = NULL;
	put_on_top(first, meld_all(below));
}
