#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Is the plugin active in programs that come to mlx5 in four ways, with and without the front?
#   programs.sh SIM TOOL PLUGIN DLOPEN-FIRST ABORTS SLOW
# SIM is the simulator's launcher; PLUGIN a stand-in that writes to $FRONT_TEST_LOADED, ABORTS one that ends its program,
# SLOW one that takes it longer than a trial may take. /etc is a copy in a mount namespace of the test's own.
# shellcheck disable=SC2317 # functions are called through others, by name
set -euo pipefail

if [ "${1:-}" != --inside ]; then
	sim=$1
	[ "$(id -u)" -eq 0 ] || { echo "skipped: namespaces need root"; exit 77; }
	for need in ib_write_bw:perftest ibv_devices:ibverbs-utils; do
		command -v "${need%:*}" >/dev/null || { echo "skipped: no ${need%:*}; apt-get install ${need#*:}"; exit 77; }
	done
	/usr/bin/python3 -c 'import pyverbs.device' 2>/dev/null || { echo "skipped: apt-get install python3-pyverbs"; exit 77; }
	exec "$sim" run -n "front-$$" pair a -- unshare --mount --propagation private bash "$0" --inside "${@:2}"
fi

tool=$2 plugin=$3 dlopen_first=$4 aborts=$5 slow=$6 failed=0
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
# The links' own /etc stays untouched: everything below is this copy.
mkdir "$here/etc"
cp -a /etc/. "$here/etc"
mount --bind "$here/etc" /etc
mkdir "$here/lib"
cp "$plugin" "$here/lib/libmesh-rdmav34.so"
echo "driver $here/lib/libmesh" >/etc/libibverbs.d/mesh.driver
front() { "$tool" --dir "$here/front" --plugin "$here/lib/libmesh-rdmav34.so" --conf /etc/ld.so.conf.d/00-front-test.conf "$@"; }

linked() { timeout 60 ib_write_bw -d no_such_device; } # ends after it listed the devices
dlopened() { timeout 60 "$dlopen_first"; }
verbs_only() { timeout 60 ibv_devices; }
python() { timeout 60 /usr/bin/python3 -c 'import pyverbs.device as d; print(len(d.get_device_list()))'; }

expect() { # PROGRAM active|inert OUTPUT
	local got=inert
	rm -f "$here/loaded"
	FRONT_TEST_LOADED=$here/loaded "$1" >"$here/said" 2>&1 || true
	[ ! -s "$here/loaded" ] || got=active
	if [ "$got" = "$2" ] && grep -q "$3" "$here/said"; then
		echo "ok: $1: $got"
	else
		echo "FAILED: $1: $got, not $2, or '$3' was not said:"; cat "$here/said"; failed=1
	fi
	if [ -n "${absent:-}" ] && grep -q "$absent" "$here/said"; then
		echo "FAILED: $1: said '$absent'"; failed=1
	fi
	if grep -qi 'version information\|error while loading\|symbol lookup' "$here/said"; then
		echo "FAILED: ld.so complained:"; cat "$here/said"; failed=1
	fi
}

echo "-- without the front"
expect linked inert "IB device no_such_device not found"
expect dlopened inert "devices 2 supported 2"
expect verbs_only active mlx5_1
expect python active 2
echo "-- with the front"
front update
front status
expect linked active "IB device no_such_device not found"
expect dlopened active "devices 2 supported 2"
expect verbs_only active mlx5_1
expect python active 2
echo "-- with the front, its plugin gone: programs go on as without it"
mv "$here/lib/libmesh-rdmav34.so" "$here/lib/away"
expect linked inert "IB device no_such_device not found"
expect dlopened inert "devices 2 supported 2"
mv "$here/lib/away" "$here/lib/libmesh-rdmav34.so"
echo "-- a plugin that kills its program is found out before it is installed"
front remove
cp "$here/lib/libmesh-rdmav34.so" "$here/lib/away" && truncate -s 4096 "$here/lib/libmesh-rdmav34.so"
if front update; then
	echo "FAILED: it was installed"; failed=1
else
	echo "ok: refused"
