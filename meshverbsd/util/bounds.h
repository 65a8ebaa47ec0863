/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_BOUNDS_H
#define MD_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What one agent holds at most, and how often it does things. Everything that other hosts or processes can make
 * grow has its bound here, with the reason.
 */

#define MD_MS 1000000ull
#define MD_S  1000000000ull

/* One host. The largest GPU servers have 16 ports; a GID table has 256 entries, most of them empty. */
#define MD_RAILS_MAX 64
#define MD_GIDS_MAX  1024 /* of all rails of a host together */

/* All hosts. Ten thousand is the design's figure. */
#define MD_HOSTS_MAX 16384
/*
 * Descriptions of all of them. A usual one takes 2 KiB, one of 16 ports 4 KiB. Each of their GIDs takes some 300 bytes more: in the map of
 * GIDs, in the directory that is being made, in those that processes have mapped. And whoever is on a link makes hosts up.
 */
#define MD_HOSTS_BYTES_MAX (64u << 20)
#define MD_HOSTS_BYTES_UNSIGNED (48u << 20) /* of them, for what is not signed; who is known may always say something else of that size */
/* A host seen by every rail of ours through every rail of its own: 16 x 16. */
#define MD_SIGHTINGS_MAX 256
/* Descriptions of which a part has arrived; each takes up to 32 KiB, and seconds are enough to complete one. */
#define MD_PARTIAL_MAX 256
#define MD_PARTIAL_NS  (5 * MD_S)
/* Hosts that one link may bring in a row, and then each second: 200 that start together, not a flood. */
#define MD_NEW_HOSTS_BURST 2048
#define MD_NEW_HOSTS_RATE  512
/*
 * Without a key a neighbour can say that a port of a host is down. Connections leave that port for another one that works, and so often
 * at most: 16 times a port that goes and comes, and then one change each half second.
 */
#define MD_CHANGES_BURST 32 /* descriptions of one host, each unlike the one before */
#define MD_CHANGES_RATE	 2
/*
 * And list GIDs, a thousand in each of two dozen datagrams: who holds them is worked out anew. In all, of descriptions that
 * list others than before: not signed; signed; and signed by hosts that md_host_is_wanted(). A port that goes and comes costs nothing
 * of it. 10,000 hosts with 26 each start together.
 */
#define MD_NEW_GIDS_BURST 262144
#define MD_NEW_GIDS_RATE  32768
/* And he can invent hosts, for each of which the directory changes, and all processes are woken: 32 times, and then twice a second. */
#define MD_WAKES_BURST 32
#define MD_WAKES_RATE  2

/* Beacons. */
#define MD_BEACON_RATE       250 /* that come together on one link in a second, at most; see README.md */
#define MD_INTERVAL_MAX_MS   60000
#define MD_EXPIRY_TENTHS     35 /* a host is gone after 3.5 missed intervals */
#define MD_BURST             3 /* beacons after a change, for one may be lost */
#define MD_BURST_NS          (100 * MD_MS) /* between them, doubling */
#define MD_LATE_NS           (200 * MD_MS) /* an agent that is as late itself takes nobody's silence for an absence */
#define MD_SPEAK_NS          MD_MS /* within which all hosts of a link speak that have seen the same change, */
#define MD_SPEAK_EACH_NS     (MD_S / 50000) /* or where they are few, within so long for each */
#define MD_ANSWER_JITTER_NS  (20 * MD_MS) /* before a host that is new here is greeted */
#define MD_ANSWER_EACH_NS    (MD_S / 5000) /* and longer for each on the link: 10,000 take two seconds */
#define MD_ANSWER_SPACING_NS (100 * MD_MS) /* between two beacons of one link that are greetings */
#define MD_ANSWER_ALL_MAX    250 /* senders on a link up to which a greeting goes to all of them */
#define MD_NETS_MAX          128 /* netdevs that beacons go out of: 16 ports with 7 VLANs each */

