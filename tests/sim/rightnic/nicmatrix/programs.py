# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs of the matrix, as users start them: with a device, and nothing else that could help."""
import dataclasses

# The first IPv4 address, RoCE v2: libibverbs' examples want an index, perftest finds it alone. On InfiniBand they connect by LIDs.
GID = "-g 3"


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    command: str
    sane: str  # in the output of a client for which all went well


def perftest(name, count, size, *options):
    """The last row of perftest's table is the proof that all iterations were done."""
    words = [name, "-d {dev} -F -p {port}", f"-n {count}", *([f"-s {size}"] if size else []), *options]
    return Program(" ".join([name, *options]), " ".join(words), rf"\n *{size or 8} +{count} +(?:\d+\.\d+|inf)")


def pingpong(name, *options):
    return Program(" ".join([name, *options]), " ".join([name, "-d {dev} {gid} -p {port} -n 200 -c", *options]),
                   r"\b\d+ iters in " if name == "ibv_srq_pingpong" else r"\b200 iters in ")


PROGRAMS = {p.name: p for p in (
    perftest("ib_write_bw", 200, 4096), perftest("ib_read_bw", 200, 4096), perftest("ib_send_bw", 200, 4096),
    perftest("ib_atomic_bw", 2000, None), pingpong("ibv_rc_pingpong"), pingpong("ibv_rc_pingpong", "-e"),
    pingpong("ibv_srq_pingpong"), pingpong("ibv_ud_pingpong"))}

# What programs say when the path does not work: anything else is a test that did not test.
UNREACHED = (r"Failed to modify QP|Failed to create AH|Unable to Connect|Couldn't connect to remote QP|transport retry counter exceeded|"
             r"Completion with error|syndrom 0x81|client read/write")
