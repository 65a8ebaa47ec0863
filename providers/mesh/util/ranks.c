// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ranks.h"

#ifdef MESHVERBS_LOCK_RANKS
#define RANKED(class, text, two) [MESH_LOCK_##class] = {.name = text, .rank = MESH_LOCK_##class, .pairs = MV_LOCK_##two},
#define INNERMOST(class, text)	 [MESH_LOCK_##class] = {.name = text, .rank = MV_LOCK_INNERMOST},
const struct mv_lock_class mesh_lock_classes[] = {MESH_LOCKS(RANKED, INNERMOST)};
#endif
