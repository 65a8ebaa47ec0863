# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One program, under which a cable is pulled and plugged in again, each when so much has been carried."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import time

from schedule.hosts import CLIENT, SERVER, until

ENDS = (SERVER, CLIENT)
STUCK_S = 60.0  # until the next step; on an idle machine they take a second
N_STUCK, AGENTS_MB = 8, 1.0  # so often STUCK_S, while more than that is carried in each: agents say less to each other
DIES_S = 30.0  # bare: UCX's retries last eight seconds
GRACE_S = 5.0  # for one end after the other has failed: the run has failed then
FAULT_S = 0.01  # of a case, before the cable: as long as many packets take, and less than a retry
MOVED = re.compile(r"QP (0x[0-9a-f]+) to host \w+: .*; moved to (mlx5_\d) ")


def go_before():
    """This process goes before simulated HCAs, which go before everything else; programs that it starts do not."""
    os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(2))


@contextlib.contextmanager
def at_once():
    """What is started here goes before them, too."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    try:
        yield
    finally:
        go_before()


class Early(Exception):
    """The program ended, or did nothing, before its cable could be pulled."""


@dataclasses.dataclass
class Outcome:
    """What came of it. Megabytes are those of the server's netdevs, both directions."""

    pulled: str = ""  # which port or link
    nic: str = ""  # the NIC that carried the traffic
    before: float = 0.0  # megabytes on that NIC when it was pulled
    elsewhere: float = 0.0  # on the other one before, in which there should be none
    away: float = 0.0  # on the other one from then on, until the end
    back: float = 0.0  # on the first again since it was plugged in
    plugged: bool = False
    lasted: float = 0.0  # seconds from there to the end
    client: int | None = None  # exit statuses; None: had to be killed
    server: int | None = None
    said: dict = dataclasses.field(default_factory=dict)
    logs: dict = dataclasses.field(default_factory=dict)  # what the plugins added meanwhile

    def moves(self, host):
        """[(QP, device)], in their order"""
        return MOVED.findall(self.logs[host])


class Play:
    def __init__(self, place, case, random, build):
        self.build = build  # where our own programs are
        self.place, self.world, self.case, self.random = place, place.world, case, random
        self.ends, self.out = [], Outcome()

    def carried(self):
        return {nic: count / 1e6 for nic, count in self.world.bytes_of(SERVER).items()}

    def is_over(self):
        """Nothing will be carried any more: both have ended, or one has failed."""
        return all(end.poll() is not None for end in self.ends) or any(end.poll() for end in self.ends)

    def wait(self, condition, seconds=STUCK_S):
        """Whether it came true before it was over, or stuck. A program that a slow machine slows down is not stuck."""
        for _ in range(N_STUCK):
            before = sum(self.carried().values())
            if until(lambda: condition() or self.is_over(), seconds) or sum(self.carried().values()) - before <= AGENTS_MB:
                break
        return condition()

    def wait_ended(self):
        """Until the last end has ended, or another has failed."""
        self.wait(lambda: self.ends[-1].poll() is not None)

    def start(self):
        program, port = self.case.program, self.world.fresh_port()
        words = {"dev": "mlx5_0", "gid": self.world.place.gid(program.gid), "port": port, "peer": SERVER, "here": CLIENT, "build": self.build,
                 "addr": self.place.topo.nic(f"{SERVER}.0").addrs[0].ip}
        if program.server:
            server = self.world.start(SERVER, "bash", "-c", "exec env " + program.server.format(**words))
            self.ends.append(server)
            ready = self.world.wait_cm_listening if program.ready == "cm" else self.world.wait_listening
            if not ready(server, SERVER, port):
                raise Early(f"no server:\n{server.said()}")
        self.ends.append(self.world.start(CLIENT, "bash", "-c", "exec env " + program.client.format(**words)))

    def pull(self, begun):
        """When a part of it is done, at either end of the NIC that does it, or at both."""
        share = self.case.megabytes * self.random.uniform(0.15, 0.4)
        grown = lambda: {nic: now - begun[nic] for nic, now in self.carried().items()}  # noqa: E731
        if not self.wait(lambda: max(grown().values()) >= share):
            raise Early(f"{max(grown().values()):.2f} MB of {share:.2f} MB were carried before it could be pulled")
        busy = max(grown(), key=grown().get)
        self.out.pulled, self.out.nic = self.random.choice((self.place.topo.nic(f"{SERVER}.{busy}").link, f"{SERVER}.{busy}", f"{CLIENT}.{busy}")), f"mlx5_{busy}"
        if self.case.fault:
            self.place.fault(f"{CLIENT}.{busy}", self.case.fault)
            time.sleep(FAULT_S)
        with at_once():
            self.place.link(self.out.pulled, False)
        if self.is_over():
            raise Early("it was over when the cable was pulled")
        grown = grown()
        self.out.before, self.out.elsewhere = grown[busy], grown[1 - busy]
        return busy

    def plug(self, busy, cut):
        """When it has gone on for a while without, and until it is back if it lasts so long."""
        share = self.case.megabytes * self.random.uniform(0.08, 0.15)
        if not self.wait(lambda: self.carried()[1 - busy] - cut[1 - busy] >= share):
            return
        with at_once():
            self.place.link(self.out.pulled, True)
        self.out.plugged, since, plugged = True, time.monotonic(), self.carried()
        self.wait_ended()
        self.ends[-1].wait(STUCK_S)
        self.out.lasted = time.monotonic() - since
        self.out.back = self.carried()[busy] - plugged[busy]

    def end(self, seconds):
        last = self.ends[-1].wait(seconds)
        grace = STUCK_S if last == 0 else GRACE_S
        statuses = [last, *(end.wait(grace) for end in self.ends[-2::-1])]
        self.out.client, self.out.server = statuses if len(statuses) == 2 else statuses * 2  # of one command that is both

    def go(self):
        """The Outcome; Early."""
        self.place.heal()
        logged = {host: len(self.world.log(host)) for host in ENDS}
        try:
            begun = self.carried()
            self.start()
            busy = self.pull(begun)
            cut = self.carried()
            if self.world.stacked and not self.case.stays_out:
                self.plug(busy, cut)
            if self.world.stacked:
                self.wait_ended()
            self.end(STUCK_S if self.world.stacked else DIES_S)
            self.out.away = self.carried()[1 - busy] - cut[1 - busy]
        finally:
            for end in self.ends:
                end.kill()
            self.out.said = {name: end.said() for name, end in zip(("server", "client") if len(self.ends) == 2 else ("both",), self.ends)}
            self.out.logs = {host: self.world.log(host)[logged[host]:] for host in ENDS}
        return self.out
