/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The RDMA connection manager of one host: identifiers as rdma_cm has them, the files that programs
 * open, and their connections. Knows no socket and no clock: those come in through struct cm_ops
 * and cm->now_ns. Single-threaded; all functions of this room without a kernel-doc of their own
 * return 0 or the -errno that Linux' rdma_ucm gives.
 */
#ifndef SIM_CM_CM_H
#define SIM_CM_CM_H

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <sys/queue.h>

#include "state.h"
#include "conn.h"

#define CM_PORT_FIRST  32768 /* of the range for those who do not care, as the kernel's default */
#define CM_PORT_LAST   60999
#define CM_MAX_BACKLOG 1024
#define CM_UDP_QKEY    0x01234567 /* of everything in the port spaces UDP and IPOIB */
#define CM_MCAST_QPN   0xffffff

#ifndef AF_IB
#define AF_IB 27
#endif

/* Numbers of RDMA_CM_EVENT_*; the header with those names belongs to librdmacm. */
enum {
	EVENT_ADDR_RESOLVED,
	EVENT_ADDR_ERROR,
	EVENT_ROUTE_RESOLVED,
	EVENT_ROUTE_ERROR,
	EVENT_CONNECT_REQUEST,
	EVENT_CONNECT_RESPONSE,
	EVENT_CONNECT_ERROR,
	EVENT_UNREACHABLE,
	EVENT_REJECTED,
	EVENT_ESTABLISHED,
	EVENT_DISCONNECTED,
	EVENT_DEVICE_REMOVAL,
	EVENT_MULTICAST_JOIN,
	EVENT_MULTICAST_ERROR,
	EVENT_ADDR_CHANGE,
	EVENT_TIMEWAIT_EXIT,
};

union cm_addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct __kernel_sockaddr_storage any;
};

enum id_state {
	ID_IDLE,
	ID_BOUND,
	ID_ADDR_QUERY,
	ID_ADDR_RESOLVED,
	ID_ROUTE_RESOLVED,
	ID_CONNECT,
	ID_LISTEN,
};

struct cm_file;

struct cm_id {
	TAILQ_ENTRY(cm_id) link; /* cm->all */
	uint32_t handle;
	bool has_handle; /* not before the program has read the event that tells of it */
	struct cm_file *file;
	uint64_t uid;
	uint16_t ps; /* enum rdma_ucm_port_space */
	uint8_t qp_type; /* IBV_QPT_* */
	enum id_state state;
	union cm_addr src, dst; /* sa_family 0: none */
	bool bound; /* src.port is taken */
	bool has_dev; /* conn.path has device, port, source GID */
	bool has_route; /* conn.path is complete */
	bool reuse_addr, only_family, tos_set, timeout_set;
	uint8_t tos, timeout;
	uint32_t backlog; /* requests that may still wait to be read */
	uint32_t events_reported;
	uint64_t resolve_until_ns, resolve_at_ns; /* 0 = not resolving */
	bool passive; /* made by a request */
	uint32_t qkey;
	struct conn conn;
	LIST_HEAD(, cm_group) groups;
};

/* A multicast group that an identifier has joined. */
struct cm_group {
	LIST_ENTRY(cm_group) link;
	struct cm_id *id;
	uint32_t handle;
	uint64_t uid;
	uint32_t events_reported;
};

struct cm_event {
	STAILQ_ENTRY(cm_event) link;
	struct cm_id *id; /* counts it as reported */
	struct cm_id *request; /* of a connection request: what it is about */
	struct cm_group *group;
	struct rdma_ucm_event_resp resp;
};

/* One open /dev/infiniband/rdma_cm. */
struct cm_file {
	LIST_ENTRY(cm_file) link;
	uint32_t number;
	void *user; /* the caller's own */
	STAILQ_HEAD(, cm_event) events;
};

/* A route as the IP stack gives it. */
struct cm_route {
	uint8_t src[16]; /* GID form */
	uint32_t ifindex;
	bool local; /* to an address of this host */
};

struct cm_ops {
	/* Send a MAD of MAD_BYTES to QP 1 at the end of @path. */
	void (*send)(void *arg, const struct cm_path *path, const uint8_t *mad);
	/* Addresses in GID form; @src may be NULL; @ifindex 0: any. 0 or -errno. */
	int (*route)(void *arg, const uint8_t *src, const uint8_t *dst, uint32_t ifindex,
		     struct cm_route *ret);
	/* MAC of the next hop: 0, -EAGAIN (asked the network), or another -errno. */
	int (*neighbour)(void *arg, const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex,
			 uint8_t *ret_mac);
	/* Does the host have this address, on whatever netdev? */
	bool (*own_address)(void *arg, const uint8_t *addr);
	/* The file has an event to read. */
	void (*readable)(void *arg, struct cm_file *f);
};

struct cm {
	struct sim_state *state;
	const struct cm_ops *ops;
	void *arg;
	uint64_t now_ns; /* set before every call */
	uint64_t random;
	TAILQ_HEAD(, cm_id) all;
	LIST_HEAD(, cm_file) files;
	struct cm_id **handles;
	uint32_t n_handles;
	uint32_t next_file, next_comm_id, next_group;
};

/** cm_init() - @cm becomes a host without files. @seed: what PSNs, IDs and ports are drawn with. */
void cm_init(struct cm *cm, struct sim_state *state, const struct cm_ops *ops, void *arg,
	     uint64_t seed);

