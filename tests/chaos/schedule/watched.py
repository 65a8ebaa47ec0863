# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What tests of chaos-traffic on two simulated hosts have in common: the command `meshverbs`, what it says, how to wait and to end."""
import json
import os
import pathlib
import unittest

from launcher import agents

from . import REPO
from .hosts import CLIENT, SERVER, until

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release")).resolve()
TRAFFIC = str(BUILD / "tests/chaos/chaos-traffic")
TOOL = str(BUILD / "tools/meshverbs")
SECONDS = 60  # generous: what is waited for takes milliseconds
N_QPS = 4
ENDS = (SERVER, CLIENT)


class Watched(unittest.TestCase):
    hosts, programs = None, ()  # Hosts; (server, client)
    seconds = SECONDS

    def tool(self, host, *words):
        return self.hosts.world.run(host, TOOL, *words, seconds=SECONDS)

    def qps(self, host):
        return agents.qps(self.hosts.sim, host)

    def metrics(self, host):
        return agents.ask(self.hosts.sim, host, "openmetrics")

    def devices(self, host):
        """The device that each connection of a host uses."""
        return [qp["rail"] if qp["state"] == "moved" else qp["device"] for qp in self.qps(host)]

    def used(self, host):
        """The devices that the connections of a host use."""
        return set(self.devices(host))

    def known(self, movable):
        """Whether the agents know all queue pairs, of which that is said."""
        return all(sum(qp["movable"] in movable for qp in self.qps(host)) == N_QPS for host in ENDS)

    def figures(self, host):  # pylint: disable=unused-argument,no-self-use
        """What else is to be told of a host when something was wrong."""
        return ""

    def story(self):
        return "\n".join(f"-- {host}: {self.qps(host)}\n{self.figures(host)}{self.hosts.world.told(host, 30)}\n"
                         f"{self.hosts.world.agent_log(host)[-1500:]}" for host in ENDS)

    def wait_for(self, what, condition):
        if not until(condition, self.seconds):
            self.fail(f"not within {self.seconds} s: {what}\n{self.story()}\n{[p.said() for p in self.programs]}")

    def kill(self):
        for program in self.programs:
            program.kill()

    def are_all_on(self, device):
        self.wait_for(f"all are on {device}", lambda: all(self.devices(host) == [device] * N_QPS for host in ENDS))

    def there_and_back(self, *options):
        """The cable of mlx5_0 is pulled and put back: all connections leave and return, every work request right."""
        self.programs = self.hosts.both(TRAFFIC, options)
        self.wait_for("the agents know all queue pairs, which can move", lambda: self.known((True,)))
        self.hosts.link("l0", False)
        self.are_all_on("mlx5_1")
        self.hosts.link("l0", True)
        self.are_all_on("mlx5_0")
        self.end()

    def clean(self):
        self.kill()
        self.hosts.heal()

    def end(self, *statuses):
        """The traffic ends as if nothing had been, every work request right, or with one of these, which it returns."""
        server, client = self.programs
        client.stop()
        server.stop()
        ended = client.wait(self.seconds), server.wait(self.seconds)
        for status in ended:
            self.assertIn(status, statuses or (0,), f"{ended}\n{client.said()}\n{server.said()}\n{self.story()}")
        return ended
