/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_ATTR_H
#define MESH_ATTR_H

#include <infiniband/verbs.h>

/** mesh_attr_merge - copy the members that @mask names */
void mesh_attr_merge(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask);

#endif
