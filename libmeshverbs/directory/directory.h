/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_DIRECTORY_H
#define MV_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "gid.h"

/*
 * The directory: hosts, the rails of each host, the GIDs of each rail, and the own rails on which a remote rail's
 * beacons are heard. The agent writes it; processes of the host and the tool read it.
 *
 * The directory is one immutable file (RUN_DIR/directory) that readers map. For a change, the agent writes a new file,
 * renames it to the same name, and then sets @superseded in the old one. So readers never see a half-written file, need
 * no lock, and detect a change by one load from their mapping. Only @superseded and @heartbeat_ns of a published file
 * change.
 *
 * Host 0 is this host. Integers are in host byte order, because the file never leaves the host.
 */

#define MV_DIRECTORY_FILE "directory"
#define MV_DIRECTORY_MAGIC 0x3130726964766dull /* "mvdir01" */

/* The agent writes its heartbeat ten times as often. */
#define MV_DIRECTORY_STALE_NS (5 * 1000000000ull)

struct mv_host_id {
	uint8_t bytes[16];
};

/** mv_host_id_is_zero - no host has that id; it stands for a host that is not known */
static inline bool mv_host_id_is_zero(const struct mv_host_id *id)
{
	static const struct mv_host_id zero;

	return !memcmp(id, &zero, sizeof(zero));
}

/* Header of the file; the arrays follow, each aligned to 8 bytes. */
struct mv_dir_header {
	uint64_t magic;
	uint32_t version; /* 1 */
	uint32_t size_bytes; /* size of the whole file */
	_Atomic uint64_t heartbeat_ns; /* CLOCK_BOOTTIME of the agent's last sign of life */
	_Atomic uint32_t superseded; /* not 0: there is a newer file, map it */
	uint32_t agent_pid;
	uint64_t generation; /* grows with each file of one agent */
	uint32_t n_hosts, n_rails, n_gids, n_links;
	uint32_t hosts_at, rails_at, gids_at, order_at, links_at; /* byte offsets in the file */
};

enum mv_dir_host_flags {
	/*
	 * Messages from that host are authentic: sealed with the fleet key, or with a pairwise key after the host's
	 * identity was pinned. Also set for host 0.
	 */
	MV_PEER_AUTHENTICATED = 1,
	/*
	 * The host is known by answers to queries only: no beacon of it has arrived on a link of ours, so anybody on
	 * the way may have forged them.
	 */
	MV_PEER_ROUTED = 2,
};

struct mv_dir_host {
	struct mv_host_id id;
	char name[64]; /* NUL-terminated, for people; no control characters */
	uint32_t first_rail, n_rails;
	uint32_t agent_version; /* MV_CTL_VERSION of its agent; 0: from the hosts file, no agent heard */
	uint32_t flags; /* enum mv_dir_host_flags */
	uint64_t heard_ns; /* CLOCK_BOOTTIME; host 0: when the file was written */
};

enum mv_dir_rail_flags {
	MV_RAIL_UP = 1, /* port active, netdev running, not drained */
	MV_RAIL_EXCLUDED = 2, /* excluded by the host's administrator: no moved connection uses it */
	MV_RAIL_DRAINED = 4, /* drained by the host's administrator, so not up */
	MV_RAIL_QUALIFIED = 8, /* host 0 only: its device has qualified, with the library of mv_dir_gid.library */
};

struct mv_dir_rail {
	char device[IBV_SYSFS_NAME_MAX];
	char netdev[16]; /* "": none */
	uint32_t host;
	uint32_t first_gid, n_gids;
	uint32_t rate_mbps; /* 0: unknown */
	int32_t numa_node; /* -1: unknown */
	uint16_t lid;
	uint16_t mtu_bytes; /* largest RDMA path MTU, 256 .. 4096; 0: unknown */
	uint8_t port;
	uint8_t link_layer; /* IBV_LINK_LAYER_... */
	uint8_t flags; /* enum mv_dir_rail_flags */
	uint8_t lmc; /* InfiniBand: the port has 2^lmc LIDs, from @lid on (IBTA vol. 1, 4.1.3); 0 .. 7 */
};

#define MV_DIR_INDEX_NONE UINT32_MAX
/*
 * Flags in mv_dir_gid.index, which are free because GID tables have 65,536 entries at most: mv_dir_gid_is_unmet(),
 * mv_dir_gid_is_unanswered().
 */
#define MV_DIR_INDEX_UNMET      (1u << 31)
#define MV_DIR_INDEX_UNANSWERED (1u << 30)

