/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_DIRECTORY_H
#define MV_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "gid.h"

/*
 * The directory: which hosts there are, which rails each has, which GIDs each rail has, and on which
 * of our own rails a remote rail's beacons are heard. The agent writes it, processes of the host and
 * the tool read it.
 *
 * It is one immutable file (RUN_DIR/directory) that readers map. A change makes a new file under the
 * same name (written aside, then renamed), after which the old one's @superseded is set; so a reader
 * never sees anything half-written, needs no lock, and learns of a change by looking at one word of
 * its own mapping. Only @superseded and @heartbeat_ns of a published file ever change.
 *
 * Host 0 is this host itself. All integers are in host byte order: the file never leaves the host.
 */

#define MV_DIRECTORY_FILE "directory"
#define MV_DIRECTORY_MAGIC 0x3130726964766dull /* "mvdir01" */

/* An agent writes its heartbeat ten times as often as this. */
#define MV_DIRECTORY_STALE_NS (5 * 1000000000ull)

struct mv_host_id {
	uint8_t bytes[16];
};

/* First thing in the file; what follows are the arrays, each aligned to 8 bytes. */
struct mv_dir_header {
	uint64_t magic;
	uint32_t version; /* 1 */
	uint32_t size_bytes; /* of the whole file */
	_Atomic uint64_t heartbeat_ns; /* CLOCK_BOOTTIME when the agent was last alive */
	_Atomic uint32_t superseded; /* not 0: map the file anew */
	uint32_t agent_pid;
	uint64_t generation; /* grows with each file of one agent */
	uint32_t n_hosts, n_rails, n_gids, n_links;
	uint32_t hosts_at, rails_at, gids_at, order_at, links_at; /* byte offsets */
};

enum mv_dir_host_flags {
	/*
	 * What agents and processes of this host get from that one by the agents comes from that one: sealed with the fleet key, or with a
	 * key of the two hosts, after its identity was pinned. Also host 0.
	 */
	MV_PEER_AUTHENTICATED = 1,
	/* Known by its answers only: no beacon of it has come by a link of this host, so anybody on the way may have given them. */
	MV_PEER_ROUTED = 2,
	/* Host 0 only: this host has a fleet key, and so has every other host that it knows. */
	MV_PEER_FLEET_KEY = 4,
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
	MV_RAIL_UP = 1, /* port active, netdev running, and not drained */
	MV_RAIL_EXCLUDED = 2, /* by the host's administrator: never a path of a moved connection */
	MV_RAIL_DRAINED = 4, /* taken out by the host's administrator, and therefore not up */
	MV_RAIL_QUALIFIED = 8, /* host 0 only: its device has, with the library of mv_dir_gid.library */
};

struct mv_dir_rail {
	char device[IBV_SYSFS_NAME_MAX];
	char netdev[16]; /* "" when none */
	uint32_t host;
	uint32_t first_gid, n_gids;
	uint32_t rate_mbps; /* 0: unknown */
	int32_t numa_node; /* -1: unknown */
	uint16_t lid;
	uint16_t mtu_bytes; /* RDMA path MTU the port allows: 256 .. 4096; 0: unknown */
	uint8_t port;
	uint8_t link_layer; /* IBV_LINK_LAYER_... */
	uint8_t flags; /* enum mv_dir_rail_flags */
	uint8_t reserved;
};

#define MV_DIR_INDEX_NONE UINT32_MAX
/* Parts of the index: see mv_dir_gid_is_unmet(), mv_dir_gid_is_unanswered(). Tables have 65,536 entries at most. */
#define MV_DIR_INDEX_UNMET      (1u << 31)
#define MV_DIR_INDEX_UNANSWERED (1u << 30)

