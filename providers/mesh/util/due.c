// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "due.h"

#include <stddef.h>

/* Meld two heaps without siblings, neither NULL. Return: the new root; its link is not set. */
static struct mesh_due *meld(struct mesh_due *a, struct mesh_due *b)
{
	struct mesh_due *top = a->at_ns <= b->at_ns ? a : b, *below = top == a ? b : a;

	below->next = top->child;
	if (below->next)
		below->next->link = &below->next;
	below->link = &top->child;
	top->child = below;
	return top;
}

/* Meld a row of siblings: in pairs, then the results from last to first. Return: NULL for none. */
static struct mesh_due *meld_all(struct mesh_due *row)
{
	struct mesh_due *pairs = NULL, *a, *b, *rest, *all = NULL;

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

static void put_on_top(struct mesh_due **first, struct mesh_due *due)
{
	if (*first && due)
		due = meld(*first, due);
	else if (!due)
		due = *first;
	*first = due;
	if (due) {
		due->next = NULL;
		due->link = first;
	}
}

void mesh_due_add(struct mesh_due **first, struct mesh_due *due, uint64_t at_ns)
{
	due->at_ns = at_ns;
	due->child = due->next = NULL;
	put_on_top(first, due);
}

void mesh_due_remove(struct mesh_due **first, struct mesh_due *due)
{
	struct mesh_due *below = due->child;

	if (!due->link)
		return;
	*due->link = due->next;
	if (due->next)
		due->next->link = due->link;
	due->child = due->next = NULL;
	due->link = NULL;
	put_on_top(first, meld_all(below));
}
