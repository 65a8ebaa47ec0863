/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_MOVES_H
#define UNIT_MOVES_H

#include "unit.h"

#include "move.h"

/* What the tests of moves say of the actions that a move gives out; unit.h has assert_gid(). */

static inline struct mv_move_action take(struct mv_move *m, enum mv_move_action_type type)
{
	struct mv_move_action action = {0};

	assert_true(mv_move_next(m, &action));
	assert_int_equal(action.type, type);
	return action;
}

static inline void assert_quiet(struct mv_move *m)
{
	struct mv_move_action action;

	assert_false(mv_move_next(m, &action));
}

static inline struct mv_ctl_msg take_message(struct mv_move *m, enum mv_ctl_type type)
{
	struct mv_move_action action = take(m, MV_DO_SEND);

	assert_string_equal(mv_ctl_type_name(action.msg.type), mv_ctl_type_name(type));
	return action.msg;
}

#endif