struct mv_dir_gid {
	union ibv_gid gid;
	uint32_t rail;
	uint32_t index; /* in its own host's table when last read: a hint, look it up by value; or MV_DIR_INDEX_NONE */
	uint16_t vlan_id; /* MV_VLAN_NONE: none */
	uint8_t type; /* enum mv_gid_type; MV_GID_TYPE_UNKNOWN: never a path */
	uint8_t prefix_len; /* bits of the GID (IPv4: 96 + n) of its address's on-link prefix; 0: none known */
	union {
		uint32_t library; /* host 0, of a rail with MV_RAIL_QUALIFIED: mv_directory_library() of what it has qualified with; else 0 */
		/*
		 * Other hosts: bit per rail of host 0, of the first MV_DIR_ROUTED_RAILS: a route leads to it out of that rail's netdev, from one
		 * of its global RoCE v2 addresses without VLAN. Only of those whose host a query across routers found.
		 */
		uint32_t routed_from;
	};
};

#define MV_DIR_ROUTED_RAILS 32

/**
 * mv_dir_gid_is_unmet - is another host's address in a network of this host on whose link that host was never heard?
 *
 * The agent sets the bit, and never with a fleet key. The bit is part of the index, so that older plugins can read the file.
 */
static inline bool mv_dir_gid_is_unmet(const struct mv_dir_gid *gid)
{
	return gid->index != MV_DIR_INDEX_NONE && gid->index & MV_DIR_INDEX_UNMET;
}

/** mv_dir_gid_is_unanswered - is another host's address in no network of this host, and has that host never answered there? */
static inline bool mv_dir_gid_is_unanswered(const struct mv_dir_gid *gid)
{
	return gid->index != MV_DIR_INDEX_NONE && gid->index & MV_DIR_INDEX_UNANSWERED;
}

/**
 * mv_dir_gid_is_in_doubt - may the address belong to a host without an agent, instead of the host that announces it?
 * @routed: a route leads from this host to the address
 *
 * Without meshverbs a new connection to the address goes out on a link of this host, or by the route, and may reach a host without an
 * agent. So a new connection does not take the announcing host for its peer.
 */
static inline bool mv_dir_gid_is_in_doubt(const struct mv_dir_gid *gid, bool routed)
{
	return mv_dir_gid_is_unmet(gid) || (routed && mv_dir_gid_is_unanswered(gid));
}

/** mv_dir_gid_index - the index without what else is in that field; MV_DIR_INDEX_NONE stays */
static inline uint32_t mv_dir_gid_index(const struct mv_dir_gid *gid)
{
	return gid->index == MV_DIR_INDEX_NONE ? gid->index : gid->index & ~(MV_DIR_INDEX_UNMET | MV_DIR_INDEX_UNANSWERED);
}

/** mv_dir_gid_is_kept - has its host not got it at present, and is still known by it (meshverbsd/local/kept.h)? */
static inline bool mv_dir_gid_is_kept(const struct mv_dir_gid *gid)
{
	return gid->index == MV_DIR_INDEX_NONE && gid->type == MV_GID_TYPE_UNKNOWN;
}

/** mv_dir_gid_may_be_routed - an address that routers forward to, on a netdev without VLAN? Also one that is kept. */
static inline bool mv_dir_gid_may_be_routed(const struct mv_dir_gid *gid)
{
	enum mv_gid_family family = mv_gid_family(&gid->gid);

	return (gid->type == MV_GID_TYPE_ROCE_V2 || mv_dir_gid_is_kept(gid)) && gid->vlan_id == MV_VLAN_NONE &&
	       (family == MV_FAMILY_IPV4 || family == MV_FAMILY_IPV6);
}

/** mv_dir_gid_routed - does a route lead from @own, of host 0, to @remote, of another host? */
static inline bool mv_dir_gid_routed(const struct mv_dir_gid *own, const struct mv_dir_gid *remote)
{
	return own->rail < MV_DIR_ROUTED_RAILS && remote->routed_from >> own->rail & 1 && mv_dir_gid_may_be_routed(own) &&
	       mv_dir_gid_may_be_routed(remote) && mv_gid_family(&own->gid) == mv_gid_family(&remote->gid);
}

/* Beacons of @remote_rail arrive on the netdev of @local_rail: the two are on one link. */
struct mv_dir_link {
	uint32_t local_rail, remote_rail;
};

