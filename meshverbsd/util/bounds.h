/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_BOUNDS_H
#define MD_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Limits of one agent: of memory, and of rates. Whatever other hosts or processes can make grow has its limit here,
 * with the reason. Times are in ns unless the name says otherwise. Most limits of rates are token buckets: _BURST
 * tokens, refilled at _RATE a second.
 */

#define MD_MS 1000000ull
#define MD_S  1000000000ull

/* One host. The largest GPU servers have 16 ports; a GID table has 256 entries, most of them empty. */
#define MD_RAILS_MAX 64
#define MD_GIDS_MAX  1024 /* of all rails of a host together */

/* Hosts. The design's figure is ten thousand. Each link has a share: struct md_hosts. */
#define MD_HOSTS_MAX 16384
/* Hosts whose keys are remembered, and remembered as revoked (pins.h). 200 bytes each. */
#define MD_PINS_MAX	  (2 * MD_HOSTS_MAX)
#define MD_REVOKED_MAX	  4096
#define MD_PINS_BYTES_MAX (8u << 20) /* of their file */
/*
 * Bytes of all descriptions. A usual description takes 2 KiB, one of 16 ports 4 KiB. Each GID takes some 300 bytes
 * more: in the map of GIDs, in the directory that is being made, and in the directories that processes have mapped.
 * Anybody on a link can invent hosts.
 */
#define MD_HOSTS_BYTES_MAX (64u << 20)
/* share of descriptions that are not signed; the rest is for known hosts, which may change theirs at any time */
#define MD_HOSTS_BYTES_UNSIGNED (48u << 20)
/*
 * Wanted hosts are forgotten for no other host. The last eighth of the table is for others. A wanted host is charged
 * MD_WANTED_EACH bytes, or those of its description if these are more, so MD_WANTED_BYTES bounds both hosts and bytes.
 */
#define MD_WANTED_EACH	(MD_HOSTS_BYTES_UNSIGNED / MD_HOSTS_MAX)
#define MD_WANTED_BYTES (MD_HOSTS_BYTES_UNSIGNED / 8 * 7)
/* accounts whose wanted hosts have shares of their own: index 0 is root and the hosts file, and the last one all further accounts */
#define MD_WANTERS 32
/* Sightings of one host, if each of our rails sees each of its rails: 16 x 16. */
#define MD_SIGHTINGS_MAX 256
/*
 * Each host has room for MD_SIGHTINGS_OF_HOST. All hosts on a link share room for more. Example: 1,365 hosts with
 * 8 rails, each of which 8 rails of ours hear.
 */
#define MD_SIGHTINGS_OF_HOST 16
#define MD_SIGHTINGS_OF_LINK 8192
/*
 * Incomplete descriptions of one link, and of other shares (struct md_hosts): some thirty of 1,024 GIDs, or several
 * hundred of 80. All pieces normally arrive within milliseconds.
 */
#define MD_PARTIAL_BYTES (1u << 20)
#define MD_PARTIAL_BYTES_WANTED (4 * MD_PARTIAL_BYTES) /* of the hosts that all accounts want */
#define MD_PARTIAL_NS	 (5 * MD_S)
/* New hosts on a link. The burst allows for 2000 hosts that start together, but not for a flood. */
#define MD_NEW_HOSTS_BURST 2048
#define MD_NEW_HOSTS_RATE  512
/*
 * Changes of a host's description. Without a key, a neighbour can forge that a port of a host is down, and connections
 * then leave that port. The limit allows for a port that goes and comes 16 times, or 8 times if port and netdev change one
 * after the other, and then for one change each half second.
 */
#define MD_CHANGES_BURST 32 /* descriptions of one host, each unlike the one before */
#define MD_CHANGES_RATE	 2
/*
 * GIDs whose holders have to be worked out anew:
 * - GIDs of a description that lists other GIDs than the one before. A forger may list a thousand GIDs in two dozen
 *   datagrams.
 * - GIDs of a host that is heard on other links than before. Without room the host keeps its former claims.
 * A change of our own links, and a port that goes and comes, need no room. Each link has one bucket for unsigned hosts
 * and one for signed hosts, because anybody can invent keys, too. Signed hosts that md_host_is_wanted() have the bucket
 * of who wants them. The burst allows for 10,000 hosts with 26 GIDs that start together.
 */
#define MD_NEW_GIDS_BURST 262144
#define MD_NEW_GIDS_RATE  32768
/* Directories for unproven changes: a forger can invent hosts, each of which changes the directory and wakes all processes. */
#define MD_WAKES_BURST 32
#define MD_WAKES_RATE  2

