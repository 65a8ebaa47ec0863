// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "conn.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum stage { START, TELL, HEAR, CONNECT, READY, DONE };

/* Part of a message over a socket that does not block: true when all of it is through. */
static bool move_bytes(struct end *end, void *buf, size_t len, bool out)
{
	while (end->moved < len) {
		char *at = (char *)buf + end->moved;
		ssize_t n = out ? send(end->fd, at, len - end->moved, MSG_NOSIGNAL)
				: recv(end->fd, at, len - end->moved, 0);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return false;
		if (n <= 0)
			die(n < 0 ? errno : 0, "the %s went away while connecting",
			    end->is_sender ? "receiver" : "sender");
		end->moved += (size_t)n;
	}
	end->moved = 0;
	return true;
}

static struct ibv_mr *register_on(struct net *net, int d, void *addr, size_t len)
{
	struct ibv_mr *mr = lib.reg_mr_iova2(net->devs[d].pd, addr, len, (uintptr_t)addr,
					     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						     IBV_ACCESS_REMOTE_READ);

	if (!mr)
		die(errno, "registering %zu bytes on %s", len, net->devs[d].name);
	return mr;
}

static struct ibv_qp *make_qp(struct net *net, struct end *end, int d, unsigned int access,
			      bool receives)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq[d],
		.recv_cq = end->cq[d],
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 2 * MAX_REQS * (MAX_RECVS + 1),
			.max_recv_wr = receives || !net->lean ? MAX_REQS : 0,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = MAX_RECVS * sizeof(struct cts)},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	struct ibv_qp *qp = lib.create_qp(net->devs[d].pd, &init);
	int err;

	if (!qp)
		die(errno, "queue pair on %s", net->devs[d].name);
	err = lib.modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err)
		die(err, "modify QP to INIT on %s", net->devs[d].name);
	return qp;
}

static void make_qps(struct net *net, struct end *end)
{
	end->mine.n_devs = (uint32_t)net->n_devs;
	end->mine.n_qps = (uint32_t)net->n_qps;
	for (int d = 0; d < net->n_devs; d++) {
		end->cq[d] = lib.create_cq(net->devs[d].ctx, 2 * MAX_REQS * (net->n_qps + 1), NULL,
					   NULL, 0);
		if (!end->cq[d])
			die(errno, "CQ on %s", net->devs[d].name);
		end->mine.devs[d].gid = net->devs[d].gid;
		end->mine.devs[d].lid = net->devs[d].port.lid;
		end->mine.devs[d].mtu = (uint32_t)net->devs[d].port.active_mtu;
	}
	for (int q = 0; q < net->n_qps; q++) {
		end->qp[q] = make_qp(net, end, q % net->n_devs, IBV_ACCESS_REMOTE_WRITE,
				     !end->is_sender);
		end->mine.qps[q].qpn = end->qp[q]->qp_num;
		end->mine.qps[q].dev = (uint32_t)(q % net->n_devs);
	}
}

/* What the other side writes to, and what small things are sent from. */
static void register_own(struct net *net, struct end *end)
{
	void *theirs = end->is_sender ? (void *)end->send.cts : (void *)end->recv.sizes;
	void *ours = end->is_sender ? (void *)end->send.sizes : (void *)end->recv.cts;
	size_t cts_bytes = sizeof(end->send.cts), sizes_bytes = sizeof(end->send.sizes);

	for (int d = 0; d < net->n_devs; d++) {
		end->mr[d] = register_on(net, d, theirs, end->is_sender ? cts_bytes : sizes_bytes);
		end->own_mr[d] =
			register_on(net, d, ours, end->is_sender ? sizes_bytes : cts_bytes);
		end->mine.devs[d].rkey = end->mr[d]->rkey;
	}
	end->mine.addr = (uintptr_t)theirs;
}

/* On InfiniBand by LID, as NCCL does within a subnet. */
static void to_rts(struct ibv_qp *qp, const struct dev *dev, const union ibv_gid *dgid, uint32_t dlid, uint32_t qpn, uint32_t mtu)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)mtu,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = dev->port.link_layer != IBV_LINK_LAYER_INFINIBAND,
			    .port_num = 1,
			    .dlid = (uint16_t)dlid,
			    .grh = {.dgid = *dgid,
				    .sgid_index = (uint8_t)dev->gid_index,
				    .hop_limit = 255}},
	};
	int err = lib.modify_qp(qp, &attr,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER);

	if (err)
		die(err, "modify QP to RTR on %s", dev->name);
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 20;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	err = lib.modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (err)
		die(err, "modify QP to RTS on %s", dev->name);
}

