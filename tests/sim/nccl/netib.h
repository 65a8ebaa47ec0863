/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * NCCL's transport over verbs, "NET/IB", inside an unmodified libnccl.so.2. NCCL calls it through a
 * table of functions that has the form of its network plugins; the table is a local symbol of the
 * library.
 */
#ifndef NCCL_TEST_NETIB_H
#define NCCL_TEST_NETIB_H

#include <stddef.h>
#include <stdint.h>

#define NETIB_HANDLE_BYTES 128
#define NETIB_PTR_HOST     1

/* Versions of the plugin interface whose tables have the members of struct netib (nccl/src/include/plugin/net/net_v*.h). */
#define NETIB_INTERFACE_MIN 11 /* NCCL 2.28 and 2.29 */
#define NETIB_INTERFACE_MAX 12 /* NCCL 2.30 */

struct netib_config {
	int traffic_class; /* -1: none */
};

/* One device made of several. Version 11 reads 4 numbers of @devs at most, version 12 eight. */
struct netib_merged {
	int n_devs, devs[8];
};

struct netib_properties {
	char *name;
	char rest[512]; /* more than any version has */
};

/*
 * What versions NETIB_INTERFACE_MIN to NETIB_INTERFACE_MAX have in common. All return 0 or an ncclResult_t. A communicator's
 * functions are to be called by one thread at a time.
 */
struct netib {
	const char *name;
	int (*init)(void **ret_ctx, uint64_t id, struct netib_config *config, void *log,
		    void *profiler);
	int (*devices)(int *ret_n);
	int (*properties)(int dev, struct netib_properties *ret_properties);
	int (*listen)(void *ctx, int dev, void *handle, void **ret_listener);
	/* These two are called again while they give NULL back. The handle keeps the state. */
	int (*connect)(void *ctx, int dev, void *handle, void **ret_sender, void **offload);
	int (*accept)(void *listener, void **ret_receiver, void **offload);
	int (*register_memory)(void *comm, void *data, size_t size, int type, void **ret_handle);
	void *register_dmabuf;
	int (*deregister)(void *comm, void *handle);
	/* NULL back: not now. */
	int (*send)(void *sender, void *data, size_t size, int tag, void *handle, void *profiled,
		    void **ret_request);
	int (*receive)(void *receiver, int n, void **data, size_t *sizes, int *tags, void **handles,
		       void **profiled, void **ret_request);
	int (*flush)(void *receiver, int n, void **data, int *sizes, void **handles,
		     void **ret_request);
	int (*test)(void *request, int *ret_done, int *ret_sizes);
	int (*close_send)(void *sender);
	int (*close_receive)(void *receiver);
	int (*close_listen)(void *listener);
	void *device_memory, *receive_consumed;
	int (*make_device)(int *ret_dev, struct netib_merged *merged);
	int (*finalize)(void *ctx);
};

/**
 * netib_load() - the table in libnccl.so.2, which is loaded from where the dynamic linker finds it,
 * or from $NCCL_LIBRARY.
 * @ret_version: as ncclGetVersion has it, e.g. 22809
 *
 * Ends the program with 77 where there is no such library, or one whose table has another form.
 */
const struct netib *netib_load(int *ret_version);

/** netib_library() - the loaded libnccl.so.2, for dlsym(); ends the program with 77 where there is
 * none. */
void *netib_library(int *ret_version);

#endif
