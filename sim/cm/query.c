/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What an identifier knows: addresses, GIDs, path. */
#include "cm.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <string.h>

#define EXACTLY       2 /* selector of a path record's MTU, rate and life time */
#define PATH_REC_SIZE 64

/* <rdma/ib_user_sa.h> has no type for it: struct sockaddr_ib of librdmacm and the kernel. */
struct addr_ib {
	uint16_t family, pkey;
	uint32_t flow_info;
	uint8_t gid[16];
	uint64_t service_id, service_mask, scope;
};

/*
 * librdmacm's UCMA_INVALID_IB_INDEX. Libraries learn a device's index by RDMA netlink, which knows no simulated device; librdmacm 33 then
 * compares the index all the same, and finds no device.
 */
#define NO_INDEX UINT32_MAX

static uint64_t guid_of(struct cm *cm, const struct cm_id *id)
{
	uint64_t guid = 0;

	if (id->has_dev)
		memcpy(&guid, cm->state->devs[id->conn.path.dev].node_guid, 8);
	return guid;
}

static void copy_addr(const union cm_addr *a, void *dst)
{
	memcpy(dst, a, a->sa.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6));
}

/* id_query_route() - all at once, as older libraries ask. */
int id_query_route(struct cm *cm, const struct cm_id *id, struct rdma_ucm_query_route_resp *ret)
{
	const struct cm_path *p = &id->conn.path;
	struct ib_user_path_rec *r = &ret->ib_route[0];

	memset(ret, 0, sizeof(*ret));
	copy_addr(&id->src, &ret->src_addr);
	copy_addr(&id->dst, &ret->dst_addr);
	if (!id->has_dev)
		return 0;
	ret->node_guid = guid_of(cm, id);
	ret->port_num = (uint8_t)p->port;
	ret->ibdev_index = NO_INDEX;
	ret->num_paths = id->has_route;
	memcpy(r->dgid, p->dgid, 16);
	memcpy(r->sgid, p->sgid, 16);
	r->pkey = htobe16(CM_PKEY);
	if (!id->has_route)
		return 0;
	r->dlid = htobe16(p->dlid);
	r->slid = htobe16(p->slid);
	r->flow_label = htobe32(p->flow_label);
	r->reversible = 1;
	r->mtu = p->mtu;
	r->hop_limit = p->hop_limit;
	r->traffic_class = p->traffic_class;
	r->mtu_selector = r->rate_selector = r->packet_life_time_selector = EXACTLY;
	r->rate = p->rate;
	r->packet_life_time = p->lifetime;
	return 0;
}

static void fill_device(struct cm *cm, const struct cm_id *id, struct rdma_ucm_query_addr_resp *r)
{
	memset(r, 0, sizeof(*r));
	if (!id->has_dev)
		return;
	r->node_guid = guid_of(cm, id);
	r->port_num = (uint8_t)id->conn.path.port;
	r->ibdev_index = NO_INDEX;
	r->pkey = id->conn.path.slid ? htobe16(CM_PKEY) : 0; /* IPoIB's */
}

static void query_addr(struct cm *cm, const struct cm_id *id, struct rdma_ucm_query_addr_resp *r)
{
	fill_device(cm, id, r);
	r->src_size = (uint16_t)addr_size(&id->src);
	r->dst_size = (uint16_t)addr_size(&id->dst);
	memcpy(&r->src_addr, &id->src, r->src_size);
	memcpy(&r->dst_addr, &id->dst, r->dst_size);
}

static void fill_ib(const struct cm_id *id, const union cm_addr *a, const uint8_t *gid, void *dst)
{
	struct addr_ib ib = {.family = AF_IB, .pkey = id->has_dev && id->conn.path.slid ? htobe16(CM_PKEY) : 0};

	if (a->sa.sa_family == AF_IB) {
		memcpy(dst, a, sizeof(ib));
		return;
	}
	if (id->has_dev)
		memcpy(ib.gid, gid, 16);
	ib.service_id = htobe64((uint64_t)id->ps << 16 | addr_port(a));
	memcpy(dst, &ib, sizeof(ib));
}

static void query_gid(struct cm *cm, const struct cm_id *id, struct rdma_ucm_query_addr_resp *r)
{
	fill_device(cm, id, r);
	r->src_size = r->dst_size = sizeof(struct addr_ib);
	fill_ib(id, &id->src, id->conn.path.sgid, &r->src_addr);
	fill_ib(id, &id->dst, id->conn.path.dgid, &r->dst_addr);
}

/* The PathRecord of the specification, volume 1, 15.2.5.16. */
static void pack_path(const struct cm_path *p, uint8_t *b)
{
	uint32_t flow = htobe32((p->flow_label & 0xfffff) << 8 | p->hop_limit);
	uint16_t lids[] = {htobe16(p->dlid), htobe16(p->slid)};

	memset(b, 0, PATH_REC_SIZE);
	memcpy(b + 8, p->dgid, 16);
	memcpy(b + 24, p->sgid, 16);
	memcpy(b + 40, lids, 4);
	memcpy(b + 44, &flow, 4);
	b[48] = p->traffic_class;
	b[49] = 1 << 7; /* reversible */
	b[50] = CM_PKEY >> 8;
	b[51] = CM_PKEY & 0xff;
	b[54] = (uint8_t)(EXACTLY << 6 | p->mtu);
	b[55] = (uint8_t)(EXACTLY << 6 | p->rate);
	b[56] = (uint8_t)(EXACTLY << 6 | p->lifetime);
}

static uint32_t query_path(const struct cm_id *id, uint8_t *out, uint32_t out_len)
{
	struct rdma_ucm_query_path_resp r = {.num_paths = id->has_route};
	struct ib_path_rec_data d = {.flags =
					     IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL};

	memcpy(out, &r, sizeof(r));
	if (!id->has_route || out_len < sizeof(r) + sizeof(d))
		return sizeof(r);
	pack_path(&id->conn.path, (uint8_t *)d.path_rec);
	memcpy(out + sizeof(r), &d, sizeof(d));
	return sizeof(r) + sizeof(d);
}

/* id_query() - @option: RDMA_USER_CM_QUERY_*. -ENOSPC if @out_len is too little. */
int id_query(struct cm *cm, const struct cm_id *id, uint32_t option, void *out, uint32_t out_len,
	     uint32_t *ret_len)
{
	struct rdma_ucm_query_addr_resp r;

	/* What came after the addresses is left out for those who do not know it. */
	if (out_len < (option == RDMA_USER_CM_QUERY_PATH
			       ? sizeof(struct rdma_ucm_query_path_resp)
			       : offsetof(struct rdma_ucm_query_addr_resp, ibdev_index)))
		return option > RDMA_USER_CM_QUERY_GID ? -ENOSYS : -ENOSPC;
	switch (option) {
	case RDMA_USER_CM_QUERY_ADDR:
		query_addr(cm, id, &r);
		break;
	case RDMA_USER_CM_QUERY_GID:
		query_gid(cm, id, &r);
		break;
	case RDMA_USER_CM_QUERY_PATH:
		*ret_len = query_path(id, out, out_len);
		return 0;
	default:
		return -ENOSYS;
	}
	*ret_len = out_len < sizeof(r) ? out_len : sizeof(r);
	memcpy(out, &r, *ret_len);
	return 0;
}