/* Beacons. */
#define MD_BEACON_RATE       250 /* beacons of all hosts of one link in a second; see README.md */
#define MD_INTERVAL_MAX_MS   60000
#define MD_EXPIRY_TENTHS     35 /* a host expires after 3.5 intervals without beacon */
#define MD_BURST             3 /* beacons after a change, since one may be lost */
#define MD_BURST_NS          (100 * MD_MS) /* from the first to the second, then doubling */
#define MD_LATE_NS           (200 * MD_MS) /* an agent that is so late itself does not count the silence of others */
#define MD_SPEAK_NS          MD_MS /* all hosts of a link that see the same change send their beacons within this time */
#define MD_SPEAK_EACH_NS     (MD_S / 50000) /* or within this time for each host, if that is less */
#define MD_ANSWER_JITTER_NS  (20 * MD_MS) /* random delay before the greeting of a new host */
/* additional delay for each host on the link: with 10,000 hosts, greetings spread over two seconds */
#define MD_ANSWER_EACH_NS    (MD_S / 5000)
#define MD_ANSWER_SPACING_NS (100 * MD_MS) /* least time between two greetings on one link */
#define MD_ANSWER_ALL_MAX    250 /* up to so many senders on a link, greetings are multicast */
/*
 * Greetings to single addresses, on links with more senders: of one link. The burst allows for MD_NEW_HOSTS_BURST
 * newcomers; further ones hear the next beacon.
 */
#define MD_GREETINGS_BURST	 2048
#define MD_GREETINGS_RATE	 256 /* a second */
/* Questions to hosts of one link for their keys. */
#define MD_KEYS_BURST 256
#define MD_KEYS_RATE  128
/*
 * Each kind of datagram to addresses that have shown no cookie (exchange/unproven.c): to one group of addresses on a
 * link. Anybody on the link can forge the address.
 */
#define MD_UNPROVEN_GROUP_BURST 32
#define MD_UNPROVEN_GROUP_RATE	2
#define MD_NETS_MAX          128 /* netdevs on which beacons are sent: 16 ports with 7 VLANs each */

/*
 * Rates of messages and answers of a link leave room for other links: all links together have so many times as much.
 * More would be all of a processor. Likewise users that want hosts.
 */
#define MD_LINKS_TOGETHER 4

/* Queries across routers. */
#define MD_TARGETS_MAX       16384 /* addresses that are queried; as many as MD_HOSTS_MAX */
#define MD_TARGETS_PER_ACCOUNT 12288 /* targets that processes of one account need; see md_has_room() */
#define MD_TARGETS_FOR_OTHERS 4096 /* targets at which other hosts have spoken to us; anybody with enough addresses can use these up */
#define MD_TARGET_ACCOUNTS   8 /* accounts that need one target and are noted to pay for it */
#define MD_FILE_ADDRS_MAX    4096 /* addresses in the hosts file */
#define MD_QUERY_NS          (5 * MD_S) /* interval of queries to a host behind a router */
#define MD_QUERY_RATE        250 /* queries in a second for one account; MD_TARGETS_MAX each MD_QUERY_NS are 13 times as much */
#define MD_TARGETS_EACH_NS   4000 /* between two looks at all targets, for each: looks take a tenth of a processor */
#define MD_QUERY_TRIES       3 /* unanswered queries in a row until a target counts as silent */
#define MD_QUERY_RETRY_NS    (250 * MD_MS) /* from an unanswered query to the next */
#define MD_TARGET_IDLE_NS    (600 * MD_S) /* a target is removed so long after a process last needed it */
#define MD_SILENT_NS         (5 * MD_S) /* an address that did not answer is not queried for a process for so long */
#define MD_QUERY_BYTES       8 /* the asker's generation. Older agents send an empty payload, and ignore ours */
#define MD_HINTS             4 /* queries from a host that make us query the host out of turn, in MD_QUERY_NS: the host may have changed */
#define MD_LEARNED_TARGETS   8 /* further addresses of a host that are queried, in case the rail of the first address fails */
/*
 * Answers to queries. Hosts that md_host_is_wanted() have the bucket of the account that wants them. All others on a link share a bucket,
 * because any host may query us before anybody here has heard of it. A group of source addresses is one IPv4 address or an IPv6
 * network, e.g. of a rack.
 */
#define MD_ANSWERS_RATE	      2000 /* to hosts that one account wants; to others on a link */
#define MD_ANSWERS_BURST      200
#define MD_ANSWERS_HOST_RATE  32 /* answers to one wanted host: it queries several addresses, and each again when something changes */
#define MD_ANSWERS_HOST_BURST 128
#define MD_ANSWERS_GROUP_RATE  250 /* answers to one group of other hosts */
#define MD_ANSWERS_GROUP_BURST 500

