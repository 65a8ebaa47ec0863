# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs, and where they find NCCL."""
import dataclasses
import glob
import os
import pathlib
import re
import subprocess

from nicmatrix.world import skip

PLACES = ("/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
          "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib", "/usr/local/lib/python3*/*-packages/nvidia/*/lib")
# The management network is the sockets', the HCAs' own warnings are wanted; a local ACK timeout of 67 ms and three
# attempts to connect instead of 34 let bare ranks fail in seconds.
SETTINGS = {"NCCL_SOCKET_IFNAME": "mgmt0", "NCCL_DEBUG": "WARN", "NCCL_IB_TIMEOUT": "14", "NCCL_IB_MQP_RETRY_CNT": "3"}
FAILOVER = "NCCL_IB_RESILIENCY_PORT_FAILOVER"  # from NCCL 2.29.7 on
# 2.29.7 has the failover work only with this: its receives are posted ahead then, so they do not say which request they are for.
BY_ID = {"NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME": "1"}
RECOVERY = "NCCL_IB_RESILIENCY_PORT_RECOVERY"  # from 2.30 on; needs the failover. Connections on a port that is back are made again
CUDART = "libcudart.so.1[23]"
GPU_SETTINGS = {"NCCL_NET": "IB", "NCCL_NET_GDR_LEVEL": "LOC"}
# The two numbers say that ranks differ in what they got, or have not got anything.
RIGHT = re.compile(r"nccl: rank (\d+) of (\d+): (\d+) all_reduces of \d+ bytes, every number right, results ([0-9a-f]{8});")
LONGEST = re.compile(r"longest(?: pause)? ([\d.]+) ms(?:;|$)", re.M)
VERSION = re.compile(r"NCCL (\d+\.\d+\.\d+)")


def library(variable, pattern):
    """Path of a library: what the variable says, or where it is usually installed."""
    given = os.environ.get(variable)
    found = [given] if given else [path for place in PLACES for path in sorted(glob.glob(f"{place}/{pattern}"))]
    return str(pathlib.Path(found[0]).resolve()) if found and pathlib.Path(found[0]).exists() else ""


@dataclasses.dataclass(frozen=True)
class Ranks:
    """How a rank is started."""

    program: str
    settings: dict
    rounds: int
    size: int  # bytes of an all_reduce

    @classmethod
    def find(cls, build, gpu, rounds, size):
        nccl = library("NCCL_LIBRARY", "libnccl.so.2")
        if not nccl:
            skip("no libnccl.so.2; NCCL_LIBRARY says where it is")
        settings = {**SETTINGS, "NCCL_LIBRARY": nccl}
        if gpu:
            cudart = library("CUDART_LIBRARY", CUDART)
            settings |= GPU_SETTINGS | ({"CUDART_LIBRARY": cudart} if cudart else {})
        return cls(str(build / f"tests/sim/nccl/sim_nccl_{'gpu' if gpu else 'net'}"), settings, rounds, size)

    def argv(self, rank, n_ranks, root, port, seconds, more=None):
        """more: settings of this rank; None as a value takes one away."""
        settings = {name: value for name, value in {**self.settings, **(more or {})}.items() if value is not None}
        return ["env", *(f"{name}={value}" for name, value in settings.items()), self.program, str(rank), str(n_ranks), str(root), str(port),
                "-n", str(self.rounds), "-s", str(self.size), "-t", str(seconds)]


def knows(path, *settings):
    """Which of these settings that NCCL has."""
    library = pathlib.Path(path).read_bytes()
    return tuple(name for name in settings if name.removeprefix("NCCL_").encode() + b"\0" in library)


def seem_gpudirect(world):
    """NCCL takes the hosts for ones with GPUDirect, and makes a queue pair to itself for each connection, to flush what came."""
    for pid in world.pids.values():
        subprocess.run(["nsenter", "-t", str(pid), "--mount", "sh", "-c",
                        "mount -t tmpfs tmpfs /sys/kernel/mm && mkdir -p /sys/kernel/mm/memory_peers/nv_mem && "
                        "echo 1 >/sys/kernel/mm/memory_peers/nv_mem/version"], check=True)


def skip_if_told(said):
    """End with 77 where a rank did, and say why."""
    found = re.search(r"^skipped: (.*)", said, re.M)
    if found:
        skip(found.group(1))


def results(said, n_ranks, rounds):
    """(what all ranks got, "") or ("", what is wrong)"""
    lines = RIGHT.findall(said)
    if sorted(int(rank) for rank, *_ in lines) != list(range(n_ranks)):
        return "", f"{len(lines)} of {n_ranks} ranks say that they worked"
    if {int(count) for _, _, count, _ in lines} != {rounds}:
        return "", "not all rounds were done"
    got = {digest for *_, digest in lines}
    return (got.pop(), "") if len(got) == 1 else ("", "ranks have different results")


def longest(said):
    """Milliseconds: the longest pause that a rank tells of."""
    return max((float(text) for text in LONGEST.findall(said)), default=0.0)
