/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The commands of /dev/infiniband/rdma_cm, ABI version 4 (<rdma/rdma_user_cm.h>). */
#include "cm.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A command as it is carried out: @in is as long as the table says, and aligned. */
struct call {
	struct cm *cm;
	struct cm_file *file;
	const void *in;
	const void *more; /* behind the structure */
	uint32_t more_len;
	void *out;
	uint32_t out_len, ret_len;
};

static int answer(struct call *c, const void *data, uint32_t len)
{
	if (c->out_len < len)
		return -ENOSPC;
	memcpy(c->out, data, len);
	c->ret_len = len;
	return 0;
}

static int get_id(struct call *c, uint32_t handle, struct cm_id **ret)
{
	return id_get(c->cm, c->file, handle, ret);
}

/* What the program gives must be as long as its family says. */
static int get_addr(const struct __kernel_sockaddr_storage *a, uint16_t size, union cm_addr *ret)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, a, sizeof(*a) < sizeof(*ret) ? sizeof(*a) : sizeof(*ret));
	return size && size == addr_size(ret) ? 0 : -EINVAL;
}

static void get_addr6(const struct sockaddr_in6 *a, union cm_addr *ret)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, a, sizeof(*a));
}

static int create_id(struct call *c)
{
	const struct rdma_ucm_create_id *in = c->in;
	struct rdma_ucm_create_id_resp resp;
	uint8_t type = IBV_QPT_RC;
	struct cm_id *id;
	int err;

	if (in->ps == RDMA_PS_UDP || in->ps == RDMA_PS_IPOIB)
		type = IBV_QPT_UD;
	else if (in->ps == RDMA_PS_IB)
		type = in->qp_type;
	else if (in->ps != RDMA_PS_TCP)
		return -EINVAL;
	if (c->out_len < sizeof(resp))
		return -ENOSPC;
	id = id_new(c->cm, c->file, in->ps, type);
	if (!id)
		return -ENOMEM;
	err = id_give_handle(c->cm, id);
	if (err) {
		id_free(c->cm, id);
		return err;
	}
	id->uid = in->uid;
	resp.id = id->handle;
	return answer(c, &resp, sizeof(resp));
}

static int destroy_id(struct call *c)
{
	const struct rdma_ucm_destroy_id *in = c->in;
	struct rdma_ucm_destroy_id_resp resp;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	if (err)
		return err;
	if (c->out_len < sizeof(resp))
		return -ENOSPC;
	resp.events_reported = id->events_reported;
	id_destroy(c->cm, id);
	return answer(c, &resp, sizeof(resp));
}

static int bind_ip(struct call *c)
{
	const struct rdma_ucm_bind_ip *in = c->in;
	union cm_addr a;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	get_addr6(&in->addr, &a);
	return err ? err : id_bind(c->cm, id, &a);
}

static int bind_any(struct call *c)
{
	const struct rdma_ucm_bind *in = c->in;
	union cm_addr a;
	struct cm_id *id;
	int err = get_addr(&in->addr, in->addr_size, &a);

	if (err || in->reserved)
		return -EINVAL;
	err = get_id(c, in->id, &id);
	return err ? err : id_bind(c->cm, id, &a);
}

static int resolve_ip(struct call *c)
{
	const struct rdma_ucm_resolve_ip *in = c->in;
	union cm_addr src, dst;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	get_addr6(&in->src_addr, &src);
	get_addr6(&in->dst_addr, &dst);
	return err ? err : id_resolve_addr(c->cm, id, &src, &dst, in->timeout_ms);
}

static int resolve_addr(struct call *c)
{
	const struct rdma_ucm_resolve_addr *in = c->in;
	union cm_addr src = {0}, dst;
	struct cm_id *id;
	int err = get_addr(&in->dst_addr, in->dst_size, &dst);

	if (!err && in->src_size)
		err = get_addr(&in->src_addr, in->src_size, &src);
	if (err || in->reserved)
		return -EINVAL;
	err = get_id(c, in->id, &id);
	return err ? err : id_resolve_addr(c->cm, id, &src, &dst, in->timeout_ms);
}

static int resolve_route(struct call *c)
{
	const struct rdma_ucm_resolve_route *in = c->in;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	return err ? err : id_resolve_route(c->cm, id);
}