/** cm_fini() - close all files. */
void cm_fini(struct cm *cm);

/** cm_open() - a new file. Return: NULL without memory. */
struct cm_file *cm_open(struct cm *cm);

/** cm_close() - and everything that was made through it; peers are told. */
void cm_close(struct cm *cm, struct cm_file *f);

/**
 * cm_command() - what write() on the file does.
 * @command: RDMA_USER_CM_CMD_*. @in: structure of the command, @in_len bytes. Pointers in it are
 * not looked at: the answer goes to @out, @optval of SET_OPTION is behind the structure, and the
 * file of MIGRATE_ID is named by its number.
 * @out_len: room for the answer. @ret_len: how much of it was used; on success only.
 *
 * GET_EVENT does not wait: -EAGAIN.
 */
int cm_command(struct cm *cm, struct cm_file *f, uint32_t command, const void *in, uint32_t in_len,
	       void *out, uint32_t out_len, uint32_t *ret_len);

/**
 * cm_receive() - a MAD has arrived on QP 1, whatever it holds.
 * @back: the path to its sender, complete.
 */
void cm_receive(struct cm *cm, const struct cm_path *back, const uint8_t *bytes, size_t len);

/** cm_timers() - do what is due. Return: when something is again, 0 for never. */
uint64_t cm_timers(struct cm *cm);

/** cm_show() - a line for each identifier that a program has; "none" if there is none. What does
 * not fit is left out. */
void cm_show(const struct cm *cm, char *text, size_t size);

/* cm.c: identifiers and events */
uint32_t cm_random(struct cm *cm);
struct cm_id *id_new(struct cm *cm, struct cm_file *f, uint16_t ps, uint8_t qp_type);
void id_free(struct cm *cm, struct cm_id *id);
void id_destroy(struct cm *cm, struct cm_id *id);
int id_give_handle(struct cm *cm, struct cm_id *id);
int id_get(struct cm *cm, struct cm_file *f, uint32_t handle, struct cm_id **ret);
int event_new(struct cm *cm, struct cm_id *id, uint32_t event, int status, struct cm_event **ret);
void event_queue(struct cm *cm, struct cm_event *e);
void event_conn(struct cm_event *e, const struct mad *m);
void id_event(struct cm *cm, struct cm_id *id, uint32_t event, int status);

/* addr.c: addresses, ports, devices */
uint32_t addr_size(const union cm_addr *a);
bool addr_is_any(const union cm_addr *a);
bool addr_is_loopback(const union cm_addr *a);
void addr_to_gid(const union cm_addr *a, uint8_t *ret);
void addr_from_gid(const uint8_t *gid, uint16_t port, union cm_addr *ret);
uint16_t addr_port(const union cm_addr *a);
void addr_set_port(union cm_addr *a, uint16_t port);
bool dev_of_addr(struct cm *cm, const uint8_t *addr, uint32_t ifindex, struct cm_path *ret);
int path_to(struct cm *cm, const uint8_t *addr, struct cm_path *path);
bool path_addrs(const struct sim_state *st, const struct cm_path *path, const uint8_t **ret_src,
		const uint8_t **ret_dst);
bool dev_for_loopback(struct cm *cm, uint16_t family, struct cm_path *ret);
int port_take(struct cm *cm, struct cm_id *id);
struct cm_id *port_listener(struct cm *cm, uint16_t ps, const union cm_addr *local);

/* resolve.c: binding and resolving */
int id_bind(struct cm *cm, struct cm_id *id, const union cm_addr *a);
int id_resolve_addr(struct cm *cm, struct cm_id *id, const union cm_addr *src,
		    const union cm_addr *dst, uint32_t timeout_ms);
void id_resolve_more(struct cm *cm, struct cm_id *id);
int id_resolve_route(struct cm *cm, struct cm_id *id);
int id_listen(struct cm *cm, struct cm_id *id, uint32_t backlog);

/* connect.c: connections of identifiers */
void id_send(struct cm *cm, struct cm_id *id, const struct conn_out *out);
void id_conn_event(struct cm *cm, struct cm_id *id, const struct conn_out *out,
		   const struct mad *m);
int id_connect(struct cm *cm, struct cm_id *id, const struct rdma_ucm_conn_param *p);
int id_accept(struct cm *cm, struct cm_id *id, const struct rdma_ucm_conn_param *p);
int id_reject(struct cm *cm, struct cm_id *id, const uint8_t *data, uint8_t len, uint8_t reason);
int id_disconnect(struct cm *cm, struct cm_id *id);
void cm_requested(struct cm *cm, const struct cm_path *back, const struct mad *m);

/* attr.c: what the program is to do with its queue pair */
struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;
void id_ah_attr(const struct cm_id *id, struct ib_uverbs_ah_attr *ret);
int id_qp_attr(const struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *ret);

/* query.c */
int id_query_route(struct cm *cm, const struct cm_id *id, struct rdma_ucm_query_route_resp *ret);
int id_query(struct cm *cm, const struct cm_id *id, uint32_t option, void *out, uint32_t out_len,
	     uint32_t *ret_len);

/* mcast.c */
int id_join(struct cm *cm, struct cm_id *id, const union cm_addr *group, uint64_t uid,
	    uint32_t *ret_handle);
int group_leave(struct cm *cm, struct cm_file *f, uint32_t handle, uint32_t *ret_events);
void group_free(struct cm *cm, struct cm_group *g);

#endif