fi
[ ! -e "$here/front" ] || { echo "FAILED: $here/front is there"; failed=1; }
mv "$here/lib/away" "$here/lib/libmesh-rdmav34.so"
expect linked inert "IB device no_such_device not found"
echo "-- the plugin becomes one that kills programs behind a front that is in place and up to date: it is taken away"
front update
front update
expect linked active "IB device no_such_device not found"
cp "$here/lib/libmesh-rdmav34.so" "$here/lib/away" && cp "$aborts" "$here/lib/libmesh-rdmav34.so"
front status || { echo "FAILED: that changed the front"; failed=1; }
got=0
front update 2>"$here/said" || got=$?
if [ "$got" -eq 2 ] && grep -q 'Aborted; took the front away' "$here/said"; then
	echo "ok: exit 2, and said"
else
	echo "FAILED: exit $got:"; cat "$here/said"; failed=1
fi
[ ! -e "$here/front" ] || { echo "FAILED: $here/front is there"; failed=1; }
[ ! -e /etc/ld.so.conf.d/00-front-test.conf ] || { echo "FAILED: ld.so.conf.d names it"; failed=1; }
expect linked inert "IB device no_such_device not found"
expect dlopened inert "devices 2 supported 2"
mv "$here/lib/away" "$here/lib/libmesh-rdmav34.so"
front update
echo "-- it cannot be tried: what is there stays"
few_descriptors() {
	for fd in /proc/self/fd/*; do [ "${fd##*/}" -le 2 ] || eval "exec ${fd##*/}>&-"; done
	ulimit -n 6 # one for the lock; two for ldconfig's output; the child takes three
	front update
}
nothing_to_load_from() { # as in an installer's root: no /proc, and a /tmp that nothing can be run from
	unshare --mount bash -euc '
		mount -t tmpfs none /mnt && cp "$1" /mnt/tool # which may be in /tmp itself
		mount -t tmpfs none /proc
		mount --bind /tmp /tmp && mount -o remount,bind,noexec /tmp
		/mnt/tool "${@:2}"' -- "$tool" --dir "$here/front" --plugin "$here/lib/libmesh-rdmav34.so" \
		--conf /etc/ld.so.conf.d/00-front-test.conf update
}
too_slow() {
	cp "$here/lib/libmesh-rdmav34.so" "$here/lib/away" && cp "$slow" "$here/lib/libmesh-rdmav34.so"
	local got=0
	front update || got=$?
	mv "$here/lib/away" "$here/lib/libmesh-rdmav34.so"
	return $got
}
for why in few_descriptors nothing_to_load_from too_slow; do
	if ("$why") 2>"$here/said"; then
		echo "FAILED: $why: exit 0"; failed=1
	elif grep -q 'could not be tried' "$here/said"; then
		echo "ok: $why: refused, and said"
	else
		echo "FAILED: $why:"; cat "$here/said"; failed=1
	fi
	front status || { echo "FAILED: $why: it is not there any more"; failed=1; }
done
expect linked active "IB device no_such_device not found"
echo "-- the library's functions come from the library itself, and its constructors have run once"
mkdir "$here/copied"
cp "$here/front/libmlx5.so.1" "$here/copied"
twice() { # drivers by that name that libibverbs has: a second libmlx5 would have registered one more
	LD_DEBUG=bindings timeout 60 "$dlopen_first" 2>&1 | grep "normal symbol .mlx5dv_is_supported" | grep -v "to $library " || true
	timeout 60 "$dlopen_first"
}
library=$(/sbin/ldconfig -p | sed -n 's/.*libmlx5.so.1 .*=> //p' | grep -v "^$here/" | head -1)
absent="normal symbol" expect twice active "devices 2 supported 2"
echo "-- a runtime has copied the front into a container: the library is not there, or is the copy itself"
in_container() { # HIDE PROGRAM: what lies over the library's file
	unshare --mount --propagation private bash -euc 'mount --bind "$1" "$2"; LD_LIBRARY_PATH=$3 exec timeout 60 "${@:4}"' -- \
		"$1" "$(readlink -f "$library")" "$here/copied" "${@:2}"
}
without() { in_container /dev/null "$dlopen_first"; }
itself() { in_container "$here/copied/libmlx5.so.1" "$dlopen_first"; }
linked_without() { in_container /dev/null ib_write_bw -d no_such_device; }
for plugin_there in active inert; do
	[ "$plugin_there" = active ] || mv "$here/lib/libmesh-rdmav34.so" "$here/lib/away"
	expect without "$plugin_there" "devices 2 supported 2"
	expect itself "$plugin_there" "devices 2 supported 2"
	expect linked_without "$plugin_there" "IB device no_such_device not found"
done
umount /etc
exit $failed
