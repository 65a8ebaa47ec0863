# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
# Sourced by every script of these tests inside a guest. Starts as few processes as it can: each costs
# tens of milliseconds under emulation.
GIDS=/sys/class/infiniband/rxe0/ports/1/gids
LOG=/var/log/meshverbs.log
OUT=/tmp/program.out
ZERO=0000:0000:0000:0000:0000:0000:0000:0000
exec 9<> <(:)

pause() { read -rt 0.02 -u 9; }

broken() { # the test itself cannot go on
	echo "@@broken $*"
	table
	ip -br addr
	kill "${pid:-}" 2>/dev/null
	exit 99
}

until_true() { # SECONDS COMMAND...: whether the command succeeds in that time
	local end=$((SECONDS + $1))
	shift
	while ! "$@"; do
		[ $SECONDS -le $end ] || return 1
		pause
	done
}

table() { # the used slots of rxe0's GID table
	local i gid text=
	for i in {0..9}; do
		read -r gid <"$GIDS/$i"
		[ "$gid" = $ZERO ] || text+=" $i=$gid"
	done
	echo "@@table$text"
}

holds() { local gid; read -r gid <$GIDS/"$1" && [ "$gid" = "$2" ]; }
at() { until_true 60 holds "$1" "$2" || broken "GID $2 did not come at index $1"; }
free() { at "$1" $ZERO; }
empty() { holds "$1" $ZERO; }
not_empty() { ! empty "$1"; }
taken() { until_true 60 not_empty "$1" || broken "index $1 stays empty"; }

add() { # ADDRESS [NETDEV]
	local nodad=
	[ "${1/:/}" = "$1" ] || nodad=nodad
	ip addr add "$1" dev "${2:-eth0}" $nodad || broken "no address $1"
}

del() { ip addr del "$1" dev "${2:-eth0}" || broken "cannot remove address $1"; }

vlan() { # ADDRESS: eth0.100 with that address
	ip -batch - <<-END || broken "no VLAN netdev"
		link add link eth0 name eth0.100 type vlan id 100
		addr add $1 dev eth0.100
		link set eth0.100 up
	END
	tc qdisc add dev eth0.100 root pfifo
}

foreign_vlan() { # ADDRESS: eth0.100 with that address in a network namespace of its own
	ip -batch - <<-END || broken "no VLAN netdev"
		netns add other
		link add link eth0 name eth0.100 type vlan id 100
		link set eth0.100 netns other
	END
	ip -n other -batch - <<-END || broken "no VLAN netdev in the other namespace"
		addr add $1 dev eth0.100
		link set eth0.100 up
	END
}

fresh_table() { # LINK_LOCAL_GID GID: slot 0, slot 1, and nothing else
	local i
	holds 0 "$1" && holds 1 "$2" || return 1
	for i in {2..9}; do
		holds "$i" $ZERO || return 1
	done
}

reset() { # as after the boot; ADDRESS LINK_LOCAL_GID GID, and neighbour commands for ip on stdin
	local neighbours
	mapfile neighbours
	echo 0 >/proc/sys/net/ipv4/conf/eth0/rp_filter
	[ ! -e /run/netns/other ] || ip netns del other
	[ ! -e /sys/class/net/eth0.100 ] || ip link del eth0.100
	ip -force -batch - <<-END
		addr flush dev eth0 scope global
		link set eth0 up
		addr add $1 dev eth0
		${neighbours[@]}
	END
	if ! until_true 1 fresh_table "$2" "$3"; then # a program was killed, or has left slots in use
		rdma link del rxe0
		rdma link add rxe0 type rxe netdev eth0
		until_true 60 fresh_table "$2" "$3" || broken "the GID table does not become as after the boot"
	fi
	: >$LOG
}

tcp_state() { # PORT STATE: a socket with that local (0A, listening) or remote (02, connecting) port
	local rows hex
	printf -v hex %04X "$1"
	mapfile -t rows </proc/net/tcp
	mapfile -t -O ${#rows[@]} rows </proc/net/tcp6
	case $2 in
	0A) [[ ${rows[*]} =~ :$hex\ [0:]+\ 0A ]] ;;
	02) [[ ${rows[*]} =~ :$hex\ 02\  ]] ;;
	esac
}

cm_listens() { [[ $(rdma resource show cm_id) =~ :$1\ .*LISTEN|LISTEN.*:$1\  ]]; }
said() { [ -e $OUT ] && [[ $(<$OUT) =~ $1 ]]; }

begin() { # CONDITION PROGRAM...: start it in the background and wait for the condition
	local condition=$1
	shift
	rm -f /tmp/hold $OUT
	mkfifo /tmp/hold
	"$@" </tmp/hold >$OUT 2>&1 &
	pid=$!
	exec 8>/tmp/hold
	until_true 120 eval "$condition || ! kill -0 $pid 2>/dev/null"
	eval "$condition" || broken "not seen: $condition; the program said: $(<$OUT)"
}

finish() { # go on, and end as the program does, the log behind what it said
	local rc
	echo >&8
	exec 8>&-
	wait "$pid"
	rc=$?
	echo "$(<$OUT)"
	echo @@log
	echo "$(<$LOG)"
	exit $rc
}
