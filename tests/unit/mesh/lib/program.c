// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "program.h"
#include "topo_netlink.h"

int __real_mv_netlink_open(struct mv_netlink *nl);
int __wrap_mv_netlink_open(struct mv_netlink *nl);
int __wrap_mv_netlink_fill(struct mv_netlink *nl, struct mv_topo *topo);
int __wrap_mv_netlink_add_route(struct mv_netlink *nl, struct mv_topo *topo, uint32_t ifindex,
				const union ibv_gid *dgid);
unsigned int __real_mv_netlink_follow(struct mv_netlink *nl, struct mv_topo *topo);
unsigned int __wrap_mv_netlink_follow(struct mv_netlink *nl, struct mv_topo *topo);
uint64_t __real_mesh_now_ns(void);
uint64_t __wrap_mesh_now_ns(void);

int open_error, route_error;
unsigned int n_fills;
int notice_fd = -1;
uint64_t notice_ino;
_Atomic unsigned int n_follows;
uint64_t clock_ns;
static _Atomic unsigned int changed; /* MV_NETLINK_... */
static struct mv_addr untold_addr; /* likewise, of dumps */
static struct mv_addr new_addr; /* with MV_NETLINK_NET, unless its prefix is of no length */

union ibv_gid gid(const char *text)
{
	union ibv_gid g;

	assert_int_equal(mv_gid_parse(text, &g), 0);
	return g;
}

static int add_addr(struct mv_topo *topo, uint32_t ifindex, const char *text)
{
	struct mv_addr addr = {.ifindex = ifindex, .gid = gid(text), .prefix_len = 96 + 24};

	addr.prefix = addr.gid;
	return mv_topo_add_addr(topo, &addr);
}

int __wrap_mv_netlink_open(struct mv_netlink *nl)
{
	int err = open_error ? open_error : __real_mv_netlink_open(nl);

	if (err || notice_fd < 0)
		return err;
	close(nl->event_fd);
	nl->event_fd = notice_fd;
	nl->event_ino = notice_ino;
	return 0;
}

int __wrap_mv_netlink_fill(struct mv_netlink *nl, struct mv_topo *topo)
{
	const struct mv_netdev eth0 = {.ifindex = 2, .name = "eth0", .vlan_id = MV_VLAN_NONE, .up = true, .running = true};
	const struct mv_netdev vlan = {.ifindex = 3, .name = "eth0.5", .vlan_id = 5, .up = true, .running = true};
	int err;

	(void)nl;
	n_fills++;
	topo->n_netdevs = topo->n_addrs = topo->n_routes = 0;
	err = mv_topo_add_netdev(topo, &eth0);
	if (!err)
		err = mv_topo_add_netdev(topo, &vlan);
	if (!err)
		err = add_addr(topo, 2, "10.1.0.1");
	if (!err)
		err = add_addr(topo, 2, "10.9.0.1");
	if (!err)
		err = add_addr(topo, 3, "10.5.0.1");
	if (!err && untold_addr.prefix_len)
		err = mv_topo_add_addr(topo, &untold_addr);
	return err;
}

int __wrap_mv_netlink_add_route(struct mv_netlink *nl, struct mv_topo *topo, uint32_t ifindex,
				const union ibv_gid *dgid)
{
	(void)nl;
	(void)topo;
	(void)ifindex;
	(void)dgid;
	return route_error;
}

/* The socket is real: what becomes of its descriptor counts. What it tells is not of the host that is made up. */
unsigned int __wrap_mv_netlink_follow(struct mv_netlink *nl, struct mv_topo *topo)
{
	unsigned int seen = atomic_exchange(&changed, 0);

	n_follows++;
	if (notice_fd >= 0)
		return seen;
	if (topo && seen & MV_NETLINK_NET && new_addr.prefix_len)
		assert_int_equal(mv_topo_add_addr(topo, &new_addr), 0);
	new_addr.prefix_len = 0;
	return seen | __real_mv_netlink_follow(nl, NULL);
}

uint64_t __wrap_mesh_now_ns(void)
{
	return clock_ns ? clock_ns : __real_mesh_now_ns();
}

/* The program and its device. */

struct fakeverbs fake;
struct ibv_device device = {.name = "mlx5_0", .transport_type = IBV_TRANSPORT_IB};

void set_gid(size_t at, uint32_t index, const char *text, uint32_t ifindex)
{
	fake.state->gids[at] = (struct fake_gid){
		.gid = gid(text), .port_num = 1, .index = index, .type = IBV_GID_TYPE_ROCE_V2, .ifindex = ifindex};
	if (fake.state->n_gids <= at)
		fake.state->n_gids = at + 1;
}

void start(const char *library, const struct fake_config *config)
{
	struct mesh_library lib;
	char why[256];

	fake = fake_open(library);
	fake.configure(config);
	set_gid(0, 1, "10.1.0.1", 2);
	set_gid(1, 2, "10.5.0.1", 3);
	fake.register_lower("mlx5");

	mv_config_defaults(&mesh_root.config);
	mesh_root.config.survive = MV_SURVIVE_OFF; /* a test says where connections at work move */
	mv_log_init(&mesh_root.log, "/dev/null", MV_LOG_DEBUG);
	assert_int_equal(mesh_library_resolve(&lib, fake.handle, fake.anchor, why, sizeof(why)), 0);
	mesh_load(&mesh_root, &lib);
}

const struct fake_config usual = {.n_ops = 76, .seed = 11, .priv_front = 24, .front = 16};

/* sgid_index with which the lower provider came to modify the QP, or -errno. */
int connect_from(struct ibv_context *context, unsigned int index, const char *to)
{
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int err;

	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.sgid_index = (uint8_t)index;
	attr.ah_attr.grh.dgid = gid(to);
	err = fake.modify_qp(&qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
	assert_int_equal(attr.ah_attr.grh.sgid_index, index); /* the program's own attributes stay */
	return err ? -err : fake.state->modify_index;
}

int address_from(struct ibv_context *context, unsigned int index, const char *to)
{
	struct ibv_pd pd = {.context = context};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	attr.grh.sgid_index = (uint8_t)index;
	attr.grh.dgid = gid(to);
	return fake.create_ah(&pd, &attr) ? fake.state->ah_index : -errno;
}

void flap(void)
{
	move_gid();
	announce_change();
}

void move_gid(void)
{
	set_gid(0, 4, "10.1.0.1", 2);
}

void announce_change(void)
{
	changed = MV_NETLINK_NET | MV_NETLINK_ROUTES | MV_NETLINK_LOST;
}

void announce_addr(uint32_t ifindex, const char *text)
{
	new_addr = (struct mv_addr){.ifindex = ifindex, .gid = gid(text), .prefix = gid(text), .prefix_len = 96 + 24};
	changed = MV_NETLINK_NET;
}

void add_untold_addr(uint32_t ifindex, const char *text)
{
	untold_addr = (struct mv_addr){.ifindex = ifindex, .gid = gid(text), .prefix = gid(text), .prefix_len = 96 + 24};
}

void announce_route(void)
{
	changed = MV_NETLINK_ROUTES;
}

void run(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		body();
		exit(0); /* not _exit(): leak checking */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

