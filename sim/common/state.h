/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the processes of one simulated host share: a file, mapped MAP_SHARED by everybody, whose
 * path is in the environment variable SIM_STATE. One file per host.
 *
 * Who writes what:
 *   host daemon    everything that is not listed below. It creates the file under another name,
 * fills it, sets `magic` last and renames it into place, so a reader never sees half a header. HCA
 * (preload)  sim_slot (its own), sim_port.counters, sim_fault.seen and .hits. anybody sim_fault
 * rules and sim_event records, and sim_dev.late_us, may also be written by a test, under the daemon's rules: a rule's
 * `action` is stored last (release), an event goes through sim_event_push().
 *
 * Concurrency: words that change while a reader may look are C11 atomics. The parts of a port that
 * must be seen together (state, GID table) are guarded by sim_port.seq, a sequence lock: the one
 * writer makes it odd, writes, and makes it even; readers use sim_port_read_begin() and
 * sim_port_read_retry(). There must be only one writer per port.
 *
 * All integers are in host byte order unless the type says otherwise; GIDs, GUIDs and MACs are
 * bytes in wire order. The layout is private to sim/: both sides are built from this header
 * and compare `version` and `size`.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SIM_STATE_ENV     "SIM_STATE"
#define SIM_STATE_MAGIC   0x73696d68636131ULL /* "simhca1" */
#define SIM_STATE_VERSION 8

#define SIM_MAX_DEVS   16
#define SIM_MAX_PORTS  2
#define SIM_MAX_GIDS   256
#define SIM_MAX_LIDS   256
#define SIM_MAX_PKEYS  16
#define SIM_MAX_SLOTS  64
#define SIM_MAX_FAULTS 32
#define SIM_MAX_EVENTS 256 /* power of two */

/* A QPN is slot << SIM_SLOT_QPN_BITS | number; 64 slots fill the 24 bits of the wire. */
#define SIM_SLOT_QPN_BITS 18

/* Numbers of enum ib_port_state and of PortPhysicalState in the InfiniBand specification; sysfs
 * shows the same. */
enum sim_port_state {
	SIM_PORT_DOWN = 1,
	SIM_PORT_INIT = 2,
	SIM_PORT_ARMED = 3,
	SIM_PORT_ACTIVE = 4
};
enum sim_phys_state {
	SIM_PHYS_SLEEP = 1,
	SIM_PHYS_POLLING = 2,
	SIM_PHYS_DISABLED = 3,
	SIM_PHYS_LINKUP = 5
};

/* Numbers of IBV_LINK_LAYER_*. */
enum sim_link_layer { SIM_LINK_INFINIBAND = 1, SIM_LINK_ETHERNET = 2 };

enum sim_gid_type { SIM_GID_NONE = 0, SIM_GID_IB = 1, SIM_GID_ROCE_V1 = 2, SIM_GID_ROCE_V2 = 3 };

#define SIM_NO_VLAN 0xffff

/* What a card's firmware does for the driver: sim_dev.firmware_us. */
enum sim_firmware {
	SIM_FW_NONE, /* the driver does it alone */
	SIM_FW_OPEN,
	SIM_FW_QUERY,
	SIM_FW_CREATE,
	SIM_FW_MODIFY,
	SIM_FW_REG_MR,
	SIM_FW_DEREG,
	SIM_FW_DESTROY,
	SIM_N_FW
};
#define SIM_FW_AT_ONCE 32 /* most commands at a time that can be set */

/* Assumptions that a device breaks on demand, each a bit of sim_dev.quirks: quirk.h has what they do. */
enum sim_quirk {
	SIM_QUIRK_PSN_OFF_BY_ONE,
	SIM_QUIRK_PSN_HIGHEST,
	SIM_QUIRK_PSN_MOVES,
	SIM_QUIRK_PSN_MESSAGES,
	SIM_QUIRK_PSN_READS,
	SIM_QUIRK_PSN_ATOMICS,
	SIM_QUIRK_PSN_COUNT,
	SIM_QUIRK_LATE_DMA,
	SIM_QUIRK_LATE_DMABUF,
	SIM_QUIRK_PUSHED_DMA,
	SIM_QUIRK_PUSHED_DMABUF,
	SIM_QUIRK_LATE_READS,
	SIM_QUIRK_LATE_SRQ,
	SIM_QUIRK_SRQ_HIDES,
	SIM_QUIRK_LOST_FLUSH,
	SIM_QUIRK_FLUSH_ORDER,
	SIM_QUIRK_WQE_FORMAT,
	SIM_QUIRK_ECE,
	SIM_N_QUIRKS
};

