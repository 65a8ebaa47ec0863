// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mesh.h"

struct mesh_root mesh_root;
