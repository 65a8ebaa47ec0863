// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "traffic.h"

static void gone(struct thread *t)
{
	if (t->peer_gone)
		return;
	t->peer_gone = true;
	t->peer_gone_ns = now_ns();
	if (!t->peer_done && !t->opt->peer_may_die)
		thread_tell(t);
	if (!t->peer_done && !t->opt->peer_may_die)
		violated(NULL, "thread %u: the other end's process is gone", t->number);
}

void wire_say(struct thread *t, enum word word, const struct link_qp *q, const struct message *more)
{
	struct message m = more ? *more : (struct message){0};

	m.word = word;
	m.index = q ? q->index : 0;
	m.epoch = q ? q->epoch : 0;
	if (send(t->fd, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
		gone(t);
}

static void heard(struct thread *t, const struct message *m)
{
	struct link_qp *q = &t->qps[m->index];

	switch (m->word) {
	case WORD_STOP:
		t->stopping = true;
		return;
	case WORD_DONE:
		t->peer_done = true;
		return;
	case WORD_ADDRESS:
		q->heard.address = m->address;
		q->heard.epoch = m->epoch;
		q->heard.valid = true;
		return;
	default:
		break;
	}
	if (m->epoch != q->epoch)
		return; /* it was replaced */
	if (m->word == WORD_READY)
		q->heard_ready = true;
	if (m->word == WORD_BROKEN)
		error_told(q);
	if (m->word == WORD_REPORT) {
		q->failure.report = m->report;
		q->failure.heard = true;
		error_told(q);
	}
}

bool wire_hear(struct thread *t)
{
	struct message m;
	ssize_t got = t->peer_gone ? 0 : recv(t->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_PEEK);

	if (t->peer_gone || (got < 0 && errno == EAGAIN))
		return false;
	if (got <= 0) {
		gone(t);
		return true;
	}
	if (got < (ssize_t)sizeof(m))
		return false;
	if (recv(t->fd, &m, sizeof(m), 0) != sizeof(m) || m.index >= t->opt->n_qps)
		cannot("nonsense from the other end");
	heard(t, &m);
	return true;
}