/* One entry of a port's GID table; an empty slot is all zero. */
struct sim_gid {
	uint8_t raw[16];
	uint32_t ifindex; /* netdev that owns the address (the VLAN netdev for a VLAN entry); 0 for
			     InfiniBand */
	uint16_t vlan_id; /* SIM_NO_VLAN without */
	uint8_t type; /* enum sim_gid_type */
	uint8_t reserved;
	uint8_t mac[6]; /* of that netdev */
	uint8_t reserved2[2];
};

/* Counted by the HCAs of the host; the daemon shows them in sysfs (counters/, hw_counters/). */
struct sim_counters {
	_Atomic uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes;
	_Atomic uint64_t rx_icrc_errors; /* packets dropped for a wrong ICRC */
	_Atomic uint64_t rx_no_qp; /* no such QP, wrong addresses, wrong state: silently dropped */
	_Atomic uint64_t out_of_sequence; /* responder: PSN after the expected one */
	_Atomic uint64_t duplicate_request; /* responder: PSN before the expected one */
	_Atomic uint64_t rnr_nak_retry_err; /* requester: RNR retries exhausted */
	_Atomic uint64_t packet_seq_err; /* requester: NAK sequence error received */
	_Atomic uint64_t local_ack_timeout_err; /* requester: timer expired */
	_Atomic uint64_t req_retry_exceeded; /* requester: retries exhausted */
	_Atomic uint64_t reserved[8];
};

struct sim_port {
	_Atomic uint32_t seq; /* sequence lock of everything down to gids[] */
	uint32_t gid_generation; /* grows with every change of the GID table */
	uint8_t link_layer; /* enum sim_link_layer */
	uint8_t state; /* enum sim_port_state */
	uint8_t phys_state; /* enum sim_phys_state */
	uint8_t active_mtu; /* IBV_MTU_256 = 1 ... IBV_MTU_4096 = 5: the largest whose packet fits
			       the netdev's MTU */
	uint8_t max_mtu;
	uint8_t active_speed; /* as ibv_port_attr: 1 SDR, 2 DDR, 4 QDR, 16 FDR, 32 EDR, 64 HDR, 128
				 NDR */
	uint8_t active_width; /* as ibv_port_attr: 1 = 1x, 2 = 4x */
	uint8_t sm_sl;
	uint16_t lid; /* InfiniBand; 0 on Ethernet */
	uint16_t sm_lid;
	uint8_t lmc; /* the port has 2^lmc LIDs, from @lid on */
	uint16_t n_gids; /* length of the table that the port shows, at most SIM_MAX_GIDS */
	uint16_t n_pkeys;
	uint64_t subnet_prefix; /* InfiniBand */
	uint8_t port_guid[8];
	uint32_t ifindex; /* netdev that carries the port's packets */
	char netdev[16];
	uint8_t mac[6];
	uint16_t pkeys[SIM_MAX_PKEYS]; /* the first ones; the rest of the table is empty */
	uint8_t reserved[10];
	struct sim_gid gids[SIM_MAX_GIDS];

	struct sim_counters counters; /* not under seq */
};

/* Enhanced connection establishment: version 1, and four options that mean nothing. */
#define SIM_ECE 0x1000000fu

struct sim_dev {
	_Atomic uint32_t present; /* 0: no such device (never there, or removed) */
	_Atomic uint32_t
		dead; /* 1: the HCA answers nothing: no packet in or out, commands fail with EIO */
	_Atomic uint32_t resets; /* how often it was taken away from those who had it open:
				    sim_dev_reset() */
	_Atomic uint32_t quirks; /* 1 << enum sim_quirk; any time */
	_Atomic uint32_t late_us; /* completions of receives, and LAST_WQE_REACHED, come so much later: late.c; 0: at once */
	_Atomic uint32_t no_ece; /* options of ECE that it lacks, of those in SIM_ECE; any time */
	char name[64]; /* "mlx5_0" */
	uint32_t minor; /* /dev/infiniband/uverbs<minor>, character device 231:192+minor */
	uint32_t n_ports;
	uint8_t node_guid[8];
	uint8_t sys_image_guid[8];
	uint32_t vendor_id; /* 0x02c9 */
	uint32_t vendor_part_id; /* PCI device id, e.g. 4123 (ConnectX-6) */
	uint32_t hw_ver;
	int32_t numa_node;
	char fw_ver[32]; /* "20.31.1014" */
	char board_id[32];
	char pci[16]; /* "0000:01:00.0" */
	uint32_t devx; /* 1: contexts may have DEVX */
	uint32_t lag_ports; /* the device is a bond of so many ports, 2; 0: it is none */
	_Atomic uint32_t firmware_us[SIM_N_FW]; /* how long each command of that kind takes; any time */
	_Atomic uint64_t firmware_commands; /* commands that took time so far */
	_Atomic uint32_t firmware_setting; /* changes with it */
	_Atomic uint32_t firmware_at_once; /* commands that take time are executed so many at a time; 0: any number */
	_Atomic uint64_t firmware_free_ns[SIM_FW_AT_ONCE]; /* when each of these is through, CLOCK_MONOTONIC */
	struct sim_port ports[SIM_MAX_PORTS]; /* [0] is port 1 */
};