/* Queries across routers. */
#define MD_TARGETS_MAX       16384 /* addresses that are asked: as many as there may be hosts */
#define MD_TARGETS_PER_ACCOUNT 12288 /* of them, because processes of one account need them: see md_has_room() */
#define MD_TARGETS_FOR_OTHERS 4096 /* because other hosts have said something from there: whoever has addresses can use them up */
#define MD_FILE_ADDRS_MAX    4096 /* of the hosts file */
#define MD_QUERY_NS          (5 * MD_S) /* how often a host behind a router is asked */
#define MD_QUERY_RATE        250 /* all of them together, in a second */
#define MD_QUERY_TRIES       3 /* in vain, until one that did answer is silent */
#define MD_QUERY_RETRY_NS    (250 * MD_MS) /* between them */
#define MD_TARGET_IDLE_NS    (600 * MD_S) /* one that no process needs any more is forgotten after */
#define MD_SILENT_NS         (5 * MD_S) /* how long an address that did not answer is not asked for a process */
#define MD_QUERY_BYTES       8 /* the asker's generation; older agents say nothing there, and look at nothing */
#define MD_HINTS             4 /* queries that have a host asked that asks us, in MD_QUERY_NS: it has changed */
#define MD_LEARNED_TARGETS   8 /* further addresses of a host that has answered at one: should that rail fail */
/*
 * Queries answered, of hosts that md_host_is_wanted(), and of others: these ask who we are before anybody here has heard of them, and
 * whoever has an address may do so. A group of source addresses is one address, or an IPv6 network, which may have a rack of hosts.
 */
#define MD_ANSWERS_RATE	      2000
#define MD_ANSWERS_BURST      200
#define MD_ANSWERS_HOST_RATE  32 /* of one: it has several addresses to ask, each some times when something changes */
#define MD_ANSWERS_HOST_BURST 128
#define MD_ANSWERS_GROUP_RATE  250 /* of a group of the others */
#define MD_ANSWERS_GROUP_BURST 500

/* Routes to hosts beyond routers; some 3 us a look-up. */
#define MD_ROUTES_TRIES      4 /* addresses of one of our rails from which a route is looked for */
#define MD_ROUTES_MAX        2048 /* look-ups for one host: 8 rails to 8 rails with two addresses each are 128 */
#define MD_ROUTES_BURST      8192 /* at once, as hosts answer, and then in a second: hosts that are made up can answer ever other things */
#define MD_ROUTES_RATE       4096
#define MD_ROUTES_PER_TURN   512 /* of those that are left */
#define MD_ROUTES_TURN_NS    (20 * MD_MS) /* between two turns: a tenth of a processor at most, while hosts are looked at */
#define MD_ROUTES_NS         (100 * MD_MS) /* after a notice of the kernel's: a router daemon has many at once */

/* The directory file. */
#define MD_PUBLISH_NS        (50 * MD_MS) /* between two */
#define MD_PUBLISH_SHARE     10 /* and ten times as long as the last one took to make */
#define MD_PUBLISH_DELAY_NS  (5 * MD_MS) /* changes seldom come alone; but for a port that went down, which is urgent */
#define MD_PUBLISH_FIRST_NS  (400 * MD_MS) /* after a restart: old file stays until the neighbours have answered */
#define MD_HEARTBEAT_NS      (500 * MD_MS)

/* How late a timer may be: a port that went down passes two of them in each agent. */
#define MD_TIMER_US 10

/* The local view. */
#define MD_LOOK_SHARE 20 /* of one processor, the part that looking may take in the long run */
#define MD_LOOKS_AT_ONCE 10 /* and how many of them may come before that counts: two changes and what follows them */
#define MD_AT_ONCE_NS (MD_MS / 2)   /* from the kernel's notice to a look, but for the first one at the states of ports */
#define MD_SETTLE_NS (20 * MD_MS) /* to the next: addresses are in the GID tables a little later */
#define MD_TABLES_NS (250 * MD_MS) /* after a port went down, if that is all: until then connections that move need the processor */
#define MD_POLL_NS   (5 * MD_S) /* for what the kernel gives no notice of */

