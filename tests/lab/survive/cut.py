# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that know nothing of meshverbs, and a cable that is pulled under them."""
import dataclasses
import re

from rdmalab import LabError
from schedule.hosts import until

from .guests import BARE, CLIENT, ENDS, LOG, SERVER, WAIT_S

GID = 1  # the first address of a Soft-RoCE device
ENDS_S = 120.0  # stacked: how long a program may take, on a machine with much other work
DIES_S = 20.0  # bare: after the cable was pulled; retries are through after half a second
CABLE, RAIL = "l0", 0  # which carries the traffic at first
LISTENING = "until grep -q ':{port:04X} [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"
CM_LISTENING = "until rdma resource show cm_id | grep -Eq 'LISTEN.*:{port} |:{port} .*LISTEN'; do sleep 0.1; done"


@dataclasses.dataclass
class Program:
    """A client and a server; {port} is a port of their own."""

    name: str
    server: str
    client: str
    sane: str  # what the client says when it worked
    megabytes: float  # that it moves at least
    cm: bool = False  # connects by rdma_cm, whose last words go over the first link: so the cable is put back before
    forbidden: str = "data mismatch|invalid data"
    fails: str = r"Failed status (12|5)\b"  # what it says bare: IBV_WC_RETRY_EXC_ERR, or on Linux 6.12 and later IBV_WC_WR_FLUSH_ERR


def perftest(name, count, options="", peer=SERVER, cm=False):
    command = f"{name} -d rxe0 -x {GID} -F -s 65536 -n {count} {options} -p {{port}}"
    return Program(name, command, f"{command} {peer}", rf"\n *65536 +{count} +[\d.]+ ", count * 0.065, cm)


PINGPONG = f"ibv_rc_pingpong -d rxe0 -g {GID} -e -c -n 1500 -p {{port}}"
RPING = f"rping {{}} -a {SERVER}-{CABLE} -p {{{{port}}}} -C 800 -S 2048 -V"
PROGRAMS = (
    perftest("ib_write_bw", 700),
    perftest("ib_send_bw", 600),
    Program("ibv_rc_pingpong -e", PINGPONG, f"{PINGPONG} {SERVER}", r"\n1500 iters in ", 12),
    Program("rping", RPING.format("-s"), f"set -o pipefail; {RPING.format('-c -v')} | tail -c 4200", r"ping data: rdma-ping-799: ", 3.2,
            cm=True),
)
# rxe takes retry_cnt 7, perftest's default, for "for ever"; with rdma_cm it can be told another. So this one fails instead of hanging.
BARE_PROGRAM = perftest("ib_send_bw -R", 2000, "--retry_count=6", f"{SERVER}-{CABLE}", cm=True)


@dataclasses.dataclass
class Outcome:
    client: int  # exit statuses, 124: had to be killed
    server: int
    said: str
    cut_at: float  # megabytes on both links when the cable was pulled
    other: float  # megabytes on the other link after that
    moves: dict  # host: lines of its log that tell of a live move; {} bare


class Cut(LabError):
    """The program ended, or did nothing, before its cable could be pulled."""


def megabytes(guests):
    return {rail: count / 1e6 for rail, count in guests.bytes_of(SERVER).items()}


def wait_grown(guests, before, amount, ends, seconds):
    """Until so much more was on the links; what was then."""
    now = dict(before)

    def grown():
        now.update(megabytes(guests))
        return sum(now.values()) - sum(before.values()) >= amount or any(end.poll() is not None for end in ends)

    until(grown, seconds)
    if sum(now.values()) - sum(before.values()) < amount:
        raise Cut(f"{sum(now.values()) - sum(before.values()):.2f} MB of {amount:.2f} MB")
    return now


def moves_of(guests):
    return {host: re.findall(r"QP 0x[0-9a-f]+ to host \w+: .*; moved to .*", guests.log(host)) for host in ENDS}


def play(guests, program, stacked):
    """The Outcome of a program whose cable is pulled when a quarter of it is done, and stays so; Cut."""
    guests.heal()
    for host in ENDS:
        guests.lab.run(host, f": >{LOG}", WAIT_S)
    port = guests.fresh_port()
    ready = (CM_LISTENING if program.cm else LISTENING).format(port=port)
    mode = "" if stacked else BARE
    before = megabytes(guests)
    server = guests.lab.start(SERVER, f"{mode}{program.server.format(port=port)} 2>&1")
    client = None
    try:
        guests.lab.run(SERVER, ready, WAIT_S)
        client = guests.lab.start(CLIENT, f"{mode}{program.client.format(port=port)} 2>&1")
        cut = wait_grown(guests, before, min(4.0, program.megabytes / 4), (server, client), ENDS_S)
        guests.link(CABLE, False)
        if stacked and program.cm:
            wait_grown(guests, cut, program.megabytes / 4, (server, client), ENDS_S)
            guests.link(CABLE, True)
        ended = client.wait(ENDS_S if stacked else DIES_S)
        served = server.wait(DIES_S if stacked else 0.0)
    except Cut as err:
        raise Cut(f"{program.name}: {err}\n-- client\n{client.text() if client else ''}\n-- server\n{server.text()}{story(guests)}") from None
    finally:
        for job in (client, server):
            if job:
                job.kill()
    other = megabytes(guests)[1 - RAIL] - cut[1 - RAIL]
    return Outcome(ended.rc, served.rc, f"-- client\n{ended.out}\n-- server\n{served.out}",
                   sum(cut.values()) - sum(before.values()), other, moves_of(guests) if stacked else {})


def wrong(program, stacked, outcome):
    """What is wrong, "" when nothing."""
    if not stacked:
        if outcome.client == 0 or not re.search(program.fails, outcome.said):
            return f"the client did not fail: status {outcome.client}; this proves nothing"
        return ""  # or 124: it may wait for the disconnection for ever
    if (outcome.client, outcome.server) != (0, 0):
        return f"ended with {outcome.client} and {outcome.server}"
    if not re.search(program.sane, outcome.said) or re.search(program.forbidden, outcome.said):
        return "did not say what it has to"
    missing = [host for host, lines in outcome.moves.items() if not lines]
    if missing:
        return f"no live move in the log of {' and '.join(missing)}"
    return "" if outcome.other > program.megabytes / 8 else f"only {outcome.other:.2f} MB went over the other link"


def story(guests):
    return "".join(f"\n-- log of {host}\n{guests.told(host)}\n-- its agent\n{guests.agent_log(host)[-1500:]}" for host in ENDS)