/* A mapped directory. Constant while open, so any number of threads may read one. */
struct mv_directory {
	const struct mv_dir_header *header; /* NULL: none */
	size_t size_bytes;
	const struct mv_dir_host *hosts;
	const struct mv_dir_rail *rails;
	const struct mv_dir_gid *gids;
	const uint32_t *order; /* n_gids indexes into gids, ascending by GID bytes */
	const struct mv_dir_link *links; /* ascending by (local_rail, remote_rail) */
};

/**
 * mv_directory_open - map RUN_DIR/directory
 * @ret: on success to be released with mv_directory_close()
 *
 * Checks every offset, count, index and string of the file once, so that later reads cannot go wrong.
 * The file is opened O_NOFOLLOW|O_CLOEXEC and has to be a regular file that root, the caller or the owner
 * of RUN_DIR owns and that nobody else may write.
 *
 * Return: 0; -ENOENT without an agent; -EBADMSG for a file that is not well-formed; -EPERM for one that
 * somebody else could have written, or that is no regular file; -errno of open(2) (-ELOOP for a symbolic link),
 * fstat(2), mmap(2).
 */
int mv_directory_open(const char *run_dir, struct mv_directory *ret);
void mv_directory_close(struct mv_directory *dir); /* an empty one is fine */

/**
 * mv_directory_check - the same checks on memory (fuzzer, tests)
 * @image: 8-byte aligned
 *
 * Return: 0 or -EBADMSG; @ret points into @image.
 */
int mv_directory_check(const void *image, size_t size_bytes, struct mv_directory *ret);

/** mv_directory_superseded - is there a newer file? One load; any thread. */
bool mv_directory_superseded(const struct mv_directory *dir);
/** mv_directory_alive - has the agent that wrote it been alive lately? @now_ns: CLOCK_BOOTTIME */
bool mv_directory_alive(const struct mv_directory *dir, uint64_t now_ns);

/* The look-ups want a directory that is open (header not NULL). */

/**
 * mv_directory_find_gid - entries with that GID value
 * @from: 0 at first, then what was returned plus one; position in dir->order
 *
 * Return: position in dir->order of the next entry with that value, or -1. Entries of v1 and v2, and of
 * link-local addresses on several hosts, may have one value.
 */
ssize_t mv_directory_find_gid(const struct mv_directory *dir, const union ibv_gid *gid, size_t from);

/**
 * mv_directory_library - the number by which a directory names a provider's library
 * @build_id: in hex
 *
 * Return: never 0.
 */
uint32_t mv_directory_library(const char *build_id);

/** mv_directory_library_of - the same of the loaded library that has a function; 0: it has no build id */
uint32_t mv_directory_library_of(const void *function);

enum mv_dir_qualified {
	MV_DIR_QUALIFIED_UNKNOWN, /* this host has no rail of that device with a GID */
	MV_DIR_QUALIFIED_NO,
	MV_DIR_QUALIFIED_OTHER, /* with another library than this one */
	MV_DIR_QUALIFIED_YES,
};

/** mv_directory_qualified - has a device of this host qualified? @library: of the process that wants to know */
enum mv_dir_qualified mv_directory_qualified(const struct mv_directory *dir, const char *device, uint32_t library);

/** mv_directory_linked - are beacons of @remote_rail heard on @local_rail? */
bool mv_directory_linked(const struct mv_directory *dir, uint32_t local_rail, uint32_t remote_rail);

/** mv_directory_hears - are beacons of any rail heard on @local_rail? */
bool mv_directory_hears(const struct mv_directory *dir, uint32_t local_rail);

/*
 * Building: hosts[0] is this host; rails stand host by host and GIDs rail by rail, with host/rail/first/count
 * members to match; GIDs of a rail in any order, links in any order, and the same one may be there twice.
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
 * @ret_image: malloc()ed, 8-byte aligned; header->size_bytes long
 *
 * Return: 0; -EINVAL when the content is not consistent; -E2BIG beyond 4 GiB; -ENOMEM.
 */
int mv_directory_build(const struct mv_dir_content *content, uint64_t generation, uint32_t agent_pid,
		       uint64_t heartbeat_ns, struct mv_dir_header **ret_image);

#endif
