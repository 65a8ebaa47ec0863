#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# meshverbs-front on a made-up host below a directory: update, refresh, refusal, removal.
#   root.sh TOOL PLUGIN OLD-LIBRARY NEW-LIBRARY
# shellcheck disable=SC2317 # functions are called through others, by name
set -euo pipefail

tool=$1 plugin=$2 old=$3 new=$4
[ "$(id -u)" -eq 0 ] || { echo "skipped: ldconfig -r needs root"; exit 77; }
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
root=$here/root failed=0

check() { # WHAT COMMAND...
	local what=$1
	shift
	if "$@" >"$here/now" 2>&1; then echo "ok: $what"; else
		echo "FAILED: $what: $*"; cat "$here/now"; failed=1
	fi
	[ "$1" = says ] || cp "$here/now" "$here/said"
}

exits() { # STATUS COMMAND...
	local want=$1 got=0
	shift
	"$@" || got=$?
	[ "$got" -eq "$want" ] || { echo "exit status $got, not $want"; return 1; }
}

says() { grep -q -- "$1" "$here/said"; }

host() { # a fresh host with the old library
	rm -rf "$root"
	mkdir -p "$root"/{etc/ld.so.conf.d,lib/libs,opt,lib/libibverbs}
	echo "include /etc/ld.so.conf.d/*.conf" >"$root/etc/ld.so.conf"
	echo /lib/libs >"$root/etc/ld.so.conf.d/libs.conf"
	cp "$old" "$root/lib/libs/libmlx5.so.1.0"
	ln -s libmlx5.so.1.0 "$root/lib/libs/libmlx5.so.1"
	cp "$plugin" "$root/lib/libibverbs/libmesh.so"
	/sbin/ldconfig -r "$root"
	files >"$here/before"
}

files() { (cd "$root" && find . ! -name ld.so.cache ! -path './var*' -printf '%p %y %l\n' | sort); }
unchanged() { files | diff "$here/before" -; }
front() { "$tool" --root "$root" --dir /opt/mesh/front --plugin /lib/libibverbs/libmesh.so "$@"; }
cached() { /sbin/ldconfig -r "$root" -p | sed -n "s/^\t$1 .*=> //p" | head -1; }
first() { [ "$(cached "$1")" = "$2" ]; }
named_are_there() { # no library that ld.so's cache names is gone
	local path
	/sbin/ldconfig -r "$root" -p | sed -n 's/^\t.*=> //p' | while read -r path; do [ -e "$root$path" ] || { echo "$path"; return 1; }; done
}
# ldconfig lists what the cache has, but cannot make it anew: a full disk, or one that is read-only.
cp /sbin/ldconfig "$here/ldconfig"
# shellcheck disable=SC2016 # for that shell to expand
printf '#!/bin/sh\n[ "$1" = -p ] || exit 1\nexec %s "$@"\n' "$here/ldconfig" >"$here/broken"
# ... nor lists it
printf '#!/bin/sh\nexit 1\n' >"$here/none"
chmod +x "$here/broken" "$here/none"
ldconfig_is() { # broken|none COMMAND...
	local program=$here/$1 words
	shift
	words=("$@")
	[ "$1" != front ] || words=("$tool" --root "$root" --dir /opt/mesh/front --plugin /lib/libibverbs/libmesh.so "${@:2}")
	# shellcheck disable=SC2016
	unshare --mount --propagation private bash -euc 'mount --bind "$1" "$(readlink -f /sbin/ldconfig)"; shift; exec "$@"' sh "$program" "${words[@]}"
}
newest() { tr "\0" "\n" <"$root/opt/mesh/front/libmlx5.so.1" | grep -qxa "$1"; }
quiet_readelf() { [ -z "$(readelf -aW "$root/opt/mesh/front/libmlx5.so.1" 2>&1 >/dev/null)" ]; }

