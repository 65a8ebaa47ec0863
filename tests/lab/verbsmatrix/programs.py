# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs of Debian that the matrix runs, client against server.

Sizes and counts are small: a message takes about a millisecond under emulation.
In commands: {dev} {gid} RDMA device and GID index, {peer} the server's management name, {here} the client's, {addr} the
server's address on the RDMA link, {port} a port of this program's own.
"""
from . import simprograms
from .program import UCX_PERFTEST, Program, perftest

FIRST_PORT = 21000


def pingpongs():
    sane = r"(?P<bytes>\d+) bytes in .*\n(?P<iters>\d+) iters in"
    for kind in ("rc", "uc", "ud", "srq"):
        for flag in ("", " -e"):
            command = f"ibv_{kind}_pingpong -d {{dev}} -g {{gid}} -n 60 -c -p {{port}}{flag}"
            yield Program(f"ibv_{kind}_pingpong{flag}", command, command + " {peer}", sane,
                          sane_server=sane, forbidden="invalid data", core=kind in ("rc", "ud"))


def perftests():
    for verb in ("write", "read", "send"):
        yield perftest(f"ib_{verb}_bw", 60, 16384, core=True)
        yield perftest(f"ib_{verb}_lat", 60, 8)
    for kind in ("bw", "lat"):
        yield perftest(f"ib_atomic_{kind}", 60, None, "-A FETCH_AND_ADD", core=kind == "bw")
        yield perftest(f"ib_atomic_{kind}", 60, None, "-A CMP_AND_SWAP")
    yield perftest("ib_send_bw", 60, 1024, "-c UD")
    yield perftest("ib_send_lat", 60, 8, "-c UD")
    yield perftest("ib_send_bw", 60, 4096, "-c UC")
    yield perftest("ib_write_bw", 60, 4096, "-c UC")
    yield perftest("ib_send_bw", 60, 4096, "-e")
    yield perftest("ib_send_bw", 60, 4096, "-r 64 --use-srq")
    yield perftest("ib_write_bw", 60, 4096, "-q 8")
    yield perftest("ib_send_bw", 60, 4096, "-b")
    yield perftest("ib_write_bw", 60, 4096, "-R")
    yield perftest("ib_send_lat", 60, 8, "-R")


def cm_programs():
    yield Program("rping", "rping -s -a {addr} -p {port} -C 20 -S 512 -V", "rping -c -a {addr} -p {port} -C 20 -S 512 -V -v",
                  r"ping data: rdma-ping-(?P<last>19): ", ready="cm", forbidden="data mismatch")
    done = r"return status (?P<status>\d+)"
    yield Program("ucmatose", "ucmatose -b {addr} -p {port} -c 3 -C 10 -S 1024",
                  "ucmatose -s {addr} -p {port} -c 3 -C 10 -S 1024", done, ready="cm", sane_server=done)
    # udaddy has no option for its port
    yield Program("udaddy", "udaddy -b {addr} -c 3 -C 10 -S 512", "udaddy -s {addr} -c 3 -C 10 -S 512",
                  done, ready="cm", sane_server=done, port=7174)
    row = r"\ncustom +(?P<bytes>\S+) +(?P<xfers>\d+) +(?P<iters>\d+) "
    for mode in ("", " -T b", " -T v"):
        command = f"{{addr}} -p {{port}} -S 4096 -C 10 -I 5{mode}"
        yield Program(f"rstream{mode}", f"rstream -b {command}", f"rstream -s {command}", row, ready="cm",
                      forbidden="data verification failed")


def ucx(transport, test, gid="ipv4", count=100, size=64, on=("lab", "sim"), core=False, options=""):
    command = (f"UCX_IB_GID_INDEX={{gid}} {UCX_PERFTEST} -d {{dev}}:1 -x {transport} -t {test}{options} -n {count} -w 5 -s {size} "
               "-p {port}")
    return Program(f"ucx_perftest {transport} {test}{options} {gid}", command, command + " {peer}",
                   rf"Final: +(?P<iters>{count}) ", gid=gid, on=on, core=core)


def ucp(test, transport="rc_v", gid="link-local", count=40, size=4096, on=("lab", "sim"), core=False):
    """UCP wires its connections up over ud_verbs, which on rxe works with link-local GIDs only."""
    command = (f"UCX_TLS={transport},self UCX_NET_DEVICES={{dev}}:1 UCX_IB_GID_INDEX={{gid}} "
               f"{UCX_PERFTEST} -t {test} -n {count} -w 5 -s {size} -p {{port}}")
    return Program(f"ucx_perftest ucp {transport} {test} {gid}", command, command + " {peer}",
                   rf"Final: +(?P<iters>{count}) ", gid=gid, on=on, core=core)


def ucx_programs():
    for test in ("am_lat", "am_bw", "put_lat", "put_bw"):
        yield ucx("rc_verbs", test)
    yield ucx("rc_verbs", "am_lat", "link-local")
    yield ucx("ud_verbs", "am_lat", "link-local")
    yield ucx("ud_verbs", "am_bw", "link-local")
    yield ucp("tag_lat")
    yield ucp("tag_bw")
    for transport in ("rc_mlx5", "ud_mlx5", "ud_verbs"):  # on rxe, UCX drops datagrams between IPv4 GIDs
        for test in ("am_lat", "am_bw"):
            yield ucx(transport, test, on=("sim",), core=test == "am_bw")
    for transport in ("rc_verbs", "rc_mlx5"):
        yield ucx(transport, "put_bw", on=("sim",), size=65536, options=" -D zcopy")
        yield ucx(transport, "get", on=("sim",), size=65536, options=" -D zcopy")
        yield ucx(transport, "fadd", on=("sim",), size=8)
    for transport in ("rc_v", "rc_x", "ud_v", "ud_x"):
        yield ucp("tag_bw", transport, "ipv4", size=100000, on=("sim",), core=transport == "rc_x")
        yield ucp("tag_lat", transport, "ipv4", on=("sim",))


def all_programs(kind=None):
    """The table; with kind, "lab" or "sim", the part for such hosts."""
    found = [*pingpongs(), *perftests(), *cm_programs(), *ucx_programs(), *simprograms.all_programs()]
    for program in found:
        if program.ready == "cm":
            program.on = ("lab",)  # the simulated hosts have no rdma_cm device
    for number, program in enumerate(found):
        program.port = program.port or FIRST_PORT + number
    return [p for p in found if kind is None or kind in p.on]