static int query_route(struct call *c)
{
	const struct rdma_ucm_query *in = c->in;
	struct rdma_ucm_query_route_resp resp;
	struct cm_id *id;
	uint32_t len = c->out_len < sizeof(resp) ? c->out_len : (uint32_t)sizeof(resp);
	int err;

	if (len < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
		return -ENOSPC;
	err = get_id(c, in->id, &id);
	if (!err)
		err = id_query_route(c->cm, id, &resp);
	return err ? err : answer(c, &resp, len);
}

static int query(struct call *c)
{
	const struct rdma_ucm_query *in = c->in;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	return err ? err : id_query(c->cm, id, in->option, c->out, c->out_len, &c->ret_len);
}

static int connect_id(struct call *c)
{
	const struct rdma_ucm_connect *in = c->in;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	return err ? err : id_connect(c->cm, id, &in->conn_param);
}

static int listen_id(struct call *c)
{
	const struct rdma_ucm_listen *in = c->in;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	return err ? err : id_listen(c->cm, id, in->backlog);
}

static int accept_id(struct call *c)
{
	const struct rdma_ucm_accept *in = c->in;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	if (!err)
		err = id_accept(c->cm, id, &in->conn_param);
	if (!err && in->conn_param.valid)
		id->uid = in->uid;
	return err;
}

static int reject(struct call *c)
{
	const struct rdma_ucm_reject *in = c->in;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	return err ? err : id_reject(c->cm, id, in->private_data, in->private_data_len, in->reason);
}

static int disconnect(struct call *c)
{
	const struct rdma_ucm_disconnect *in = c->in;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	return err ? err : id_disconnect(c->cm, id);
}

static int init_qp_attr(struct call *c)
{
	const struct rdma_ucm_init_qp_attr *in = c->in;
	struct ib_uverbs_qp_attr attr;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	if (!err)
		err = id_qp_attr(id, in->qp_state, &attr);
	return err ? err : answer(c, &attr, sizeof(attr));
}

static int get_event(struct call *c)
{
	struct cm_event *e = STAILQ_FIRST(&c->file->events);
	uint32_t len = sizeof(e->resp);
	int err;

	if (c->out_len < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	if (!e)
		return -EAGAIN;
	if (e->request) {
		err = id_give_handle(c->cm, e->request);
		if (err)
			return err;
		e->resp.id = e->request->handle;
		e->id->backlog++;
	}
	e->id->events_reported++;
	if (e->group)
		e->group->events_reported++;
	STAILQ_REMOVE_HEAD(&c->file->events, link);
	err = answer(c, &e->resp, c->out_len < len ? c->out_len : len);
	free(e);
	return err;
}

static int set_option_id(struct call *c, struct cm_id *id, uint32_t name)
{
	const uint8_t *byte = c->more;
	int word = 0;

	if (c->more_len !=
	    (name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT ? 1 : sizeof(word)))
		return name > RDMA_OPTION_ID_ACK_TIMEOUT ? -ENOSYS : -EINVAL;
	if (c->more_len == sizeof(word))
		memcpy(&word, c->more, sizeof(word));
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		id->tos = *byte;
		id->tos_set = true;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		id->reuse_addr = word;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (id->state != ID_IDLE && id->state != ID_BOUND)
			return -EINVAL;
		id->only_family = word;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (id->qp_type != IBV_QPT_RC || *byte > 31)
			return -EINVAL;
		id->timeout = *byte;
		id->timeout_set = true;
		return 0;
	default:
		return -ENOSYS;
	}
}

static int set_option(struct call *c)
{
	const struct rdma_ucm_set_option *in = c->in;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	if (err)
		return err;
	if (in->optlen != c->more_len)
		return -EINVAL;
	/* A path of one's own makes sense where a subnet manager gives paths. */
	return in->level == RDMA_OPTION_ID ? set_option_id(c, id, in->optname) : -ENOSYS;
}

static int notify(struct call *c)
{
	const struct rdma_ucm_notify *in = c->in;
	struct conn_out out;
	struct cm_id *id;
	int err = get_id(c, in->id, &id);

	if (err)
		return err;
	if (id->state != ID_CONNECT || in->event != IBV_EVENT_COMM_EST)
		return -EINVAL;
	err = conn_notify(&id->conn, &out);
	if (!err)
		id_conn_event(c->cm, id, &out, NULL);
	return err;
}

static int join(struct call *c, uint32_t handle, const union cm_addr *group, uint64_t uid)
{
	struct rdma_ucm_create_id_resp resp;
	struct cm_id *id;
	int err = c->out_len < sizeof(resp) ? -ENOSPC : get_id(c, handle, &id);

	if (!err)
		err = id_join(c->cm, id, group, uid, &resp.id);
	return err ? err : answer(c, &resp, sizeof(resp));
}

static int join_ip(struct call *c)
{
	const struct rdma_ucm_join_ip_mcast *in = c->in;
	union cm_addr a;

	get_addr6(&in->addr, &a);
	return join(c, in->id, &a, in->uid);
}

static int join_any(struct call *c)
{
	const struct rdma_ucm_join_mcast *in = c->in;
	union cm_addr a;
	int err = get_addr(&in->addr, in->addr_size, &a);

	if (err || in->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	return join(c, in->id, &a, in->uid);
}

static int leave(struct call *c)
{
	const struct rdma_ucm_destroy_id *in = c->in;
	struct rdma_ucm_destroy_id_resp resp;
	int err = c->out_len < sizeof(resp)
			  ? -ENOSPC
			  : group_leave(c->cm, c->file, in->id, &resp.events_reported);

	return err ? err : answer(c, &resp, sizeof(resp));
}

/* The identifier and its unread events, in order, to this file. */
static int migrate(struct call *c)
{
	const struct rdma_ucm_migrate_id *in = c->in;
	struct rdma_ucm_migrate_resp resp;
	struct cm_event *e, *next;
	struct cm_file *from;
	struct cm_id *id;
	int err;

	LIST_FOREACH(from, &c->cm->files, link)
		if (from->number == in->fd)
			break;
	if (!from)
		return -ENOENT;
	err = id_get(c->cm, from, in->id, &id);
	if (err)
		return err;
	resp.events_reported = id->events_reported;
	for (e = STAILQ_FIRST(&from->events); e && from != c->file; e = next) {
		next = STAILQ_NEXT(e, link);
		if (e->id != id)
			continue;
		STAILQ_REMOVE(&from->events, e, cm_event, link);
		STAILQ_INSERT_TAIL(&c->file->events, e, link);
		if (e->request)
			e->request->file = c->file;
		c->cm->ops->readable(c->cm->arg, c->file);
	}
	id->file = c->file;
	return answer(c, &resp, sizeof(resp));
}

/* @min: programs older than this header leave out the end of a structure. */
static const struct {
	int (*run)(struct call *c);
	uint16_t size, min;
} commands[] = {
#define CMD(NAME, run, type) [RDMA_USER_CM_CMD_##NAME] = {run, sizeof(type), sizeof(type)}
	CMD(CREATE_ID, create_id, struct rdma_ucm_create_id),
	CMD(DESTROY_ID, destroy_id, struct rdma_ucm_destroy_id),
	CMD(BIND_IP, bind_ip, struct rdma_ucm_bind_ip),
	CMD(RESOLVE_IP, resolve_ip, struct rdma_ucm_resolve_ip),
	CMD(RESOLVE_ROUTE, resolve_route, struct rdma_ucm_resolve_route),
	CMD(QUERY_ROUTE, query_route, struct rdma_ucm_query),
	[RDMA_USER_CM_CMD_CONNECT] = {connect_id, sizeof(struct rdma_ucm_connect),
				      offsetof(struct rdma_ucm_connect, ece)},
	CMD(LISTEN, listen_id, struct rdma_ucm_listen),
	[RDMA_USER_CM_CMD_ACCEPT] = {accept_id, sizeof(struct rdma_ucm_accept),
				     offsetof(struct rdma_ucm_accept, ece)},
	CMD(REJECT, reject, struct rdma_ucm_reject),
	CMD(DISCONNECT, disconnect, struct rdma_ucm_disconnect),
	CMD(INIT_QP_ATTR, init_qp_attr, struct rdma_ucm_init_qp_attr),
	CMD(GET_EVENT, get_event, struct rdma_ucm_get_event),
	CMD(SET_OPTION, set_option, struct rdma_ucm_set_option),
	CMD(NOTIFY, notify, struct rdma_ucm_notify),
	CMD(JOIN_IP_MCAST, join_ip, struct rdma_ucm_join_ip_mcast),
	CMD(LEAVE_MCAST, leave, struct rdma_ucm_destroy_id),
	CMD(MIGRATE_ID, migrate, struct rdma_ucm_migrate_id),
	CMD(QUERY, query, struct rdma_ucm_query),
	CMD(BIND, bind_any, struct rdma_ucm_bind),
	CMD(RESOLVE_ADDR, resolve_addr, struct rdma_ucm_resolve_addr),
	CMD(JOIN_MCAST, join_any, struct rdma_ucm_join_mcast),
#undef CMD
};

int cm_command(struct cm *cm, struct cm_file *f, uint32_t command, const void *in, uint32_t in_len,
	       void *out, uint32_t out_len, uint32_t *ret_len)
{
	struct call c = {.cm = cm, .file = f, .out = out, .out_len = out_len};
	uint64_t copy[1024 / 8] = {0};
	uint32_t size;
	int err;

	if (command >= sizeof(commands) / sizeof(commands[0]))
		return -EINVAL;
	if (!commands[command].run)
		return -ENOSYS; /* GET_OPTION: in no kernel either */
	if (in_len < commands[command].min)
		return -EINVAL;
	size = in_len < commands[command].size ? in_len : commands[command].size;
	memcpy(copy, in, size);
	c.in = copy;
	c.more = (const uint8_t *)in + size;
	c.more_len = in_len - size;
	err = commands[command].run(&c);
	if (!err)
		*ret_len = c.ret_len;
	return err;
}