host
check "nothing there: status 1" exits 1 front status
check "update" exits 0 front update
check "status 0 afterwards" exits 0 front status
check "ld.so takes the front" first libmlx5.so.1 /opt/mesh/front/libmlx5.so.1
check "readelf finds nothing to warn of" quiet_readelf
if command -v eu-elflint >/dev/null; then
	check "eu-elflint finds nothing" exits 0 eu-elflint --gnu-ld "$root/opt/mesh/front/libmlx5.so.1"
fi
check "no development name where the host has none" exits 1 test -e "$root/opt/mesh/front/libmlx5.so"
stat -c '%i %Y' "$root/opt/mesh/front/libmlx5.so.1" "$root/etc/ld.so.cache" >"$here/stat"
check "a second update" exits 0 front update
check "... changes no file" diff "$here/stat" <(stat -c '%i %Y' "$root/opt/mesh/front/libmlx5.so.1" "$root/etc/ld.so.cache")

cp "$new" "$root/lib/libs/libmlx5.so.1.new" && mv "$root/lib/libs/libmlx5.so.1.new" "$root/lib/libs/libmlx5.so.1.0"
check "another library: status 1" exits 1 front status
check "... update" exits 0 front update
check "... has its versions, and spare ones behind" newest MLX5_1.18
check "... status 0" exits 0 front status

ln -s libmlx5.so.1 "$root/lib/libs/libmlx5.so" && /sbin/ldconfig -r "$root"
check "the development link appears: status 1" exits 1 front status
check "... update" exits 0 front update
check "... and the front has one that comes first" first libmlx5.so /opt/mesh/front/libmlx5.so
rm "$root/lib/libs/libmlx5.so" && /sbin/ldconfig -r "$root"
check "it goes: update" exits 0 front update
check "... and the front's went too" exits 1 test -L "$root/opt/mesh/front/libmlx5.so"

check "remove" exits 0 front remove
check "... leaves the host as it was" unchanged
check "... ld.so takes the library" first libmlx5.so.1 /lib/libs/libmlx5.so.1
check "remove again" exits 0 front remove

host
truncate -s 2000 "$root/lib/libs/libmlx5.so.1.0"
check "a damaged library is refused" exits 2 front update
check "... and named" says /lib/libs/libmlx5.so.1
check "... nothing was changed" unchanged

host
rm "$root/lib/libibverbs/libmesh.so"
check "no plugin: refused" exits 2 front update
check "... and named" says /lib/libibverbs/libmesh.so

host
rm "$root"/lib/libs/libmlx5* && /sbin/ldconfig -r "$root"
check "no libmlx5: refused" exits 2 front update
check "... and said" says "no 64-bit libmlx5.so.1"

host
echo /lib/libs | cat - "$root/etc/ld.so.conf" >"$here/conf" && cp "$here/conf" "$root/etc/ld.so.conf" && /sbin/ldconfig -r "$root"
files >"$here/before"
check "a directory that ld.so.conf has first: refused" exits 2 front update
check "... and said" says "comes before"
check "... nothing is left" unchanged
check "... ld.so takes the library" first libmlx5.so.1 /lib/libs/libmlx5.so.1

host
front update >/dev/null
rm "$root"/lib/libs/libmlx5* && /sbin/ldconfig -r "$root"
check "the library goes after update: refused" exits 2 front update
check "... and the front is taken away" exits 1 test -e "$root/opt/mesh"

