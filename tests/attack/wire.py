# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What agents and processes say to each other, written by hand: an attacker does not use our code.

Formats: meshverbsd/secure/secure.h, beacon.h, desc.h, msg_envelope.h, libmeshverbs/wire/ctl.h, directory.h.
"""

import ctypes
import ipaddress
import struct

PORT = 28791
BEACON, QUERY, ENTRY, MESSAGE, CHALLENGE, PROOF = range(1, 7)
BUNDLE, IDENTITY = 9, 10
HEADER = struct.Struct("!4sBBBBQ16sQQ16s16s")
NO_COOKIE = bytes(16)
ROCE_V2 = 3


def gid(text):
    address = ipaddress.ip_address(text)
    return bytes(10) + b"\xff\xff" + address.packed if address.version == 4 else address.packed


class Header:
    """The front of a datagram."""

    FIELDS = ("magic", "version", "kind", "protection", "about", "key_id", "sender", "start", "counter", "cookie", "mine")

    def __init__(self, **fields):
        self.magic, self.version, self.kind, self.protection, self.about, self.key_id = b"MVDG", 1, QUERY, 0, 0, 0
        self.sender, self.start, self.counter, self.cookie, self.mine = bytes(16), 1, 1, NO_COOKIE, NO_COOKIE
        for name, value in fields.items():
            assert name in self.FIELDS, name
            setattr(self, name, value)

    @classmethod
    def parse(cls, datagram):
        return cls(**dict(zip(cls.FIELDS, HEADER.unpack_from(datagram))))

    def pack(self):
        return HEADER.pack(*(getattr(self, name) for name in self.FIELDS))


def text(value):
    raw = value.encode()
    return bytes([len(raw)]) + raw


def rail(device, netdev, gids, flags=1, prefix_len=128):
    """A rail of a description; @gids: texts, or (text, bits of prefix)."""
    out = text(device) + text(netdev) + struct.pack("!IiHHBBBH", 100000, -1, 0, 4096, 1, 2, flags, len(gids))
    for index, entry in enumerate(gids):
        address, bits = entry if isinstance(entry, tuple) else (entry, prefix_len)
        out += gid(address) + struct.pack("!IHBB", index, 0xffff, ROCE_V2, bits)
    return out


def description(*rails):
    n_gids = sum(struct.unpack_from("!H", one, 1 + one[0] + 1 + one[1 + one[0]] + 15)[0] for one in rails)
    return struct.pack("!HH", len(rails), n_gids) + b"".join(rails)


def beacon(desc, name="mallory", rail_number=0, generation=1, interval_ms=1000):
    """Payload of BEACON and ENTRY, in one piece."""
    return struct.pack("!BBHHHIIQ", 1, 0, rail_number, CTL_VERSION, len(desc), interval_ms, len(desc), generation) + text(name) + desc


def pieces(desc, name="mallory", rail_number=0, generation=1, interval_ms=1000, size=1000):
    """Payloads of BEACON and ENTRY with a description of any length, in its pieces."""
    return [struct.pack("!BBHHHIIQ", 1, number, rail_number, CTL_VERSION, len(part), interval_ms, len(desc), generation) + text(name) + part
            for number, part in enumerate(desc[at:at + size] for at in range(0, len(desc), size))]


class Signer:
    """An Ed25519 key pair of our own, from libsodium."""

    def __init__(self, seed):
        self.sodium = ctypes.CDLL("libsodium.so.23")
        self.sodium.sodium_init()
        public, self.secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(64)
        self.sodium.crypto_sign_seed_keypair(public, self.secret, seed)
        self.public = public.raw

    def sign(self, *parts):
        """Of a message in parts: Ed25519ph."""
        state, signature = ctypes.create_string_buffer(self.sodium.crypto_sign_statebytes()), ctypes.create_string_buffer(64)
        self.sodium.crypto_sign_init(state)
        for part in parts:
            self.sodium.crypto_sign_update(state, part, ctypes.c_ulonglong(len(part)))
        self.sodium.crypto_sign_final_create(state, signature, None, self.secret)
        return signature.raw


def statement(signer, sender, start, name, generation=1, content=bytes(32)):
    """Payload of IDENTITY: what a host signs of itself (ident/statement.h)."""
    body = struct.pack("!BBHQ", 1, 1, 0, generation) + content + signer.public + b"\x09" + bytes(31) + bytes(32 + 64) + text(name)
    return body + signer.sign(b"mv statement 1\0\0" + sender + struct.pack("!Q", start), body)


def envelope(data, number):
    return struct.pack("!BBHQQ", 1, 1, len(data), number, 0) + data


def ack(number, start):
    return struct.pack("!BBHQQ", 1, 2, 0, number, start)


def parse_envelope(payload):
    """(operation, number, start, data)"""
    _, operation, length, number, start = struct.unpack_from("!BBHQQ", payload)
    return operation, number, start, payload[20:20 + length]


CTL_VERSION = 3  # MV_CTL_VERSION
HELLO, OFFER, ANSWER, CONFIRM, REFUSE, BYE = range(1, 7)


def message(sender, receiver, kind=HELLO, tag=0, attempt=1, path=None, nonces=(1, 0)):
    """From process to process; ends are (GID text, QPN). An attacker does not know the PSNs: whatever seal there is is none."""
    return (struct.pack("!BBBBBBHHHIIQQI", CTL_VERSION, kind, 0, 0, ROCE_V2, 3, 0, 0, 0, attempt, 0, *nonces, 0) +
            gid(sender[0]) + struct.pack("!I", sender[1]) + gid(receiver[0]) + struct.pack("!I", receiver[1]) +
            struct.pack("!Q", tag) + (gid(path[0]) + struct.pack("!I", path[1]) if path else bytes(20)) + bytes(16) + bytes(8))


REGISTER, WELCOME, REGISTER_QP, UNREGISTER_QP, SEND, DELIVER, UNREACHABLE, STATUS, CHANGED = range(1, 10)
REFUSED, LOOK, LOOKED, SENDERS = 15, 16, 17, 18


def frame(kind, device="", qpn=0, dgid=None, payload=b"", version=0, qp_type=0):
    raw = device.encode()
    return (struct.pack("!BBBBI", kind, version, qp_type, len(raw), qpn) + (gid(dgid) if dgid else bytes(16)) +
            struct.pack("!H", len(payload)) + raw + payload)


def parse_frame(raw):
    """(kind, device, qpn, payload)"""
    kind, _, _, device_len, qpn = struct.unpack_from("!BBBBI", raw)
    length, = struct.unpack_from("!H", raw, 24)
    device = raw[26:26 + device_len].decode()
    return kind, device, qpn, raw[26 + device_len:26 + device_len + length]


class Directory:
    """RUN_DIR/directory, as a process reads it."""

    HEAD = struct.Struct("=QIIQIIQ4I5I")
    HOST = struct.Struct("=16s64sIIIIQ")
    RAIL = struct.Struct("=64s16sIIIIiHHBBBB")
    GID = struct.Struct("=16sIIHBB4x")

    def __init__(self, path):
        with open(path, "rb") as file:
            raw = file.read()
        head = self.HEAD.unpack_from(raw)
        n_hosts, n_rails, n_gids, n_links, hosts_at, rails_at, gids_at, _, links_at = head[7:]
        self.hosts = [self.HOST.unpack_from(raw, hosts_at + i * self.HOST.size) for i in range(n_hosts)]
        self.rails = [self.RAIL.unpack_from(raw, rails_at + i * self.RAIL.size) for i in range(n_rails)]
        self.gids = [self.GID.unpack_from(raw, gids_at + i * self.GID.size) for i in range(n_gids)]
        self.links = [struct.unpack_from("=II", raw, links_at + 8 * i) for i in range(n_links)]

    def up(self, address):
        """Is the port of that GID said to be up?"""
        return any(self.rails[entry[1]][11] & 1 for entry in self.gids if entry[0] == gid(address))

    def unmet(self, address):
        """Is it of a network of this host on whose link the GID's host was never heard?"""
        return any(entry[2] >> 31 and entry[2] != 0xffffffff for entry in self.gids if entry[0] == gid(address))

    def names(self):
        return {host[1].rstrip(b"\0").decode() for host in self.hosts[1:]}

    def holders(self, address):
        """Names of the hosts that have a GID; "" for this host."""
        found = set()
        for entry in self.gids:
            if entry[0] == gid(address):
                number = self.rails[entry[1]][2]
                found.add(self.hosts[number][1].rstrip(b"\0").decode() if number else "")
        return found
