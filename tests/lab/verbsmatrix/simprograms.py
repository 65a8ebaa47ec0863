# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs for simulated hosts only: native speed allows more sizes, and mlx5 more ways of posting."""
import pathlib
import shutil

from .program import Program, perftest

ACCEPT = pathlib.Path(__file__).resolve().parents[2] / "sim/accept"
VERBS = ("write", "read", "send", "atomic")
SIM = ("sim",)


def devinfo():
    yield Program("ibv_devinfo -v", "", "ibv_devinfo -v", r"(?P<text>(?s:hca_id:.*GID\[.*))", on=SIM, core=True)


def posting():
    """ibv_wr_* is perftest's default, in the common part of the table; here is ibv_post_send."""
    for verb in VERBS:
        for kind in ("bw", "lat"):
            size = None if verb == "atomic" else 4096
            yield perftest(f"ib_{verb}_{kind}", 60, size, "--use_old_post_send", SIM, core=kind == "bw")


def sizes():
    for verb in ("write", "read", "send"):
        for kind in ("bw", "lat"):
            for options in ("-a", "-a --use_old_post_send"):
                yield perftest(f"ib_{verb}_{kind}", 5, None, options, SIM, last=8388608)
    yield perftest("ib_send_bw", 20, None, "-a -c UD", SIM, last=4096)
    yield perftest("ib_send_bw", 5, None, "-a -c UC", SIM, last=8388608)


def events():
    for verb in ("read", "send", "atomic"):
        for kind in ("bw", "lat"):
            if (verb, kind) != ("send", "bw"):  # in the common part
                yield perftest(f"ib_{verb}_{kind}", 60, None if verb == "atomic" else 4096, "-e", SIM)
    yield perftest("ib_send_lat", 60, 1024, "-e -c UD", SIM, core=True)


def many_queue_pairs():
    for verb in VERBS:
        yield perftest(f"ib_{verb}_bw", 60, None if verb == "atomic" else 4096, "-q 16", SIM, core=verb == "write")
    yield perftest("ib_write_bw", 60, 4096, "-q 16 --use_old_post_send", SIM)


def inline():
    for verb in ("write", "send"):
        for kind in ("bw", "lat"):
            for size, room in ((64, 64), (200, 220)):
                for post in ("", " --use_old_post_send"):
                    yield perftest(f"ib_{verb}_{kind}", 60, size, f"--inline_size {room}{post}", SIM,
                                   core=(verb, kind, size) == ("send", "lat", 64))


def receive_queues():
    for kind in ("bw", "lat"):
        for options in ("-r 64 --use-srq --use_old_post_send", "-r 64 --use-srq -q 4", "-r 64 --use-srq -e"):
            if not (kind == "lat" and "-q" in options):  # perftest: lat has one queue pair
                yield perftest(f"ib_send_{kind}", 60, 4096, options, SIM, core="-q" in options)
    yield perftest("ib_send_lat", 60, 4096, "-r 64 --use-srq", SIM)


def services():
    for post in ("", " --use_old_post_send"):
        for program in ("ib_send_lat", "ib_write_lat"):
            yield perftest(program, 60, 64, f"-c UC{post}", SIM)
        yield perftest("ib_send_bw", 60, 1024, f"-b -c UD{post}", SIM)
    for program in ("ib_send_bw", "ib_write_bw"):
        yield perftest(program, 60, 4096, "-c UC --use_old_post_send", SIM)
    for program in ("ib_send_bw", "ib_send_lat"):
        yield perftest(program, 60, 1024, "-c UD --use_old_post_send", SIM)
    for verb in ("write", "read"):
        yield perftest(f"ib_{verb}_bw", 60, 65536, "-b", SIM)


def libfabric():
    """Reliable datagrams over UD.

    Not in the list, for they open an rdma_cm event channel, which simulated hosts do not have: endpoints of kind msg,
    what is layered over them, and fi_pingpong's -e dgram (fi_eq_open: no such file or directory).
    """
    row = r"(?m)^(?P<bytes>{size}) +(?P<sent>30) +=(?P<acked>30) +\S+ +[\d.]+s"
    for size, shown in ((64, "64"), (1024, "1k"), (65536, "64k")):
        command = f"fi_pingpong -p 'verbs;ofi_rxd' -e rdm -d {{dev}}-dgram -c -I 30 -S {size}"
        yield Program(f"fi_pingpong -e rdm -S {size}", command + " -B {port}", command + " -P {port} {peer}",
                      row.replace("{size}", shown), on=SIM, core=size == 1024, forbidden="data check error|mismatch")


def mpi():
    """Four ranks on two hosts over UCX; the program says what each rank checked. Open MPI where it is installed."""
    for name in ("mpich", *(["openmpi"] if shutil.which("mpirun.openmpi") else [])):
        for transport in ("rc_v", "rc_x", "ud_v", "ud_x"):
            yield Program(f"{name} 4 ranks {transport}", "",
                          f"MPI={name} {ACCEPT}/mpi {{here}},{{peer}} 2 UCX_TLS={transport},self UCX_NET_DEVICES={{dev}}:1 UCX_IB_GID_INDEX={{gid}}",
                          r"mpi: (?P<ranks>4) ranks on (?P<hosts>2) hosts, 1 rounds, (?P<checks>\d+) checks, (?P<wrong>0) wrong",
                          on=SIM, timeout=60.0, core=name == "mpich" and transport == "rc_x")


def all_programs():
    for part in (devinfo, posting, sizes, events, many_queue_pairs, inline, receive_queues, services, libfabric, mpi):
        yield from part()
