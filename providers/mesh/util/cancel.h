/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CANCEL_H
#define MESH_CANCEL_H

#include <pthread.h>

/*
 * A program may cancel a thread in the middle of a verbs call. The provider's calls pass few cancellation points. The plugin's calls pass
 * some with a lock held, so they put cancellation off until they are done.
 */
static inline int mesh_cancel_off(void)
{
	int old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	return old;
}

static inline void mesh_cancel_restore(int old)
{
	pthread_setcancelstate(old, &old);
}

#endif
