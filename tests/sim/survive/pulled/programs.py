# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs, as users start them: on one NIC, and with nothing that knows of another."""
import dataclasses
import re

from verbsmatrix.program import Program, perftest
from verbsmatrix.programs import ucp, ucx
from verbsmatrix.simprograms import ACCEPT

LIMIT_S = 400  # a program that hangs ends itself; play.py takes a slow one for stuck only when it carries nothing


@dataclasses.dataclass(frozen=True)
class Case:
    program: Program  # as the matrix of tests/lab has them, only longer
    megabytes: float  # that it moves at least
    count: int  # of what it does, which it has to say in the end: the group `count` in the last match of `sane`
    sequence: str = ""  # matches in the client's output have to be 0, 1, 2 ... count - 1
    may_surface: bool = False  # an atomic whose result is lost (docs/guarantees.md)
    stays_out: bool = False  # the cable: all that is left has to go without it
    fault: str = ""  # at the client's NIC just before; then it has to surface
    both_nics: bool = False  # it uses both from the start
    heals_itself: bool = False  # it may do without the NIC by its own means, bare, too

    @property
    def name(self):
        return self.program.name


def counted(program):
    """Their last row has the iterations in a group of another name."""
    return dataclasses.replace(program, sane=program.sane.replace("(?P<iters>", "(?P<count>"))


def bandwidth(name, count, size, options="", **more):
    return Case(counted(perftest(name, count, size, options)), count * (size or 64) / 1e6, count, **more)


def lost(case):
    """What it asked for was done, and the answers do not arrive any more when the cable is pulled."""
    program = dataclasses.replace(case.program, name=f"{case.name}, answers lost")
    return dataclasses.replace(case, program=program, fault="drop dir=rx class=response")


def pingpong(count, size):
    command = f"ibv_rc_pingpong -d {{dev}} -g {{gid}} -e -c -s {size} -n {count} -p {{port}}"
    return Case(Program("ibv_rc_pingpong -e", command, command + " {peer}", rf"{2 * count * size} bytes in .*\n(?P<count>\d+) iters in",
                        forbidden="invalid data"), 2 * count * size / 1e6, count)


def rping(count, size):
    """Its last words are the kernels', and go over the link that it named: that is plugged in by then."""
    command = f"-a {{addr}} -p {{port}} -C {count} -S {size} -V"
    return Case(Program("rping", f"rping -s {command}", f"rping -c -v {command}", rf"rdma-ping-(?P<last>{count - 1}): ", ready="cm",
                        forbidden="data mismatch"), 2 * count * size / 1e6, count, r"rdma-ping-(\d+): ")


def uct(test, count, size, options=""):
    """On one transport, without UCP."""
    program = ucx("rc_verbs", test, count=count, size=size, options=options)
    return Case(counted(dataclasses.replace(program, name=f"ucx_perftest rc_verbs {test}")), count * size / 1e6, count)


def tags(count, size):
    """As MPI uses UCX: connected by datagrams, large messages by RDMA."""
    program = ucp("tag_bw", "rc_v", "ipv4", count=count, size=size)
    return Case(counted(dataclasses.replace(program, name="ucx_perftest UCP rc_v tag_bw")), count * size / 1e6, count)


def mpi(name, rounds, settings="", **more):
    """Two ranks on each host. For large messages, by rendezvous, UCX connects them, and each with itself, over the NIC, too."""
    settings = f"UCX_TLS=rc_v,sm,self UCX_NET_DEVICES={{dev}}:1 UCX_IB_GID_INDEX={{gid}} MPI_CHECK_ROUNDS={rounds} {settings}"
    return Case(Program(name, "", f"MPI_LIMIT_S={LIMIT_S} {ACCEPT}/mpi {{here}},{{peer}} 2 {settings}",
                        r"mpi: 4 ranks on 2 hosts, (?P<count>\d+) rounds, \d+ checks, 0 wrong"), 100, rounds, **more)


def nccl(transfers, size):
    """What NCCL's net_ib does, with the queues of 2.30: senders have no receive queue. A ring of two, so both ends send."""
    command = (f"{{build}}/tests/sim/verbs/sim_ncclish RANK {{peer}} {{here}} -d {{dev}} -g {{gid}} -p {{port}} -n {transfers} -s {size} "
               f"-r 1 -t {LIMIT_S} -z")
    return Case(Program("NCCL 2.30's net_ib", command.replace("RANK", "0"), command.replace("RANK", "1"),
                        r"rank 1 of 2: (?P<count>\d+) transfers out, \d+ in with \d+ bytes, all right", forbidden="ncclish: transfer"),
                transfers * size / 1e6, transfers)


CASES = (
    bandwidth("ib_write_bw", 25000, 65536),
    bandwidth("ib_read_bw", 25000, 65536),
    bandwidth("ib_send_bw", 25000, 65536),
    bandwidth("ib_atomic_bw", 100000, None, "-A FETCH_AND_ADD", may_surface=True),
    bandwidth("ib_atomic_bw", 100000, None, "-A CMP_AND_SWAP", may_surface=True),
    lost(bandwidth("ib_atomic_bw", 100000, None, may_surface=True)),
    uct("am_bw", 100000, 4096, " -D bcopy"),
    uct("put_lat", 8000, 64),
    tags(8000, 100000),
    mpi("MPI collectives", 600),
    mpi("MPI collectives, cable stays out", 600, stays_out=True),
    mpi("MPI collectives, no rendezvous", 600, "UCX_RNDV_THRESH=inf"),
    nccl(8000, 65536),
    pingpong(10000, 4096),
    rping(3000, 1000),
)


def by_lid(case):
    """On InfiniBand, without a GRH."""
    plain = {end: re.sub(r" -[xg] \{gid\}|UCX_IB_GID_INDEX=\{gid\} ", "", getattr(case.program, end)) for end in ("server", "client")}
    return dataclasses.replace(case, program=dataclasses.replace(case.program, **plain))


INFINIBAND = tuple(by_lid(case) for case in (bandwidth("ib_write_bw", 25000, 65536, "--pkey_index 1"), *CASES))
# What ./check runs of each topology. Bare once on each link layer: there the same fault ends the program.
SHORT = {
    "pair": {"stacked": ("ib_write_bw", "ucx_perftest rc_verbs am_bw", "NCCL 2.30's net_ib", "ibv_rc_pingpong -e"), "bare": ("ib_write_bw",)},
    "routed": {"stacked": ("ib_write_bw", "NCCL 2.30's net_ib"), "bare": ()},
    "ibpair": {"stacked": ("ib_write_bw --pkey_index 1", "NCCL 2.30's net_ib"), "bare": ("ib_write_bw",)},
}