#define MD_KEPT_NS   (5 * MD_S) /* how long GIDs that have gone are kept after their port is up; a poll longer at most */

#define MD_HURRY_NS MD_MS /* how long what others have made may make close(2) wait: see struct md_errands */
#define MD_ERRANDS_STOP_MS 2000 /* how long the end of the agent waits for a system call that waits for the kernel */

/*
 * Processes. What they have is counted for accounts: a user of the host, or a container with all its users (struct md_peer). There
 * is no bound for account 0, root of the host; and of what there is in all, the last eighth is left to it.
 */
#define MD_ROOT_SHARE 8

static inline bool md_has_room(size_t n, size_t max, uint64_t account)
{
	return n < (account ? max - max / MD_ROOT_SHARE : max);
}

#define MD_CLIENTS_MAX       4096
#define MD_CLIENTS_PER_ACCOUNT 1024 /* a host full of one user's ranks */
/* Frames that a process has not read: several of each QP, when a thousand of them move at once. */
#define MD_CLIENT_SOCKET_BYTES (4 << 20)
/*
 * Of all processes of an account together, and of all accounts: the kernel's memory for what has not been read is on the agent's bill.
 * Root's processes are not counted.
 */
#define MD_UNREAD_PER_ACCOUNT (64u << 20)
#define MD_UNREAD_MAX         (256u << 20)
#define MD_UNREAD_EACH        768 /* what the kernel needs for a packet besides its bytes, about */
#define MD_WEIGH_NS           (10 * MD_MS) /* the kernel is asked for the true figures no more often, where there is no room */
#define MD_QPS_MAX           262144
#define MD_QPS_PER_ACCOUNT   131072
#define MD_STRAYS_MAX        253 /* descriptors that come with one packet: SCM_MAX_FD of the kernel */
#define MD_REFUSED_MAX       32 /* refused connections that are being closed; then no further one is accepted */
#define MD_QUESTIONS_PER_TURN 8 /* whose a QP is, of all processes: on some cards each is a command to the firmware */
#define MD_INDEX_NS          (5 * MD_S) /* how long the kernel's number of a device is believed */
/* An account whose processes have taken so much of so long has its clients wait in a queue: see md_clients.backlog. */
#define MD_BUSY_NS           (2 * MD_MS)
#define MD_BUSY_OF_NS        (16 * MD_MS)
#define MD_FRAMES_PER_TURN   64 /* of one process, and the rest of a packet, before the next one has its turn */

/* Messages on their way. */
#define MD_PARCELS_MAX        8192 /* about 700 bytes each */
#define MD_PARCELS_PER_CLIENT 2048
#define MD_PARCELS_PER_ACCOUNT 4096
/* Of those whose process is gone: who connects again and again, each time with all it may have, leaves room for others. */
#define MD_ORPHANS_MAX        2048
#define MD_TRIES              5
#define MD_TRIES_KEPT         3 /* the one that is repeated while the process says the same again and again */
#define MD_TRIES_SLOW_NS      (200 * MD_MS) /* the second one waits so long at most, where receipts take long */
#define MD_TRIES_FEW          2 /* of which go by a few netdevs, one address pair of each */
#define MD_PATHS_FIRST        3 /* how many netdevs that are */
#define MD_PATHS_AT_ONCE      8 /* address pairs of a later try; the next one takes the following ones */
#define MD_PATHS_MAX          64 /* address pairs looked at */
#define MD_CUT_MAX            8 /* netdevs by which a host is not reached; by further ones it is tried */
#define MD_BUNDLES            32 /* places to which bundles are filled at once, 1.2 KiB each */
#define MD_RECEIPTS_NS        (5 * MD_MS) /* receipts wait for company, a quarter of the time until the second try: nobody else waits for them */
#define MD_BUNDLES_ASK_NS     MD_S /* until a host that does not say that it takes bundles is asked again; doubles */
#define MD_BUNDLES_ASK_MAX    6 /* so often */
/* Cookies of those whom a process at work may have to reach at once are asked for anew before they are too old. */
#define MD_RENEW_LOOK_NS      (250 * MD_MS)
#define MD_RENEW_AT_ONCE      32 /* hosts, in one look: all of MD_PROBES_MAX within a renewal's time */
#define MD_GID_HOSTS_MAX      4 /* hosts with one (link-local) GID that a message goes to */
/*
 * Messages taken without a fleet key: a bundle has more than a hundred of them, and whoever has an address may send bundles, or make up
 * hosts with keys. Ten thousand queue pairs of a host that move at once send half of that.
 */
