/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_UCMA_HOSTS_H
#define UNIT_UCMA_HOSTS_H

/* What cmocka.h wants before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/ib_user_verbs.h>

#include "cm.h"

/*
 * Programs of two hosts, at the commands of /dev/infiniband/rdma_cm; the network between is a queue
 * of MADs. One thread calls these functions. Functions that return an int return 0 or -errno, as
 * the command does; others fail the test where their command fails. Files (struct cm_file) are
 * closed by tear_down().
 */

#define SECOND  1000000000ull /* in nanoseconds */
#define ON_WIRE 32

struct host {
	struct cm cm;
	struct sim_state *state;
	uint8_t n;
	int neighbour; /* what asking for one gives */
	bool removed; /* the addresses of device 1 */
	unsigned int readable;
	struct host *peer;
	struct {
		struct cm_path path;
		uint8_t bytes[MAD_BYTES];
	} wire[ON_WIRE]; /* sent */
	int n_wire;
};

extern struct host *hosts; /* two */

/* A client and a server that listens. */
struct both {
	struct host *a, *b; /* client, server */
	struct cm_file *fa, *fb;
	uint32_t ida, listener, idb;
};

/** set_up, tear_down - of each test: two hosts with two devices each */
int set_up(void **state);
int tear_down(void **state);
/** address - device @dev of host @n has 10.dev.0.n, and another netdev 192.0.2.n; @gid: 16 bytes */
void address(uint8_t dev, uint8_t n, uint8_t *gid);
/** exchange - what each host sent reaches the other; until nobody says anything more */
void exchange(void);

/** run - a command with its input and output, whose sizes are in bytes */
int run(struct host *h, struct cm_file *f, uint32_t cmd, const void *in, size_t in_len, void *out,
	size_t out_len);
uint32_t new_id(struct host *h, struct cm_file *f, uint16_t ps, uint64_t uid);
int bind_to(struct host *h, struct cm_file *f, uint32_t id, const char *text, uint16_t port);
int listen_at(struct host *h, struct cm_file *f, uint32_t id, uint32_t backlog);
int resolve(struct host *h, struct cm_file *f, uint32_t id, const char *text, uint16_t port);
int route(struct host *h, struct cm_file *f, uint32_t id);
int connect_to(struct host *h, struct cm_file *f, uint32_t id, const char *data);
int accept_it(struct host *h, struct cm_file *f, uint32_t id, uint64_t uid);
/** destroy - returns how many events the id reported */
uint32_t destroy(struct host *h, struct cm_file *f, uint32_t id);
struct ib_uverbs_qp_attr attr_of(struct host *h, struct cm_file *f, uint32_t id, uint32_t qp_state);
/** sockaddr - of an address in IPv4, and a port in host's byte order */
struct sockaddr_in sockaddr(const char *text, uint16_t port);

/** expect - returns the next event, which is of that kind and for that id */
struct rdma_ucm_event_resp expect(struct host *h, struct cm_file *f, uint32_t event, uint64_t uid);
/** quiet - there is no event */
void quiet(struct host *h, struct cm_file *f);

/** prepare - resolved at the client, listening at the server; @text: the server's address */
struct both prepare(uint16_t ps, const char *text);
/** connect_both - from there to ESTABLISHED at the server */
void connect_both(struct both *w);

#endif
