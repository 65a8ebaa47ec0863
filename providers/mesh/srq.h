/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SRQ_H
#define MESH_SRQ_H

#include "heldint.h"

/** mesh_srqs_close - a context is being closed */
void mesh_srqs_close(struct mesh_context *mc);

#endif