/* Look-ups of routes to hosts beyond routers. A look-up takes some 3 us. */
#define MD_ROUTES_TRIES      4 /* addresses of one of our rails from which a route is looked up */
#define MD_ROUTES_MAX        2048 /* look-ups for one host. Example: 8 rails to 8 rails with two addresses each need 128 */
/* look-ups at once, as hosts answer. The rate limits invented hosts that answer with ever new addresses */
#define MD_ROUTES_BURST      8192
#define MD_ROUTES_RATE       4096
#define MD_ROUTES_PER_TURN   512 /* look-ups in a turn, for hosts that wait */
#define MD_ROUTES_TURN_NS    (20 * MD_MS) /* between two turns: looking up takes a tenth of a processor at most */
#define MD_ROUTES_NS         (100 * MD_MS) /* delay after a notification of the kernel: a routing daemon causes many at once */

/* The directory file. */
#define MD_PUBLISH_NS        (50 * MD_MS) /* least time between two directories */
#define MD_PUBLISH_SHARE     10 /* and at least so many times as long as the last directory took to make */
#define MD_PUBLISH_DELAY_NS  (5 * MD_MS) /* delay, because changes seldom come alone; none if a port went down */
#define MD_PUBLISH_FIRST_NS  (400 * MD_MS) /* delay after a restart: the old file is used until the neighbours have answered */
#define MD_HEARTBEAT_NS      (500 * MD_MS)

/* Slack of timers. That a port went down passes two timers in each agent. */
#define MD_TIMER_US 10

/* The view of this host's own devices and netdevs. */
#define MD_LOOK_SHARE 20 /* looking may take 1/20 of a processor in the long run */
#define MD_LOOKS_AT_ONCE 10 /* looks that are free of that limit: two changes and their aftermath */
#define MD_AT_ONCE_NS (MD_MS / 2)   /* from the kernel's notification to a look; the first look at port states is immediate */
#define MD_SETTLE_NS (20 * MD_MS) /* to the next look: addresses reach the GID tables a little later */
#define MD_TABLES_NS (250 * MD_MS) /* after a mere loss of a port: until then, connections that move need the processor */
#define MD_POLL_NS   (5 * MD_S) /* for changes that the kernel does not notify */

#define MD_GID_GRACE_NS   (5 * MD_S) /* GIDs that have gone are in grace so long after their port is up; up to MD_POLL_NS longer */

#define MD_HURRY_NS MD_MS /* others can delay our close(2) by so much with what they create: see struct md_jobs */
#define MD_JOBS_STOP_MS 2000 /* the agent waits so long at its end for a system call that blocks */

/*
 * Limits of processes count by account: a user of the host, or a container with all its users (struct md_peer). Account
 * 0, root of the host, has no limit of its own, and the last eighth of each total is reserved for it.
 */
#define MD_ROOT_SHARE 8

static inline bool md_has_room(size_t n, size_t max, uint64_t account)
{
	return n < (account ? max - max / MD_ROOT_SHARE : max);
}

#define MD_CLIENTS_MAX       4096
#define MD_CLIENTS_PER_ACCOUNT 1024 /* a host full of ranks of one user */
/* Frames that a process has not read yet: several for each of a thousand QPs that move at once. */
#define MD_CLIENT_SOCKET_BYTES (4 << 20)
/*
 * Unread frames of all processes of an account, and of all accounts: the kernel charges their memory to the agent.
 * Root's processes are not counted.
 */
#define MD_UNREAD_PER_ACCOUNT (64u << 20)
#define MD_UNREAD_MAX         (256u << 20)
#define MD_UNREAD_EACH        768 /* estimated overhead of the kernel for a packet, in bytes */
#define MD_WEIGH_NS           (10 * MD_MS) /* where there is no room, the kernel is asked for exact figures at most so often */
#define MD_QPS_MAX           262144
#define MD_QPS_PER_ACCOUNT   131072
#define MD_STRAYS_MAX        253 /* file descriptors in one packet: SCM_MAX_FD of the kernel */
#define MD_REFUSED_MAX       32 /* refused connections that are being closed; beyond, no connection is accepted */
/*
 * Look-ups of a QP's owner in a turn, for all processes. Assumption, not measured on a card: a look-up is a firmware
 * command of 50 us. A turn then takes less than MD_BUSY_NS, and no path becomes suspect to other hosts for it. If 1,000 QPs
 * move at once, their first messages need 32 turns; a turn without questions has some fifty messages, as many as a packet
 * holds.
 */