/*
 * InfiniBand link layer: packets travel in the same UDP datagrams, so a LID needs an address. The
 * table is the same on all hosts of a topology and fixed once the hosts run. `lid` 0 ends it.
 */
#define SIM_MAX_LMC 7
struct sim_lid {
	uint16_t lid; /* the first of 2^lmc */
	uint8_t lmc;
	uint8_t reserved[5];
	uint8_t addr[16]; /* IPv6 or ::ffff:a.b.c.d of the netdev behind that port */
	uint8_t gid[16]; /* of the port, index 0 */
};

/*
 * One slot per process that has a device open. `lock` bytes of the slots are the bytes
 * [SIM_SLOT_LOCK + i] of the file: a process holds an open-file-description write lock on its byte
 * for as long as it lives, so a slot whose byte can be locked is free whatever `pid` says.
 */
#define SIM_SLOT_LOCK 0x70000000L
struct sim_slot {
	_Atomic int32_t pid; /* for people; 0 = never used or given back */
	_Atomic uint32_t next_qpn; /* goes on where the last owner stopped: late packets must not
				      meet a new QP */
	_Atomic uint32_t n_qps;
	_Atomic uint32_t reserved;
	/*
	 * How many queue pairs and address handles of the process refer to each GID entry. As in
	 * the kernel, the slot of a removed address is not given to another one before the last
	 * reference is gone: sim_gid_in_use().
	 */
	_Atomic uint16_t gid_refs[SIM_MAX_DEVS][SIM_MAX_PORTS][SIM_MAX_GIDS];
};

/* Events that the HCA of every process turns into asynchronous events of its contexts. */
enum sim_event_type {
	SIM_EVENT_PORT_ERR = 1,
	SIM_EVENT_PORT_ACTIVE,
	SIM_EVENT_GID_CHANGE,
	SIM_EVENT_LID_CHANGE,
	SIM_EVENT_PKEY_CHANGE,
	SIM_EVENT_SM_CHANGE,
	SIM_EVENT_CLIENT_REREGISTER,
	SIM_EVENT_DEVICE_FATAL,
	SIM_EVENT_QP_FATAL, /* `qpn` goes to ERR with IBV_EVENT_QP_FATAL in the process that owns it
			     */
	SIM_EVENT_RESET, /* sim_dev_reset() */
};

struct sim_event {
	_Atomic uint64_t seq; /* number of the event + 1 once the record is complete */
	uint32_t type; /* enum sim_event_type */
	uint32_t dev; /* index into devs[] */
	uint32_t port; /* 1-based */
	uint32_t qpn;
};

/*
 * Packet faults. A rule looks at every packet of its direction, device, port, QP and class; of
 * those that match, the first `skip` pass, then every `every`-th is hit, with probability `ppm` /
 * 1,000,000, until `limit` were hit.
 */
enum sim_fault_action {
	SIM_FAULT_OFF = 0,
	SIM_FAULT_DROP,
	SIM_FAULT_DELAY, /* by delay_us; the packets of other rules and classes overtake it */
	SIM_FAULT_CORRUPT, /* a bit of the payload flips after the ICRC was made (TX) or before it
			      is checked (RX) */
	SIM_FAULT_DUPLICATE,
};

enum sim_fault_dir { SIM_FAULT_TX = 1, SIM_FAULT_RX = 2 };

enum sim_fault_class { /* bits */
		       SIM_CLASS_REQUEST = 1, /* SEND, WRITE, READ request, atomic request */
		       SIM_CLASS_ACK = 2, /* positive ACK without data */
		       SIM_CLASS_NAK = 4, /* NAK and RNR NAK */
		       SIM_CLASS_DATA_RESPONSE = 8, /* READ response, atomic ACK */
		       SIM_CLASS_UD = 16,
		       SIM_CLASS_ANY = 0xff,
};

struct sim_fault {
	_Atomic uint32_t action; /* enum sim_fault_action; stored last */
	uint8_t dir; /* bits of enum sim_fault_dir */
	uint8_t class_mask; /* bits of enum sim_fault_class */
	uint8_t dev; /* index, 0xff = any */
	uint8_t port; /* 1-based, 0 = any */
	uint32_t qpn; /* local QPN, 0 = any */
	uint32_t skip;
	uint32_t every; /* 0 and 1 = each */
	uint32_t ppm; /* 0 and 1,000,000 = always */
	uint32_t limit; /* 0 = no limit */
	uint32_t delay_us;
	_Atomic uint32_t seen; /* matching packets so far, all processes */
	_Atomic uint32_t hits;
	uint32_t reserved;
};

