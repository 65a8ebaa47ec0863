// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Whose queue pair is it? Runs in a guest, where a real kernel answers.
 *
 *	lab-owner ask DEVICE QPN	prints the pid that the kernel names, as the agent asks for it
 *	lab-owner squat DEVICE QPN	an attacker: makes a queue pair of its own, then registers it, that of another process, and a hundred
 *					numbers that nobody has yet; prints which the agent refuses, and which not
 *	lab-owner thread DEVICE		makes a queue pair in a thread that ends, registers it, and prints whether the agent refuses it
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "resqp.h"

#define N_FUTURE 100

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static int ask(const char *device, uint32_t qpn)
{
	struct md_resqp resqp = {.fd = -1};

	md_resqp_open(&resqp);
	printf("owner %d\n", (int)md_resqp_owner(&resqp, device, qpn, 1));
	md_resqp_close(&resqp);
	return 0;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	if (!context)
		die(name);
	return context;
}

static struct ibv_pd *pd;
static struct ibv_cq *cq;

/* In INIT, as a program's that has not been told of its peer yet. */
static void *make_qp(void *arg)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("a queue pair");
	*(uint32_t *)arg = qp->qp_num;
	return NULL;
}

static void open_all(const char *device)
{
	struct ibv_context *context = open_device(device);

	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2, NULL, NULL, 0);
	if (!pd || !cq)
		die("a protection domain and a completion queue");
}

static void put(int fd, const struct mv_frame *frame)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);

	if (send(fd, buf, len, 0) != (ssize_t)len)
		die("send");
}

static int join_agent(void)
{
	const struct mv_frame hello = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION, .len = 5, .payload = "owner"};
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "/run/meshverbs/agent"};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
		die(at.sun_path);
	put(fd, &hello);
	return fd;
}

static void register_qp(int fd, const char *device, uint32_t qpn)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .qpn = qpn};

	snprintf(frame.device, sizeof(frame.device), "%s", device);
	put(fd, &frame);
}

/* Reads until the agent has refused @last. Return: how many it has refused; @ret_own: whether @own is among them. */
static unsigned int refusals(int fd, uint32_t own, uint32_t last, bool *ret_own)
{
	const struct timeval patience = {.tv_sec = 60};
	uint8_t buf[MV_PACK_MAX_BYTES];
	unsigned int n = 0;
	struct mv_frame frame = {.type = 0};
	ssize_t len;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	*ret_own = false;
	while (frame.type != MV_FRAME_REFUSED || frame.qpn != last) {
		len = recv(fd, buf, sizeof(buf), 0);
		if (len <= 0)
			die("the agent");
		if (mv_frame_decode(buf, (size_t)len, &frame) || frame.type != MV_FRAME_REFUSED)
			continue;
		n++;
		*ret_own |= frame.qpn == own;
	}
	return n;
}

#define NO_QP 0xfffffe /* asked for last: what comes before has been answered */

static int squat(const char *device, uint32_t victim)
{
	uint32_t own;
	bool own_refused;
	unsigned int n;
	int fd;

	open_all(device);
	make_qp(&own);
	fd = join_agent();
	register_qp(fd, device, own);
	register_qp(fd, device, victim);
	for (uint32_t i = 1; i <= N_FUTURE; i++)
		register_qp(fd, device, own + i);
	register_qp(fd, device, NO_QP);
	n = refusals(fd, own, NO_QP, &own_refused);
	printf("pid %d own %s others refused %u of %u\n", (int)getpid(), own_refused ? "refused" : "registered", n - own_refused - 1,
	       N_FUTURE + 1);
	return own_refused || n != N_FUTURE + 2;
}

static int threaded(const char *device)
{
	pthread_t thread;
	uint32_t own;
	bool own_refused;
	int fd;

	open_all(device);
	if (pthread_create(&thread, NULL, make_qp, &own) || pthread_join(thread, NULL))
		die("a thread");
	fd = join_agent();
	register_qp(fd, device, own);
	register_qp(fd, device, NO_QP);
	refusals(fd, own, NO_QP, &own_refused);
	printf("own %s\n", own_refused ? "refused" : "registered");
	return own_refused;
}

int main(int argc, char **argv)
{
	uint32_t qpn = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : 0;

	if (argc > 3 && !strcmp(argv[1], "ask"))
		return ask(argv[2], qpn);
	if (argc > 3 && !strcmp(argv[1], "squat"))
		return squat(argv[2], qpn);
	if (argc > 2 && !strcmp(argv[1], "thread"))
		return threaded(argv[2]);
	fprintf(stderr, "usage: lab-owner ask|squat DEVICE QPN | thread DEVICE\n");
	return 2;
}
