# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The `lab` command."""
import argparse
import shlex
import signal
import sys
import time

from . import console, kernel, state
from .errors import LabError
from .lab import BOOT_TIMEOUT_S, Lab
from .progress import Progress

EPILOG = """examples:
  lab up pair                               two hosts a and b, two NICs each
  lab run b -b -- ibv_rc_pingpong -d rxe0 -g 1
  lab run a -- ibv_rc_pingpong -d rxe0 -g 1 b
  lab run all -- 'rdma link; ip -br addr'   one argument is a shell line
  lab link l0 off                           every port of switch l0 loses its carrier
  lab link a.1 off                          only this NIC
  lab console a                             a shell; Ctrl-] leaves
  lab down
"""


def main():
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda number, _: sys.exit(128 + number))
    args = parser().parse_args()
    try:
        return args.function(args) or 0
    except LabError as err:
        print(f"lab: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 141


def parser():
    top = argparse.ArgumentParser(prog="lab", description="Hosts with a real kernel and Soft-RoCE, as QEMU guests.",
                                  epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = top.add_subparsers(metavar="VERB", required=True)
    add_up(verb(verbs, "up", do_up, "boot the hosts of a topology"))
    p = verb(verbs, "run", do_run, "run a command on hosts, show its output, return its status", named=True)
    p.add_argument("hosts", metavar="HOST[,HOST..]|all")
    p.add_argument("--timeout", type=float, metavar="S", help="kill it after S seconds (status 124)")
    p.add_argument("-b", "--background", action="store_true", help="do not wait; print where the output goes")
    p.add_argument("command", nargs="+", metavar="CMD", help="one word: a shell line; several: exactly these")
    p = verb(verbs, "link", do_link, "give or take carrier", named=True)
    p.add_argument("link", metavar="LINK|HOST.INDEX")
    p.add_argument("state", choices=("on", "off"))
    for name, text in (("pause", "stop a guest's processors"), ("resume", "let them run again"),
                       ("console", "an interactive shell on a guest; Ctrl-] leaves")):
        verb(verbs, name, globals()["do_" + name], text, named=True).add_argument("host", metavar="HOST")
    verb(verbs, "status", do_status, "guests, NICs and carriers of a lab", named=True)
    verb(verbs, "list", do_list, "all labs")
    verb(verbs, "down", do_down, "end a lab", named=True).add_argument("--all", action="store_true", help="every lab")
    verb(verbs, "fetch", do_fetch, "install and download what is needed, or the newest kernel")
    return top


def verb(verbs, name, function, text, named=False):
    p = verbs.add_parser(name, help=text, description=text)
    p.set_defaults(function=function)
    if named:
        p.add_argument("-n", "--name", metavar="LAB", help="which lab, if there are several")
    return p


def add_up(p):
    p.add_argument("topology", metavar="TOPO|FILE|hosts:NxM", help="a name from tests/topo, a file, "
                   "or N pretend hosts with M NICs in one guest")
    p.add_argument("--name", metavar="LAB", help="default: the topology's name")
    p.add_argument("--only", metavar="HOST[,HOST..]", default="", help="boot these hosts of the topology only")
    p.add_argument("--overlay", metavar="DIR", action="append", default=[],
                   help="lay DIR over the host's root, as if a package had installed it")
    p.add_argument("--share", metavar="DIR", action="append", default=[],
                   help="read and write DIR under the same path on host and guests")
    p.add_argument("--smp", type=int, default=1, metavar="N", help="processors of each guest (1)")
    p.add_argument("--mem", type=int, default=768, metavar="MB", help="memory of each guest (768)")
    p.add_argument("--tap", metavar="HOST.INDEX=NETNS:IFNAME", action="append", default=[],
                   help="this NIC faces a new tap device in a network namespace (name or pid)")
    p.add_argument("--timeout", type=float, default=BOOT_TIMEOUT_S, metavar="S",
                   help=f"for the boot ({BOOT_TIMEOUT_S:.0f})")
    p.add_argument("--keep", action="store_true", help="if a guest does not come up, keep its files")


def do_up(args):
    start = time.monotonic()
    name = args.name or args.topology.rsplit("/", 1)[-1].removesuffix(".topo").replace(":", "-")
    lab = Lab.up(args.topology, name, [h for h in args.only.split(",") if h], args.overlay, args.share, args.smp,
                 args.mem, args.tap, args.timeout, Progress(name), args.keep)
    print(f"lab {lab.name}: {', '.join(lab.guests)} up in {time.monotonic() - start:.1f} s", file=sys.stderr)


def do_run(args):
    lab = Lab.attach(args.name)
    names = list(lab.guests) if args.hosts == "all" else args.hosts.split(",")
    for name in names:
        lab.host(name).check()
    command = args.command[0] if len(args.command) == 1 else shlex.join(args.command)
    jobs = {name: lab.start(name, command) for name in names}
    if args.background:
        for name, job in jobs.items():
            print(f"{name}: {job.out}")
        return 0
    try:
        return follow(jobs, args.timeout)
    except BaseException:
        for job in jobs.values():
            job.kill()
        raise


def follow(jobs, timeout):
    """Show the output of all jobs as it comes; returns the highest exit status."""
    writers = {name: Writer(f"{name}| " if len(jobs) > 1 else "") for name in jobs}
    end = time.monotonic() + timeout if timeout else None
    worst, left = 0, dict(jobs)
    while left:
        late = end is not None and time.monotonic() > end
        for name, job in list(left.items()):
            rc = job.poll()
            writers[name].write(job.fresh())
            if rc is None and late:
                job.kill()
                print(f"lab: {name}: killed after {timeout:g} s", file=sys.stderr)
                rc = 124
            if rc is not None:
                writers[name].end()
                worst = max(worst, rc)
                del left[name]
                if rc and len(jobs) > 1:
                    print(f"lab: {name}: exit status {rc}", file=sys.stderr)
            else:
                job.guest.check()
        time.sleep(0.02)
    return worst


class Writer:
    """Passes output through; with a prefix, in whole lines."""

    def __init__(self, prefix):
        self.prefix, self.rest = prefix.encode(), b""

    def write(self, data):
        if self.prefix:
            *lines, self.rest = (self.rest + data).split(b"\n")
            data = b"".join(self.prefix + line + b"\n" for line in lines)
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def end(self):
        if self.rest:
            self.write(b"\n")


def do_link(args):
    Lab.attach(args.name).link(args.link, args.state == "on")


def do_pause(args):
    Lab.attach(args.name).pause(args.host)


def do_resume(args):
    Lab.attach(args.name).resume(args.host)


def do_console(args):
    console.attach(Lab.attach(args.name).host(args.host))


def do_status(args):
    lab = Lab.attach(args.name)
    print(f"lab {lab.name} ({lab.what}), files in {lab.path}")
    dead = False
    for name, guest in lab.guests.items():
        status = guest.qmp("query-status")["status"] if guest.alive() else "dead"
        dead |= status == "dead"
        print(f"  {name:12} {status:9} {guest.stage():8} {guest.ident() or ''}".rstrip())
        for nic in [] if lab.in_one else lab.topo.hosts[name].nics.values():
            carrier = "off" if nic.index in guest.carriers_off() else "on"
            addrs = " ".join(str(a) for a in nic.addrs)
            print(f"    {nic.netdev:6} rxe{nic.index:<3} carrier {carrier:4} {nic.link or '-':8} {addrs}".rstrip())
    return 1 if dead else 0


def do_list(_args):
    for name in state.names():
        lab = Lab.attach(name)
        alive = [g for g in lab.guests.values() if g.alive()]
        builder = (lab.path / "up.pid").exists() and len(state.living(lab.path)) > len(alive)
        condition = "booting" if builder else "up" if len(alive) == len(lab.guests) else \
            "dead" if not alive else "half dead"
        print(f"{name:20} {condition:10} {lab.what:20} {' '.join(lab.guests)}")


def do_down(args):
    names = state.names() if args.all else [Lab.attach(args.name).name]
    for name in names:
        state.remove(state.directory(name))


def do_fetch(_args):
    print(kernel.ensure(update=True).tree)