struct sim_state {
	_Atomic uint64_t magic;
	uint32_t version;
	uint32_t size; /* sizeof(struct sim_state) */
	char host[64]; /* name in the topology; also the node description */
	uint64_t seed; /* of probabilistic faults */
	uint32_t n_devs; /* devs[0 .. n_devs - 1], some perhaps not present */
	uint32_t n_lids;
	struct sim_lid lids[SIM_MAX_LIDS];
	struct sim_slot slots[SIM_MAX_SLOTS];
	struct sim_fault faults[SIM_MAX_FAULTS];
	_Atomic uint64_t faults_generation; /* grows with every change of a rule: nonzero makes HCAs
					       look at them */
	_Atomic uint64_t n_events; /* events pushed since the file was made */
	struct sim_event events[SIM_MAX_EVENTS];
	struct sim_dev devs[SIM_MAX_DEVS];
};

/**
 * sim_gid_in_use() - does a queue pair or address handle of any process refer to the entry?
 * @port: index of the port, from 0.
 *
 * Slots of dead processes must have been zeroed by whoever noticed (the daemon, or the next owner).
 */
static inline bool sim_gid_in_use(struct sim_state *st, uint32_t dev, uint32_t port, uint32_t index)
{
	for (int i = 0; i < SIM_MAX_SLOTS; i++)
		if (atomic_load_explicit(&st->slots[i].gid_refs[dev][port][index],
					 memory_order_acquire))
			return true;
	return false;
}

/** sim_lid_find() - what is known of a LID; NULL: nothing. */
static inline const struct sim_lid *sim_lid_find(const struct sim_state *st, uint16_t lid)
{
	for (int i = 0; i < SIM_MAX_LIDS && st->lids[i].lid; i++)
		if (st->lids[i].lid >> st->lids[i].lmc == lid >> st->lids[i].lmc)
			return &st->lids[i];
	return NULL;
}

/** sim_lid_of_address() - the LID that has the address (GID form) behind it, or NULL. */
static inline const struct sim_lid *sim_lid_of_address(const struct sim_state *st, const uint8_t *addr)
{
	for (int i = 0; i < SIM_MAX_LIDS && st->lids[i].lid; i++)
		if (!memcmp(st->lids[i].addr, addr, 16))
			return &st->lids[i];
	return NULL;
}

/** sim_port_write_begin() / sim_port_write_end() - bracket a change of the guarded part of @p; one
 * writer only. */
static inline void sim_port_write_begin(struct sim_port *p)
{
	atomic_store_explicit(&p->seq, atomic_load_explicit(&p->seq, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static inline void sim_port_write_end(struct sim_port *p)
{
	atomic_store_explicit(&p->seq, atomic_load_explicit(&p->seq, memory_order_relaxed) + 1,
			      memory_order_release);
}

/** sim_port_read_begin() - the value to hand to sim_port_read_retry() after copying what is wanted.
 */
static inline uint32_t sim_port_read_begin(struct sim_port *p)
{
	uint32_t s;

	while ((s = atomic_load_explicit(&p->seq, memory_order_acquire)) & 1)
		;
	return s;
}

/** sim_port_read_retry() - true if the writer came between: copy again. */
static inline bool sim_port_read_retry(struct sim_port *p, uint32_t s)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&p->seq, memory_order_relaxed) != s;
}

/**
 * sim_event_push() - tell all HCAs of the host. Callable from any process; change the port first,
 * then push.
 *
 * A reader that is more than SIM_MAX_EVENTS behind loses the oldest ones.
 */
static inline void sim_event_push(struct sim_state *st, uint32_t type, uint32_t dev, uint32_t port,
				  uint32_t qpn)
{
	uint64_t n = atomic_fetch_add_explicit(&st->n_events, 1, memory_order_acq_rel);
	struct sim_event *e = &st->events[n % SIM_MAX_EVENTS];

	atomic_store_explicit(&e->seq, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	e->type = type;
	e->dev = dev;
	e->port = port;
	e->qpn = qpn;
	atomic_store_explicit(&e->seq, n + 1, memory_order_release);
}

/**
 * sim_dev_reset() - the driver lets go of the device and takes it again. Callable from any process.
 *
 * Files that were open are of no more use; who opens the device from now on finds it as it was.
 */
static inline void sim_dev_reset(struct sim_state *st, uint32_t dev)
{
	atomic_fetch_add_explicit(&st->devs[dev].resets, 1, memory_order_acq_rel);
	sim_event_push(st, SIM_EVENT_RESET, dev, 1, 0);
}

#endif
