// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "lookup.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agentlink.h"
#include "directory_client.h"

#define MS	 1000000ull
#define AGAIN_NS (5000 * MS) /* the agent does not ask for such an address again earlier either */
#define VAIN_NS	 (60000 * MS)
#define N_STRANGERS 64 /* remembered addresses that were asked for in vain */
#define REPEAT_MS 100 /* a query may get lost */

/* ---- unsuccessful look-ups -------------------------------------------------------------------- */

/* Guarded by process->strangers.lock; zero is empty. */
struct mesh_strangers {
	unsigned int next; /* next place to reuse */
	struct {
		union ibv_gid gid;
		uint64_t until_ns; /* not asked for before */
	} known[N_STRANGERS];
	unsigned int n_vain; /* unsuccessful waits for working paths, since vain_ns */
	uint64_t vain_ns; /* time of the first of them */
	uint64_t deaf_until_ns; /* the agent does not know LOOK, and ended the connection with a log line: do not ask before */
};

/* Called with process->strangers.lock held. NULL: no memory, so do not ask. */
static struct mesh_strangers *strangers(void)
{
	if (!mesh_root.process->strangers.all)
		mesh_root.process->strangers.all = calloc(1, sizeof(*mesh_root.process->strangers.all));
	return mesh_root.process->strangers.all;
}

static bool is_vain(const union ibv_gid *gid, enum mesh_lookup_for what, uint64_t now_ns)
{
	struct mesh_strangers *of;
	bool vain;
	size_t i;

	mesh_lock(&mesh_root.process->strangers.lock);
	of = strangers();
	vain = !of || of->deaf_until_ns > now_ns;
	if (of && now_ns - of->vain_ns >= VAIN_NS)
		of->n_vain = 0;
	if (of && what == MESH_LOOKUP_WORKS)
		vain |= of->n_vain >= MESH_LOOKUPS_VAIN;
	for (i = 0; i < N_STRANGERS && !vain; i++)
		vain = of->known[i].until_ns > now_ns && mv_gid_equal(&of->known[i].gid, gid);
	mesh_unlock(&mesh_root.process->strangers.lock);
	return vain;
}

/* @ended: the agent has ended the connection. */
static void note_vain(const union ibv_gid *gid, enum mesh_lookup_for what, bool ended, uint64_t now_ns)
{
	struct mesh_strangers *of;

	mesh_lock(&mesh_root.process->strangers.lock);
	of = mesh_root.process->strangers.all;
	of->known[of->next].gid = *gid;
	of->known[of->next].until_ns = now_ns + AGAIN_NS;
	of->next = (of->next + 1) % N_STRANGERS;
	if (ended)
		of->deaf_until_ns = now_ns + VAIN_NS;
	if (what == MESH_LOOKUP_WORKS && !of->n_vain++)
		of->vain_ns = now_ns;
	mesh_unlock(&mesh_root.process->strangers.lock);
}

/* ---- asking ----------------------------------------------------------------------------------- */

static bool put(int fd, const struct mv_frame *frame)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);

	return send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

static bool put_register(int fd)
{
	struct mv_frame hello = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION};

	hello.len = (uint16_t)snprintf((char *)hello.payload, sizeof(hello.payload), "%s", program_invocation_short_name);
	return put(fd, &hello);
}

/* Read the agent's frames. Return: false: the agent does not look for that address, or has ended the connection (*@ret_ended). */
static bool still_looks(int fd, const union ibv_gid *dgid, bool *ret_ended)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	struct mv_frame frame;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		if (!mv_frame_decode(buf, (size_t)n, &frame) && frame.type == MV_FRAME_LOOKED && mv_gid_equal(&frame.dgid, dgid))
			return false;
	*ret_ended = !n || (errno != EAGAIN && errno != EINTR);
	return !*ret_ended;
}

/*
 * Wait until the directory has the address; the agent publishes it before it says so. Return: has the agent ended the connection?
 */
static bool wait_for(int fd, const union ibv_gid *dgid, bool routed, uint64_t until_ns)
{
	const struct mv_frame look = {.type = MV_FRAME_LOOK, .dgid = *dgid};
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	uint64_t now_ns = mesh_now_ns(), repeat_ns = 0;
	bool ended = false;

	for (; now_ns < until_ns && mesh_directory_is_stranger(dgid, routed); now_ns = mesh_now_ns()) {
		if (now_ns >= repeat_ns && !put(fd, &look))
			break;
		if (now_ns >= repeat_ns)
			repeat_ns = now_ns + REPEAT_MS * MS;
		poll(&poll_fd, 1, (int)(((repeat_ns < until_ns ? repeat_ns : until_ns) - now_ns) / MS) + 1);
		if (!still_looks(fd, dgid, &ended))
			break;
	}
	return ended;
}

bool mesh_lookup(const union ibv_gid *dgid, enum mesh_lookup_for what)
{
	uint64_t now_ns = mesh_now_ns();
	int saved_errno = errno, fd;
	bool known, ended = false, routed = what == MESH_LOOKUP_WORKS;

	if (is_vain(dgid, what, now_ns))
		return false;
	fd = mesh_agentlink_connect(mesh_root.run_dir);
	if (fd >= 0) {
		if (put_register(fd))
			ended = wait_for(fd, dgid, routed, now_ns + (what == MESH_LOOKUP_BROKEN ? 250 : 100) * MS);
		close(fd);
	}
	known = !mesh_directory_is_stranger(dgid, routed);
	if (!known)
		note_vain(dgid, what, ended, mesh_now_ns());
	errno = saved_errno;
	return known;
}
