# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Tap devices inside other network namespaces, so that a guest's NIC can face what lives there."""
import ctypes
import fcntl
import os
import pathlib
import re
import struct
import subprocess
import threading

from .errors import LabError

CLONE_NEWNET = 0x40000000  # linux/sched.h
TUNSETIFF = 0x400454CA  # linux/if_tun.h, as are the flags
IFF_TAP, IFF_NO_PI, IFF_TUN_EXCL = 0x0002, 0x1000, 0x8000


def parse(spec):
    """(port, namespace path, interface) of HOST.INDEX=NETNS:IFNAME; NETNS is a name or a pid."""
    match = re.fullmatch(r"([^=]+)=([^:/]+):([^:/ ]{1,15})", spec)
    if not match:
        raise LabError(f"bad --tap '{spec}'; write HOST.INDEX=NETNS:IFNAME, e.g. a.0=sim-b:tap0")
    port, netns, ifname = match.groups()
    path = pathlib.Path(f"/proc/{netns}/ns/net" if netns.isdigit() else f"/run/netns/{netns}")
    if not path.exists():
        raise LabError(f"--tap {spec}: no network namespace '{netns}' ({path}); see 'ip netns list'")
    return port, path, ifname


def create(netns, ifname, mtu):
    """File descriptor of a new tap in that namespace, up; the device lives as long as the descriptor."""
    result = []
    thread = threading.Thread(target=lambda: result.append(open_in(netns, ifname)))
    thread.start()  # setns() moves one thread only, and this one ends
    thread.join()
    fd, err = result[0]
    if err:
        raise LabError(f"cannot make tap {ifname} in {netns}: {err.strerror}")
    for args in (["mtu", str(mtu)], ["up"]):
        done = subprocess.run(["nsenter", f"--net={netns}", "ip", "link", "set", ifname, *args],
                              capture_output=True, text=True)
        if done.returncode:
            os.close(fd)
            raise LabError(f"tap {ifname} in {netns}: {done.stderr.strip()}")
    return fd


def open_in(netns, ifname):
    fd = -1
    try:
        with open(netns) as ns:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(ns.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        flags = IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", ifname.encode(), flags))
        return fd, None
    except OSError as err:
        if fd >= 0:
            os.close(fd)
        return -1, err