host
mv "$root/lib/libs" "$root/lib/away" && mkdir "$root/lib/libs" && /sbin/ldconfig -r "$root"
mv "$root"/lib/away/* "$root/lib/libs"
check "a library that ld.so's cache does not have yet: refused" exits 2 front update
check "... but with the cache brought up to date first" exits 0 front --cache update
check "... ld.so takes the front" first libmlx5.so.1 /opt/mesh/front/libmlx5.so.1

for how in broken none; do
	host
	front update >/dev/null
	check "ldconfig ($how) fails: remove says so" exits 2 ldconfig_is "$how" front remove
	check "... and what ld.so's cache names is there" named_are_there
	check "... also after a second try" exits 2 ldconfig_is "$how" front remove
	check "... it is there" named_are_there
	check "... it is out of the cache as soon as ldconfig works" exits 0 /sbin/ldconfig -r "$root"
	check "... ld.so takes the library" first libmlx5.so.1 /lib/libs/libmlx5.so.1
	check "... remove" exits 0 front remove
	check "... leaves the host as it was" unchanged
done
check "nothing there, and ldconfig fails: remove" exits 0 ldconfig_is broken front remove

host
check "ldconfig fails: no update" exits 2 ldconfig_is broken front update
check "... nothing is left, for ld.so's cache does not name it" unchanged
front update >/dev/null
check "ldconfig fails altogether: no update" exits 2 ldconfig_is none front update
check "... and what ld.so's cache names is there" named_are_there
front update >/dev/null
cp "$new" "$root/lib/libs/libmlx5.so.1.0"
check "another library, and ldconfig fails: no update" exits 2 ldconfig_is broken front update
check "... and what ld.so's cache names is there" named_are_there
truncate -s 2000 "$root/lib/libs/libmlx5.so.1.0"
check "a damaged library, and ldconfig fails: no update" exits 2 ldconfig_is broken front update
check "... and said" says "out of ld.so's cache"
check "... the front is worse than none" exits 1 test -e "$root/opt/mesh/front/libmlx5.so.1"

host
ln -sf /lib/libs/libmlx5.so.1.0 "$root/lib/libs/libmlx5.so.1"
check "an absolute link below the root" exits 0 front update

# Links in a root that belongs to somebody else: they lead to where they would lead there, and not out of it.
mkdir "$here/outside"
outside() { # COMMAND...: nothing outside changes, whatever the command ends with
	(cd "$here/outside" && find . -printf '%p %y %l\n' | sort) >"$here/outside.before"
	"$@" || :
	(cd "$here/outside" && find . -printf '%p %y %l\n' | sort) | diff "$here/outside.before" -
}
echo precious >"$here/outside/libmlx5.so.1"
echo precious >"$here/outside/00-meshverbs.conf"
for target in "$here/outside" "../../../../../../../../../..$here/outside"; do
	for place in opt/mesh opt/mesh/front etc/ld.so.conf.d; do
		host
		mkdir -p "$root/opt/mesh"
		rm -rf "${root:?}/$place"
		ln -s "$target" "$root/$place"
		[ "$place" != etc/ld.so.conf.d ] || echo /lib/libs >>"$root/etc/ld.so.conf"
		check "a link out of the root at $place: update leaves what is there" outside front update
		check "... remove as well" outside front remove
		check "... nothing was written over" exits 1 grep -vq precious "$here/outside/libmlx5.so.1" "$here/outside/00-meshverbs.conf"
	done
done
for name in opt/mesh/front/libmlx5.so.1.new etc/ld.so.conf.d/00-meshverbs.conf.new; do
	host
	mkdir -p "$root/opt/mesh/front"
	ln "$here/outside/libmlx5.so.1" "$root/$name"
	check "another name of a file outside, $name: update" exits 0 front update
	check "... and the file is as it was" grep -qx precious "$here/outside/libmlx5.so.1"
done
host
mv "$root/opt" "$root/other" && ln -s /other "$root/opt"
check "an absolute link of a directory below the root: update" exits 0 front update
check "... follows it there" test -e "$root/other/mesh/front/libmlx5.so.1"
check "... status 0" exits 0 front status
check "... remove" exits 0 front remove
check "... takes all of it" exits 1 test -e "$root/other/mesh"
check "unknown command: 2" exits 2 front refresh
check "relative root: 2" exits 2 "$tool" --root . status
exit $failed
