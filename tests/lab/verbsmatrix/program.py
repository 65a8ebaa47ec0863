# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the matrix knows of a program."""
import dataclasses
import pathlib
import shutil


def ucx_perftest():
    """Its command. One that was built with MPI (Debian 13 and later) takes itself for a rank of it, unless told otherwise."""
    path = shutil.which("ucx_perftest")
    return "ucx_perftest -P 0" if path and b"MPI mode" in pathlib.Path(path).read_bytes() else "ucx_perftest"


UCX_PERFTEST = ucx_perftest()


@dataclasses.dataclass
class Program:
    name: str
    server: str  # "" where the client's command does it all
    client: str
    sane: str  # found in the client's output of a run that worked; its named groups are compared
    ready: str = "tcp"  # the server listens: on TCP {port}, or ("cm") with rdma_listen on {port}
    sane_server: str = ""  # same for the server's output, if it says anything worth it
    forbidden: str = ""  # found in either output only when data was wrong
    gid: str = "ipv4"  # the first IPv4 address, or "link-local"; both are RoCE v2
    timeout: float = 60.0
    port: int = 0
    on: tuple = ("lab", "sim")  # kinds of hosts that it can work on
    core: bool = False  # in every sample
    slow: bool = False  # perftest measures the processor's clock for each line of its table, which takes 0.4 s


def perftest(program, count, size, options="", on=("lab", "sim"), core=False, last=None):
    """A perftest program with its table's last row as proof; last is the message size there, if not `size`."""
    command = f"{program} -d {{dev}} -x {{gid}} -F -n {count} {f'-s {size} ' if size else ''}-p {{port}}"
    command += f" {options}" if options else ""
    size = last or r"\d+"  # "inf" is what it prints when it could not measure the processor's clock, on busy machines
    peer = "{addr}" if "-R" in options else "{peer}"
    return Program(f"{program} {options}".rstrip(), command, f"{command} {peer}",
                   rf"\n *(?P<bytes>{size}) +(?P<iters>\d+) +(?:\d+\.\d+|inf)", ready="cm" if "-R" in options else "tcp",
                   on=on, core=core, slow=last is not None, timeout=90.0 if last else 60.0)
