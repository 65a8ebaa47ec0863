/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames to the netdevs. Sending on the packet sockets runs through the queueing discipline, so netem,
 * carrier and MTU act as on any traffic.
 */
#include "net_int.h"

#include <string.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

/* Messages for sendmmsg(), each a frame or a burst of them. */
struct batch {
	struct mmsghdr msgs[TX_BATCH];
	struct iovec iov[3 * TX_BATCH];
	uint32_t n_msgs, n_iov;
};

static void batch_iov(struct batch *b, void *base, size_t len)
{
	b->iov[b->n_iov++] = (struct iovec){.iov_base = base, .iov_len = len};
	b->msgs[b->n_msgs].msg_hdr.msg_iovlen++;
}

/* Return: how many frames from @i on go in one. *ret_bytes: what then follows the header, of @head_len. */
static uint32_t burst_of(struct net *n, uint32_t i, size_t head_len, size_t *ret_bytes)
{
	const struct outbound *first = &n->outbound[i];
	size_t bytes = BURST_LENGTH + first->len;
	uint32_t k = 1;

	for (; i + k < n->n_out; k++) {
		const struct outbound *o = &n->outbound[i + k];

		if (o->fd != first->fd || head_len + bytes + BURST_LENGTH + o->len > first->max_burst ||
		    !burst_joins(n->out[i], first->len, n->out[i + k], o->len, SIM_SLOT_QPN_BITS))
			break;
		bytes += BURST_LENGTH + o->len;
	}
	*ret_bytes = bytes;
	return k;
}

/* Return: how many frames it took. */
static uint32_t batch_add(struct net *n, struct batch *b, uint32_t i, bool bursts)
{
	size_t bytes, head_len = bursts ? burst_head_len(n->out[i], n->outbound[i].len) : 0;
	uint32_t k = head_len ? burst_of(n, i, head_len, &bytes) : 1;

	b->msgs[b->n_msgs] = (struct mmsghdr){.msg_hdr = {.msg_iov = &b->iov[b->n_iov]}};
	if (k == 1) {
		batch_iov(b, n->out[i], n->outbound[i].len);
	} else {
		burst_head(n->heads[i], n->out[i], n->outbound[i].len, bytes);
		batch_iov(b, n->heads[i], head_len);
		for (uint32_t j = i; j < i + k; j++) {
			struct outbound *o = &n->outbound[j];

			burst_length(o->length, o->len);
			batch_iov(b, o->length, BURST_LENGTH);
			batch_iov(b, n->out[j], o->len);
		}
	}
	b->n_msgs++;
	return k;
}

static void batch_send(struct batch *b, int fd)
{
	for (uint32_t done = 0; done < b->n_msgs;) {
		int sent = sendmmsg(fd, b->msgs + done, b->n_msgs - done, MSG_DONTWAIT | MSG_NOSIGNAL);

		done += sent > 0 ? (uint32_t)sent : 1;
	}
}

/** net_flush() - hand the collected frames to the kernel. What it does not take is lost, as on a
 * full wire. */
void net_flush(struct hca *h)
{
	struct net *n = h->net;
	bool bursts = h->n_qps >= h->many_qps;
	struct batch b;
	uint32_t i = 0;

	while (i < n->n_out) {
		int fd = n->outbound[i].fd;

		b.n_msgs = b.n_iov = 0;
		while (i < n->n_out && n->outbound[i].fd == fd)
			i += batch_add(n, &b, i, bursts);
		batch_send(&b, fd);
	}
	n->n_out = 0;
}

/** net_frame() - WIRE_MAX_FRAME bytes to build the next frame in; valid until the next net_send()
 * or net_frame(). */
uint8_t *net_frame(struct hca *h)
{
	if (h->net->n_out == TX_BATCH)
		net_flush(h);
	return h->net->out[h->net->n_out];
}

static int socket_for(struct net *n, uint32_t ifindex, const uint8_t *frame)
{
	uint16_t proto = (uint16_t)(frame[12] << 8 | frame[13]);
	struct ndev *d = ndev_find(n, ifindex);

	for (int k = 0; d && k < N_PROTO; k++)
		if (protos[k] == proto)
			return d->fds[k];
	return -1;
}

static void emit(struct hca *h, uint32_t ifindex, const uint8_t *frame, size_t len, size_t max_burst)
{
	struct net *n = h->net;
	uint8_t *dst = net_frame(h);
	int fd = socket_for(n, ifindex, frame);

	if (fd < 0)
		return;
	if (dst != frame)
		memcpy(dst, frame, len);
	n->outbound[n->n_out++] = (struct outbound){.fd = fd, .len = len, .max_burst = max_burst};
}

/** net_emit() - queue a copy of a complete frame (unless it is already the one net_frame()
 * returned). */
void net_emit(struct hca *h, uint32_t ifindex, const uint8_t *frame, size_t len)
{
	emit(h, ifindex, frame, len, 0);
}

/* Send a frame twice: once now. Return: where its bytes are for the second time. */
static uint8_t *net_emit_copy(struct hca *h, uint32_t ifindex, uint8_t *frame, size_t len)
{
	uint8_t copy[WIRE_MAX_FRAME];

	memcpy(copy, frame, len);
	net_emit(h, ifindex, frame, len);
	return memcpy(net_frame(h), copy, len);
}

static void tx_count(struct sim_port *port, size_t len)
{
	atomic_fetch_add_explicit(&port->counters.tx_packets, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&port->counters.tx_bytes, len, memory_order_relaxed);
}

/* What fits the netdev of a port for sure: packets with so much in them do, with all headers. */
static size_t max_burst_of(const struct sim_port *port)
{
	return (size_t)128 << port->active_mtu;
}

/** net_send() - finish the frame that wire_begin() started and send it on its way, if port and
 * faults let it. */
void net_send(struct hca *h, struct qp *qp, const struct path *path, struct wire_packet *p,
	      uint8_t *frame)
{
	uint32_t port = qp->type == IBV_QPT_UD ? qp->attr.port : qp->attr.av_port, delay_us = 0;
	struct sim_port *sp = &qp->dev->ports[port - 1];
	uint32_t ifindex = path->loopback ? h->net->lo : path->ifindex;
	size_t len = wire_finish(frame, &path->wire, p);

	if (sp->state != SIM_PORT_ACTIVE || qp_dead(qp))
		return;
	tx_count(sp, len);
	switch (fault_check(h, SIM_FAULT_TX, qp->dev_index, port, qp->qpn, p->opcode, p->syndrome,
			    &delay_us)) {
	case SIM_FAULT_DROP:
		return;
	case SIM_FAULT_DELAY:
		fault_delay(h, false, ifindex, frame, len, delay_us);
		return;
	case SIM_FAULT_CORRUPT:
		frame[len - 5] ^= 1;
		break;
	case SIM_FAULT_DUPLICATE:
		frame = net_emit_copy(h, ifindex, frame, len);
		break;
	default:
		break;
	}
	/* To a group: the port's own members hear it too. */
	if (path->wire.dmac[0] & 1)
		frame = net_emit_copy(h, h->net->lo, frame, len);
	emit(h, ifindex, frame, len, max_burst_of(sp));
}
