/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_LIVEPLUGIN_H
#define UNIT_LIVEPLUGIN_H

#include "liveworld.h"

/* A small plugin at each end of liveworld.h: it carries out the actions of a move. */

size_t make_paths(const struct end *e, struct mv_path *ret);
void start(unsigned int i);

/* The agent has doubts about the path, and will say what comes of them. */
void expect(unsigned int i);
void sure(unsigned int i);

/* Both ends' choice is the same more often than not. */
void do_ahead(unsigned int i);
void do_native(unsigned int i);
void drain(unsigned int i, bool by_message);

#endif