static void connect_qps(struct net *net, struct end *end)
{
	if (end->theirs.n_qps != end->mine.n_qps || end->theirs.n_devs > MAX_DEVS)
		die(0, "the other side has %u queue pairs", end->theirs.n_qps);
	for (int q = 0; q < net->n_qps; q++) {
		struct dev *dev = &net->devs[q % net->n_devs];
		uint32_t there = end->theirs.qps[q].dev, mtu = (uint32_t)dev->port.active_mtu;

		if (mtu > end->theirs.devs[there].mtu)
			mtu = end->theirs.devs[there].mtu;
		to_rts(end->qp[q], dev, &end->theirs.devs[there].gid, end->theirs.devs[there].lid, end->theirs.qps[q].qpn, mtu);
	}
}

static void make_flush(struct net *net, struct end *end)
{
	for (int d = 0; d < net->n_devs; d++) {
		end->flush_mr[d] =
			register_on(net, d, &end->flush_target, sizeof(end->flush_target));
		end->flush_qp[d] =
			make_qp(net, end, d, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, false);
		to_rts(end->flush_qp[d], &net->devs[d], &net->devs[d].gid, net->devs[d].port.lid, end->flush_qp[d]->qp_num,
		       (uint32_t)net->devs[d].port.active_mtu);
	}
}

void end_init(struct end *end, int fd, bool is_sender)
{
	end->fd = fd;
	end->is_sender = is_sender;
	end->stage = is_sender ? START : HEAR;
}

static bool sender_step(struct net *net, struct end *end)
{
	uint32_t ready = 1;

	switch (end->stage) {
	case START:
		make_qps(net, end);
		register_own(net, end);
		end->stage = TELL;
		return true;
	case TELL:
		if (!move_bytes(end, &end->mine, sizeof(end->mine), true))
			return false;
		end->stage = HEAR;
		return true;
	case HEAR:
		if (!move_bytes(end, &end->theirs, sizeof(end->theirs), false))
			return false;
		connect_qps(net, end);
		end->stage = READY;
		return true;
	case READY:
		if (move_bytes(end, &ready, sizeof(ready), true))
			end->stage = DONE;
		return end->stage == DONE;
	default:
		return false;
	}
}

static bool receiver_step(struct net *net, struct end *end)
{
	uint32_t ready = 0;

	switch (end->stage) {
	case HEAR:
		if (!move_bytes(end, &end->theirs, sizeof(end->theirs), false))
			return false;
		make_qps(net, end);
		end->stage = CONNECT;
		return true;
	case CONNECT: /* the sender's queue pairs are still in INIT */
		connect_qps(net, end);
		make_flush(net, end);
		register_own(net, end);
		end->stage = TELL;
		return true;
	case TELL:
		if (!move_bytes(end, &end->mine, sizeof(end->mine), true))
			return false;
		end->stage = READY;
		return true;
	case READY:
		if (move_bytes(end, &ready, sizeof(ready), false))
			end->stage = DONE;
		return end->stage == DONE;
	default:
		return false;
	}
}

bool end_progress(struct net *net, struct end *end)
{
	/* One step at a time: the other end of this process gets its turn in between. */
	if (end->is_sender)
		sender_step(net, end);
	else
		receiver_step(net, end);
	return end->stage == DONE;
}

void end_say_done(struct end *end)
{
	char byte = 1;

	while (!move_bytes(end, &byte, 1, true))
		;
}

void end_hear_done(struct end *end)
{
	struct pollfd ready = {.fd = end->fd, .events = POLLIN};
	char byte;

	while (!move_bytes(end, &byte, 1, false))
		poll(&ready, 1, 100);
}

static void destroy_qp(struct ibv_qp *qp)
{
	int err = lib.destroy_qp(qp);

	if (err)
		die(err, "destroy_qp");
}

static void deregister(struct ibv_mr *mr)
{
	int err = lib.dereg_mr(mr);

	if (err)
		die(err, "dereg_mr");
}

void end_close(struct net *net, struct end *end)
{
	for (int q = 0; q < net->n_qps; q++)
		destroy_qp(end->qp[q]);
	for (int d = 0; d < net->n_devs; d++) {
		int err;

		if (end->flush_qp[d]) {
			destroy_qp(end->flush_qp[d]);
			deregister(end->flush_mr[d]);
		}
		deregister(end->mr[d]);
		deregister(end->own_mr[d]);
		err = lib.destroy_cq(end->cq[d]);
		if (err)
			die(err, "destroy_cq");
	}
	close(end->fd);
}