struct mv_dir_gid {
	union ibv_gid gid;
	uint32_t rail;
	uint32_t index; /* index in its host's table when last read, possibly outdated: look it up by value. Or MV_DIR_INDEX_NONE */
	uint16_t vlan_id; /* MV_VLAN_NONE: none */
	uint8_t type; /* enum mv_gid_type; MV_GID_TYPE_UNKNOWN: no path uses it */
	uint8_t prefix_len; /* bits of the GID (IPv4: 96 + n) that the address's on-link prefix has; 0: not known */
	union {
		/* host 0, on a rail with MV_RAIL_QUALIFIED: mv_directory_library() of the library with which it qualified; else 0 */
		uint32_t library;
		/*
		 * Other hosts: mask of the first MV_DIR_ROUTED_RAILS rails of host 0: a route leads to the GID out of
		 * that rail's netdev, from a global RoCE v2 address without VLAN. Only for hosts that have answered a
		 * query across routers.
		 */
		uint32_t routed_from;
	};
};

#define MV_DIR_ROUTED_RAILS 32

/**
 * mv_dir_gid_is_unmet - is the GID in a subnet of this host, but its host was never heard on that link?
 *
 * The agent sets the bit, never with a fleet key. The bit is part of the index so that older plugins can read the file.
 */
static inline bool mv_dir_gid_is_unmet(const struct mv_dir_gid *gid)
{
	return gid->index != MV_DIR_INDEX_NONE && gid->index & MV_DIR_INDEX_UNMET;
}

/** mv_dir_gid_is_unanswered - is the GID in no subnet of this host, and its host has never answered there? */
static inline bool mv_dir_gid_is_unanswered(const struct mv_dir_gid *gid)
{
	return gid->index != MV_DIR_INDEX_NONE && gid->index & MV_DIR_INDEX_UNANSWERED;
}

/**
 * mv_dir_gid_is_in_doubt - may the address belong to a host without an agent, instead of the host that announces it?
 * @routed: a route leads from this host to the address
 *
 * Without meshverbs, a new connection to the address would go out on a link of this host, or by the route, and might
 * reach a host without an agent. So a new connection does not take the announcing host for its peer.
 */
static inline bool mv_dir_gid_is_in_doubt(const struct mv_dir_gid *gid, bool routed)
{
	return mv_dir_gid_is_unmet(gid) || (routed && mv_dir_gid_is_unanswered(gid));
}

/** mv_dir_gid_index - the index without flags; MV_DIR_INDEX_NONE stays */
static inline uint32_t mv_dir_gid_index(const struct mv_dir_gid *gid)
{
	return gid->index == MV_DIR_INDEX_NONE ? gid->index : gid->index & ~(MV_DIR_INDEX_UNMET | MV_DIR_INDEX_UNANSWERED);
}

/** mv_dir_gid_in_grace - has the host lost the GID, but is still known by it (meshverbsd/local/gid_grace.h)? */
static inline bool mv_dir_gid_in_grace(const struct mv_dir_gid *gid)
{
	return gid->index == MV_DIR_INDEX_NONE && gid->type == MV_GID_TYPE_UNKNOWN;
}

/** mv_dir_gid_may_be_routed - is it an address that routers forward to, on a netdev without VLAN? Also true for GIDs in grace. */
static inline bool mv_dir_gid_may_be_routed(const struct mv_dir_gid *gid)
{
	enum mv_gid_family family = mv_gid_family(&gid->gid);

	return (gid->type == MV_GID_TYPE_ROCE_V2 || mv_dir_gid_in_grace(gid)) && gid->vlan_id == MV_VLAN_NONE &&
	       (family == MV_FAMILY_IPV4 || family == MV_FAMILY_IPV6);
}

/** mv_dir_gid_routed - does a route lead from @own, of host 0, to @remote, of another host? */
static inline bool mv_dir_gid_routed(const struct mv_dir_gid *own, const struct mv_dir_gid *remote)
{
	return own->rail < MV_DIR_ROUTED_RAILS && remote->routed_from >> own->rail & 1 && mv_dir_gid_may_be_routed(own) &&
	       mv_dir_gid_may_be_routed(remote) && mv_gid_family(&own->gid) == mv_gid_family(&remote->gid);
}

/* Beacons of @remote_rail arrive on the netdev of @local_rail: both are on one link. */
struct mv_dir_link {
	uint32_t local_rail, remote_rail;
};