#define MD_QUESTIONS_PER_TURN 32
/*
 * The same for messages of other hosts: hosts that one account wants, and the hosts of each link. A message that would
 * need a further look-up is dropped without ack, and its sender repeats it. Only messages to a QP that is not
 * confirmed, or that begin a conversation, need one; copies of a message that has arrived need none. Example: 16,384 QPs
 * begin to move at once, and the first messages of all of them arrive on one link.
 */
#define MD_QUESTIONS_BURST	  16384
#define MD_QUESTIONS_RATE	  2048 /* a second: with 50 us each, a tenth of a processor */
#define MD_QUESTIONS_WANTED_BURST 65536 /* half of the QPs of an account */
#define MD_QUESTIONS_WANTED_RATE  8192
#define MD_INDEX_NS          (5 * MD_S) /* the kernel's index of a device is looked up again after this time */
/* If processes of an account used MD_BUSY_NS out of MD_BUSY_OF_NS, its clients queue: see struct md_clients_backlog. */
#define MD_BUSY_NS           (2 * MD_MS)
#define MD_BUSY_OF_NS        (16 * MD_MS)
/* Frames of one process, to the end of the packet, before the next process has its turn; also not beyond MD_BUSY_NS. */
#define MD_FRAMES_PER_TURN   64

/* Messages under way. */
#define MD_MSGS_MAX           8192 /* about 700 bytes each */
#define MD_MSGS_PER_CLIENT 2048
#define MD_MSGS_PER_ACCOUNT 4096
/*
 * Messages of processes that are gone. Otherwise a process that connects again and again, with its full share each
 * time, leaves no room for others.
 */
#define MD_ORPHANS_MAX        2048
#define MD_KNOWN_NS           (10 * MD_MS) /* least time between two looks at all messages that wait for a host to become known */
/* Messages sent again when cookies are learnt; 64 messages that are looked at count as one. */
#define MD_LEARNED_BURST      32768
#define MD_LEARNED_RATE       16384 /* a second: a tenth of a processor */
#define MD_TRIES              5
/* Messages tried again in one iteration of the event loop. Thousands may be due, and a try sends MD_PATHS_AT_ONCE datagrams. */
#define MD_TRIES_PER_TURN     64
#define MD_TRIES_KEPT         3 /* if the process sends the same message again and again, this try is repeated */
#define MD_TRIES_SLOW_NS      (200 * MD_MS) /* the second try waits at most so long, where acks are slow */
#define MD_TRIES_FEW          2 /* the first tries use one address pair on each of MD_PATHS_FIRST netdevs */
#define MD_PATHS_FIRST        3 /* netdevs of the first tries */
#define MD_PATHS_AT_ONCE      8 /* address pairs of a later try; the next try takes the following pairs */
#define MD_PATHS_MAX          72 /* address pairs of a host that are considered: 8 rails that hear 8 rails each, and 8 that are known otherwise */
#define MD_CUT_MAX            8 /* netdevs by which a host is known to be unreachable; further ones are not noted */
#define MD_BUNDLES            32 /* bundles that are filled at a time, 1.2 KiB each */
#define MD_ACKS_NS            (5 * MD_MS) /* acks are batched so long: a quarter of the time until the second try */
#define MD_BUNDLES_ASK_NS     MD_S /* until a host is asked again whether it takes bundles; doubles */
#define MD_BUNDLES_ASK_MAX    6 /* so many times at most */
/* Cookies are renewed ahead of time for hosts that a process at work may need at once. */
#define MD_COOKIE_REFRESH_NS  (250 * MD_MS)
#define MD_COOKIE_REFRESH_HOSTS 32 /* hosts in one look, so that MD_PROBES_MAX hosts are renewed in time */
#define MD_GID_HOSTS_MAX      4 /* hosts with one link-local GID; a message goes to each */
/*
 * Messages accepted without a fleet key. A bundle has more than a hundred messages, and anybody may send bundles, or
 * invent hosts with keys. 10,000 QPs of a host that move at once send half of the burst.
 */
#define MD_MESSAGES_BURST     65536 /* messages of one host; all unknown hosts on a link together have a sixteenth */
#define MD_MESSAGES_RATE      16384 /* messages of one host in a second */
/* messages of all hosts of a kind: those that one account wants; others on a link that seal; others there that do not */
#define MD_MESSAGES_ALL_BURST 524288
#define MD_MESSAGES_ALL_RATE  32768 /* messages of all hosts of a kind in a second */
#define MD_DEDUP_SLOTS        16384 /* hashes of messages that have arrived, 8 bytes each, two tables */
/* messages are remembered so long: all tries take one second, unless the process repeats its message meanwhile */
#define MD_DEDUP_NS           (2 * MD_S)