#define MD_MESSAGES_BURST     65536 /* of one host, in a row, */
#define MD_MESSAGES_RATE      16384 /* and then in a second; a sixteenth of it of all that are not known */
#define MD_MESSAGES_ALL_BURST 524288 /* of all that md_host_is_wanted(), of others that seal them, and of others that do not, */
#define MD_MESSAGES_ALL_RATE  32768 /* likewise */
#define MD_COPIES_SLOTS       16384 /* hashes of messages that have arrived, 8 bytes each, twice */
#define MD_COPIES_NS          (2 * MD_S) /* how long they are remembered: all repetitions take one second, but for what is said again meanwhile */

/* Probes of paths. */
#define MD_PROBES_MAX         4096 /* paths: 16 rails to 256 hosts, 12 of them for one user; about 300 bytes each */
#define MD_PATHS_PER_ACCOUNT  3072 /* of them, which leaves room for others */
#define MD_WATCHES_PER_CLIENT 1024 /* paths that one process has watched */
#define MD_PROBES_PER_S       4000 /* of ours; with more than 40 paths the interval grows */
#define MD_PROBES_BURST_PER_S 20000 /* while paths are suspect */
#define MD_PROBES_PER_TURN    512
#define MD_WITNESSES_MAX      8 /* other paths to a suspect's host that are probed with it */
#define MD_ECHOES_PER_S       20000 /* probes of others that are answered */
/*
 * All netdevs share a socket: what one with a queue that stands still has not sent takes room from all. In percent of the send
 * buffer in use: from the first on, paths that do not answer get no more than a probe a second and those that complete the case
 * against a few of them; from the second on not even these; from the third on probes over paths that we do not know are not answered.
 */
#define MD_SCARCE_PERCENT     25
#define MD_SCARCER_PERCENT    50
#define MD_SCARCEST_PERCENT   75
#define MD_SCARCE_SUSPECTS    4 /* whose case is completed at a time: half of it each for twice as many proves nothing */
#define MD_SCARCE_NS          MD_S

#define MD_SAY_AGAIN_NS (60 * MD_S) /* who is refused what, so often at most: to ask again and again costs nothing */

/* Datagrams of one turn of the event loop. */
#define MD_DATAGRAMS_PER_TURN 64
#define MD_DATAGRAMS_DRAINED  512 /* of each socket, before silence counts */

/* Control connections: people and their scripts. */
#define MD_CONTROLS_MAX 32
#define MD_CONTROLS_PER_ACCOUNT 8
#define MD_ANSWER_BYTES_MAX (16u << 20) /* then the rest is left out: some 13,000 hosts of two ports, or 50,000 QPs */
#define MD_ANSWERS_BYTES_MAX (64u << 20) /* of all control connections that have not read theirs yet */
#define MD_ANSWERS_SHARE 4 /* who is not root waits this many times as long as the last answer took to make */
#define MD_REQUEST_MAX  4096
#define MD_CONTROL_NS   (10 * MD_S)

#endif
