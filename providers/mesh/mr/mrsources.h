/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MRSOURCES_H
#define MESH_MRSOURCES_H

/*
 * All public functions of rdma-core (verbs.h, mlx5dv.h) by which a program gets a key, or changes the meaning of a key.
 * tests/unit/mesh/mrsources.py compares this list with the installed headers, and with docs/compatibility.md.
 *
 *   FOLLOWED   the region is registered on the NIC that a connection has moved to
 *   STAYS      connections of the protection domain cannot move from that call on (pdstay.h)
 *   FOUND      the plugin does not intercept the call: connections of the protection domain cannot move once such a key is seen in use
 *   ALONE      a queue pair that does that, or is made for it, cannot move; other queue pairs can
 *   NO_KEY     makes no key
 *
 * The text is the reason for the operator; "": none.
 */
#define MESH_MR_SOURCES(X)                                                                              \
	X(ibv_reg_mr, FOLLOWED, "")                                                                     \
	X(ibv_reg_mr_iova, FOLLOWED, "")                                                                \
	X(ibv_reg_mr_iova2, FOLLOWED, "")                                                               \
	X(ibv_reg_dmabuf_mr, FOLLOWED, "")                                                              \
	X(ibv_reg_mr_ex, FOLLOWED, "it has a memory region of a kind that is not known (ibv_reg_mr_ex)") \
	X(ibv_reg_buf_mr, FOLLOWED, "")                                                                 \
	X(ibv_rereg_mr, FOLLOWED, "")                                                                   \
	X(ibv_alloc_null_mr, FOLLOWED, "")                                                              \
	X(ibv_reg_dm_mr, STAYS, "it has memory of the NIC itself (ibv_reg_dm_mr)")                      \
	X(ibv_import_mr, STAYS, "it has a memory region of another process (ibv_import_mr)")            \
	X(ibv_import_pd, STAYS, "it is shared with another process (ibv_import_pd)")                    \
	X(ibv_import_device, FOUND, "")                                                                 \
	X(ibv_alloc_mw, STAYS, "it has a memory window (ibv_alloc_mw)")                                 \
	X(ibv_bind_mw, ALONE, "")                                                                       \
	X(ibv_wr_bind_mw, ALONE, "")                                                                    \
	X(ibv_wr_local_inv, ALONE, "")                                                                  \
	X(ibv_wr_send_inv, ALONE, "")                                                                   \
	X(ibv_advise_mr, NO_KEY, "")                                                                    \
	X(ibv_import_dm, NO_KEY, "")                                                                    \
	X(ibv_inc_rkey, NO_KEY, "")                                                                     \
	X(mlx5dv_reg_dmabuf_mr, FOUND, "")                                                              \
	X(mlx5dv_create_mkey, FOUND, "")                                                                \
	X(mlx5dv_devx_obj_create, FOUND, "")                                                            \
	X(mlx5dv_devx_obj_import, FOUND, "")                                                            \
	X(mlx5dv_devx_general_cmd, FOUND, "")                                                           \
	X(mlx5dv_wr_mr_list, ALONE, "")                                                                 \
	X(mlx5dv_wr_mr_interleaved, ALONE, "")                                                          \
	X(mlx5dv_wr_mkey_configure, ALONE, "")                                                          \
	X(mlx5dv_wr_set_mkey_access_flags, ALONE, "")                                                   \
	X(mlx5dv_wr_set_mkey_crypto, ALONE, "")                                                         \
	X(mlx5dv_wr_set_mkey_layout_interleaved, ALONE, "")                                             \
	X(mlx5dv_wr_set_mkey_layout_list, ALONE, "")                                                    \
	X(mlx5dv_wr_set_mkey_sig_block, ALONE, "")                                                      \
	X(mlx5dv_mkey_check, NO_KEY, "")

enum mesh_mr_source {
#define X(function, what, why) MESH_SOURCE_##function,
	MESH_MR_SOURCES(X)
#undef X
	MESH_N_MR_SOURCES,
};

/** mesh_mr_source_why - why connections of a protection domain with such a key cannot move, a constant; pdstay.c */
const char *mesh_mr_source_why(enum mesh_mr_source source);

#endif
