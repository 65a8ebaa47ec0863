# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Reads the file in which a host's agent says whom it knows: libmeshverbs/directory/directory.h; pure."""
import dataclasses
import struct

MAGIC, VERSION = 0x3130726964766D, 1
HEADER = struct.Struct("=QIIQIIQ4I5I")  # magic version size heartbeat superseded pid generation, counts, offsets
HOST = struct.Struct("=16s64sIIIIQ")  # id name first_rail n_rails agent_version - heard
RAIL = struct.Struct("=64s16sIIIIiHHBBBB")  # device netdev host first_gid n_gids rate numa lid mtu port layer flags -
LINK = struct.Struct("=II")
RAIL_UP, RAIL_QUALIFIED = 1, 8


class BadDirectory(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Rail:
    host: str
    device: str
    netdev: str
    n_gids: int
    up: bool
    qualified: bool


@dataclasses.dataclass
class Directory:
    hosts: list  # names; the first is the host's own
    rails: list
    links: set  # (own device, other host, its device): the other's beacons are heard there
    generation: int
    pid: int


def text(field):
    return field.split(b"\0", 1)[0].decode(errors="replace")


def rows(layout, image, at, count):
    if at + count * layout.size > len(image):
        raise BadDirectory(f"{count} entries of {layout.size} bytes at {at} do not fit into {len(image)}")
    return list(layout.iter_unpack(image[at:at + count * layout.size]))


def parse(image):
    """The Directory in the bytes of a file; BadDirectory where they are not one."""
    if len(image) < HEADER.size:
        raise BadDirectory("too short")
    (magic, version, size, _, _, pid, generation, n_hosts, n_rails, _, n_links,
     hosts_at, rails_at, _, _, links_at) = HEADER.unpack_from(image)
    if (magic, version, size) != (MAGIC, VERSION, len(image)):
        raise BadDirectory(f"magic {magic:#x}, version {version}, {size} bytes of {len(image)}")
    hosts = [text(row[1]) for row in rows(HOST, image, hosts_at, n_hosts)]
    try:
        rails = [Rail(hosts[row[2]], text(row[0]), text(row[1]), row[4], bool(row[11] & RAIL_UP), bool(row[11] & RAIL_QUALIFIED))
                 for row in rows(RAIL, image, rails_at, n_rails)]
        links = {(rails[ours].device, rails[theirs].host, rails[theirs].device)
                 for ours, theirs in rows(LINK, image, links_at, n_links)}
    except IndexError:
        raise BadDirectory("an index points outside") from None
    return Directory(hosts, rails, links, generation, pid)
