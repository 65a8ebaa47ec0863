# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs of Debian that the matrix runs, client against server.

Sizes and counts are small: a message takes about a millisecond under emulation.
In commands: {dev} {gid} RDMA device and GID index, {peer} the server's management name, {addr} its
address on the RDMA link, {port} a port of this program's own.
"""
import dataclasses

FIRST_PORT = 21000


@dataclasses.dataclass
class Program:
    name: str
    server: str
    client: str
    sane: str  # found in the client's output of a run that worked; its named groups are compared
    ready: str = "tcp"  # the server listens: on TCP {port}, or ("cm") with rdma_listen on {port}
    sane_server: str = ""  # same for the server's output, if it says anything worth it
    forbidden: str = ""  # found in either output only when data was wrong
    gid: int = 1  # the first IPv4 address; 0 is the link-local one
    timeout: float = 30.0
    port: int = 0


def pingpongs():
    sane = r"(?P<bytes>\d+) bytes in .*\n(?P<iters>\d+) iters in"
    for kind in ("rc", "uc", "ud", "srq"):
        for flag in ("", " -e"):
            command = f"ibv_{kind}_pingpong -d {{dev}} -g {{gid}} -n 60 -c -p {{port}}{flag}"
            yield Program(f"ibv_{kind}_pingpong{flag}", command, command + " {peer}", sane,
                          sane_server=sane, forbidden="invalid data")


def perftest(program, count, size, options=""):
    command = f"{program} -d {{dev}} -x {{gid}} -F -n {count} {f'-s {size} ' if size else ''}-p {{port}}"
    command += f" {options}" if options else ""
    peer = "{addr}" if "-R" in options else "{peer}"
    return Program(f"{program} {options}".rstrip(), command, f"{command} {peer}",
                   r"\n *(?P<bytes>\d+) +(?P<iters>\d+) +\d+\.\d+", ready="cm" if "-R" in options else "tcp")


def perftests():
    for verb in ("write", "read", "send"):
        yield perftest(f"ib_{verb}_bw", 60, 16384)
        yield perftest(f"ib_{verb}_lat", 60, 8)
    for kind in ("bw", "lat"):
        yield perftest(f"ib_atomic_{kind}", 60, None, "-A FETCH_AND_ADD")
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


def ucx(transport, test, gid, count=100, size=64):
    command = f"UCX_IB_GID_INDEX={{gid}} ucx_perftest -d {{dev}}:1 -x {transport} -t {test} -n {count} -w 5 -s {size} -p {{port}}"
    return Program(f"ucx_perftest {transport} {test} gid {gid}", command, command + " {peer}",
                   rf"Final: +(?P<iters>{count}) ", gid=gid)


def ucp(test, count=40, size=4096):
    """UCP wires its connections up over ud_verbs, which on rxe works with link-local GIDs only."""
    command = ("UCX_TLS=rc_v,self UCX_NET_DEVICES={dev}:1 UCX_IB_GID_INDEX={gid} "
               f"ucx_perftest -t {test} -n {count} -w 5 -s {size} -p {{port}}")
    return Program(f"ucx_perftest ucp rc_v {test} gid 0", command, command + " {peer}", rf"Final: +(?P<iters>{count}) ", gid=0)


def ucx_programs():
    for test in ("am_lat", "am_bw", "put_lat", "put_bw"):
        yield ucx("rc_verbs", test, 1)
    yield ucx("rc_verbs", "am_lat", 0)
    yield ucx("ud_verbs", "am_lat", 0)
    yield ucx("ud_verbs", "am_bw", 0)
    yield ucp("tag_lat")
    yield ucp("tag_bw")


def all_programs():
    found = [*pingpongs(), *perftests(), *cm_programs(), *ucx_programs()]
    for number, program in enumerate(found):
        program.port = program.port or FIRST_PORT + number
    return found