/* A mapped directory. Constant while open, so any number of threads may read it. */
struct mv_directory {
	const struct mv_dir_header *header; /* NULL: not open */
	size_t size_bytes;
	const struct mv_dir_host *hosts;
	const struct mv_dir_rail *rails;
	const struct mv_dir_gid *gids;
	const uint32_t *order; /* n_gids indexes in gids, ascending by GID bytes */
	const struct mv_dir_link *links; /* ascending by (local_rail, remote_rail) */
};

/**
 * mv_directory_open - map RUN_DIR/directory
 * @ret: written on success only; release with mv_directory_close()
 *
 * Checks every offset, count, index and string of the file once, so that readers need no checks. The file is opened
 * O_NOFOLLOW|O_CLOEXEC. It has to be regular, owned by root, the caller or the owner of RUN_DIR, and not writable by
 * others.
 *
 * Return: 0; -ENOENT: no agent; -EBADMSG: malformed; -EPERM: wrong owner or mode, or not regular; -errno of open(2)
 * (-ELOOP: a symbolic link), fstat(2), mmap(2).
 */
int mv_directory_open(const char *run_dir, struct mv_directory *ret);
void mv_directory_close(struct mv_directory *dir); /* a zeroed one is allowed */

/**
 * mv_directory_check - the same checks for an image in memory (fuzzer, tests)
 * @image: 8-byte aligned; owned by the caller
 *
 * Return: 0; -EBADMSG. @ret points into @image.
 */
int mv_directory_check(const void *image, size_t size_bytes, struct mv_directory *ret);

/** mv_directory_superseded - is there a newer file? One load; any thread. */
bool mv_directory_superseded(const struct mv_directory *dir);
/** mv_directory_alive - has the agent given a sign of life within MV_DIRECTORY_STALE_NS? @now_ns: CLOCK_BOOTTIME */
bool mv_directory_alive(const struct mv_directory *dir, uint64_t now_ns);

/* Look-ups need an open directory (header not NULL). Any thread. */

/**
 * mv_directory_find_gid - entries with a GID value
 * @from: 0 at first, then the last result plus one
 *
 * Return: position in dir->order of the next entry; -1: no more. A value may have several entries: RoCE v1 and v2, and
 * link-local addresses of several hosts. Entries of a host whose id is zero are left out.
 */
ssize_t mv_directory_find_gid(const struct mv_directory *dir, const union ibv_gid *gid, size_t from);

/**
 * mv_directory_library - hash that stands for a provider's library in a directory
 * @build_id: in hex
 *
 * Return: never 0.
 */
uint32_t mv_directory_library(const char *build_id);

/** mv_directory_library_of - the same for the loaded library that contains @function; 0: no build id */
uint32_t mv_directory_library_of(const void *function);

enum mv_dir_qualified {
	MV_DIR_QUALIFIED_UNKNOWN, /* this host has no rail of the device with a GID */
	MV_DIR_QUALIFIED_NO,
	MV_DIR_QUALIFIED_OTHER, /* qualified with another library */
	MV_DIR_QUALIFIED_YES,
};

/** mv_directory_qualified - has a device of this host qualified? @library: mv_directory_library_of() in the asking process */
enum mv_dir_qualified mv_directory_qualified(const struct mv_directory *dir, const char *device, uint32_t library);

/** mv_directory_linked - are beacons of @remote_rail heard on @local_rail? */
bool mv_directory_linked(const struct mv_directory *dir, uint32_t local_rail, uint32_t remote_rail);

/** mv_directory_hears - are beacons of any rail heard on @local_rail? */
bool mv_directory_hears(const struct mv_directory *dir, uint32_t local_rail);

/*
 * Content for mv_directory_build(). hosts[0] is this host. Rails are ordered by host, GIDs by rail, and host, rail,
 * first_* and n_* members are consistent. GIDs of a rail, and links, are in any order; duplicate links are allowed.
 */
struct mv_dir_content {
	size_t n_hosts, n_rails, n_gids, n_links;
	const struct mv_dir_host *hosts;
	const struct mv_dir_rail *rails;
	const struct mv_dir_gid *gids;
	const struct mv_dir_link *links;
};

/**
 * mv_directory_build - make the image of a directory file
 * @ret_image: release with free(); 8-byte aligned, header->size_bytes long
 *
 * Return: 0; -EINVAL: inconsistent content; -E2BIG: 4 GiB or more; -ENOMEM.
 */
int mv_directory_build(const struct mv_dir_content *content, uint64_t generation, uint32_t agent_pid,
		       uint64_t heartbeat_ns, struct mv_dir_header **ret_image);

#endif