/* Probes of paths. */
#define MD_PROBES_MAX         4096 /* paths: 16 rails to 256 hosts; about 300 bytes each */
#define MD_PATHS_PER_ACCOUNT  3072 /* paths of one account */
#define MD_WATCHES_PER_CLIENT 1024 /* paths that one process watches */
/*
 * Watches of all processes: 128 bytes each (x86-64), and 40 for the first one of an account on a path. Whoever tells of a
 * path looks at all those of the path.
 */
#define MD_WATCHES_MAX	       524288 /* 128 processes for each of MD_PROBES_MAX paths: containers full of ranks */
#define MD_WATCHES_PER_ACCOUNT 262144 /* 256 ranks of one user with as many as one process may have */
/*
 * With more than 40 paths the interval grows. All accounts together have half as many probes besides, so that a user with
 * thousands of paths does not make the intervals of others longer.
 */
#define MD_PROBES_PER_S       4000 /* our probes in a second */
#define MD_PROBES_BURST_PER_S 20000 /* the same while paths are suspect */
#define MD_PROBES_EACH_NS     250 /* between two ticks, for each path: looking at all takes a tenth of a processor */
#define MD_PROBE_ACCOUNTS     8 /* accounts of a path that are looked at: which of them has the fewest paths? */
#define MD_PROBES_PER_TURN    512
/*
 * Processes that are told the state of paths in one tick, before the others have to wait for their turn: thousands may
 * watch each of hundreds of paths that fail together. A warning is a packet of its own, and counts as several.
 */
#define MD_TELLS_AT_ONCE      8192
#define MD_TELLS_OF_WARNING   8
#define MD_TELLS_PER_TURN     512 /* processes that could not be told the state of a path: so many are tried again */
#define MD_WITNESSES_MAX      8 /* other paths to a suspect's host that are probed with it */
#define MD_ECHOES_PER_S       20000 /* probes of others that are answered in a second, on one link */
/*
 * All netdevs share a socket, and datagrams of a netdev whose queue is stuck fill the send buffer. Limits in percent of
 * the buffer in use. From SCARCE on, a path that does not answer gets one probe a second, and a few suspects get all
 * probes that their rounds need. From SCARCER on, paths that do not answer get none. From SCARCEST on, probes over
 * paths that we do not know are not answered.
 */
#define MD_SCARCE_PERCENT     25
#define MD_SCARCER_PERCENT    50
#define MD_SCARCEST_PERCENT   75
#define MD_SCARCE_SUSPECTS    4 /* suspects that get all their probes: a few complete verdicts are worth more than many halves */
#define MD_SCARCE_NS          MD_S
/*
 * Datagrams a second to addresses that have shown no cookie, while MD_SCARCE_PERCENT of the send buffer or more are in use:
 * for each link, each wanted host, and each account that asks for hosts (exchange/unproven.c). From MD_SCARCEST_PERCENT on
 * none are sent. Reason: where nobody has the address, the kernel keeps the datagram for three seconds.
 */
#define MD_SCARCE_UNPROVEN    16

#define MD_LOG_AGAIN_NS (60 * MD_S) /* the log names a refused host, or other reason, at most so often */

/*
 * Datagrams in one iteration of the event loop, of each socket. A bundle has more than a hundred messages, each of which may
 * need a look-up of 50 us. So no further datagram is read after a time, either: the time that usual datagrams, of 10 us, do
 * not need.
 */
#define MD_DATAGRAMS_PER_TURN 64
#define MD_DATAGRAMS_NS	      MD_BUSY_NS
#define MD_DATAGRAMS_DRAINED  512 /* before the silence of others counts */
#define MD_DRAINED_NS	      (8 * MD_BUSY_NS)

/* Control connections: people and their scripts. */
#define MD_CONTROLS_MAX 32
#define MD_CONTROLS_PER_ACCOUNT 8
#define MD_ANSWER_BYTES_MAX (16u << 20) /* longer answers are cut: some 13,000 hosts of two ports, or 50,000 QPs */
#define MD_ANSWERS_BYTES_MAX (64u << 20) /* unread answers of all control connections */
#define MD_ANSWERS_SHARE 4 /* after an answer, users other than root wait so many times as long as it took to make */
#define MD_REQUEST_MAX  4096
#define MD_CONTROL_NS   (10 * MD_S)

#endif
