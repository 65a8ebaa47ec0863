// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "helper.h"

#include <errno.h>

#include "proof.h"

int (*mesh_helper_begin)(bool at_once);

/* @later: the helper thread flushes at the end of its turn. */
static int send_frame(const struct mv_frame *frame, bool later)
{
	struct mesh_helper *helper = atomic_load_explicit(&mesh_root.process->thread, memory_order_acquire);
	bool unregister = frame->type == MV_FRAME_UNREGISTER_QP, waits = false, self;
	int err = -ENOTCONN, cancel;

	if (!helper)
		return err;
	cancel = mesh_cancel_off();
	mesh_lock(&helper->link_lock);
	self = helper->runs && pthread_equal(helper->self, pthread_self());
	if (helper->link.fd >= 0)
		err = mesh_agentlink_send(&helper->link, frame); /* a lost frame stays lost: callers that need an answer repeat it */
	if (unregister && err == -EAGAIN)
		waits = mesh_pending_unregister_add(&helper->pending_unregister, frame);
	if (helper->link.fd >= 0 && !later && !self)
		waits |= mesh_agentlink_flush(&helper->link) == -EAGAIN && unregister;
	mesh_unlock(&helper->link_lock);
	/* The helper thread may be asleep for good. On itself no wake-up is needed: it looks at the end of its turn. */
	if (waits && !self)
		mesh_waker_wake(&helper->waker);
	mesh_cancel_restore(cancel);
	return err;
}

int mesh_thread_frame(const struct mv_frame *frame)
{
	return send_frame(frame, false);
}

static void send_message(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, bool later)
{
	struct mv_frame frame = {.type = MV_FRAME_SEND, .qpn = msg->to.qpn, .dgid = msg->to.gid};
	struct mv_ctl_keys sealed_keys = {0};
	struct mv_ctl_msg sealed = *msg;

	if (keys)
		sealed_keys = *keys;
	mv_proof_seal(&sealed, &sealed_keys);
	frame.len = (uint16_t)mv_ctl_encode_keys(&sealed, &sealed_keys, frame.payload);
	send_frame(&frame, later);
}

void mesh_thread_send(const struct mv_ctl_msg *msg)
{
	send_message(msg, NULL, false);
}

void mesh_thread_send_later(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys)
{
	send_message(msg, keys, true);
}

bool mesh_thread_has_agent(void)
{
	struct mesh_helper *helper = atomic_load_explicit(&mesh_root.process->thread, memory_order_acquire);
	int cancel = mesh_cancel_off();
	bool has = false;

	if (helper) {
		mesh_lock(&helper->link_lock);
		has = helper->link.fd >= 0;
		mesh_unlock(&helper->link_lock);
	}
	mesh_cancel_restore(cancel);
	return has;
}

void mesh_thread_tell(void)
{
	if (!atomic_load_explicit(&mesh_root.process->thread, memory_order_acquire))
		mesh_helper_begin(true);
}

int mesh_thread_wake(bool urgent)
{
	struct mesh_helper *helper = atomic_load_explicit(&mesh_root.process->thread, memory_order_acquire);

	if (!helper)
		return mesh_helper_begin(false);
	if (urgent || atomic_load_explicit(&helper->asleep, memory_order_seq_cst))
		mesh_waker_wake(&helper->waker);
	return 0;
}
