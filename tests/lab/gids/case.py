# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One case: a server on b, a client on a, what happens to their GID tables meanwhile, and how it must end."""
import dataclasses
import re

WORKS, FAILS = "works", "fails"


@dataclasses.dataclass
class Case:
    name: str
    server: str  # command on b
    client: str  # command on a; {qpn} is what the server printed as its QPN
    bare: str = FAILS
    stacked: str = WORKS
    ready: str = "tcp_state {port} 0A"  # shell condition in b: the server holds its index
    client_ready: str = "tcp_state {port} 02"  # the same in a, where the client's table is moved too
    setup: dict = dataclasses.field(default_factory=dict)  # host: shell lines before the program starts
    move: dict = dataclasses.field(default_factory=dict)  # host: shell lines while it waits
    log: dict = dataclasses.field(default_factory=dict)  # host: a pattern, or several, in the stacked run's log
    bare_says: str = ""  # pattern in what a bare run said, if it is known why it fails
    patience_s: float = 3.0  # a run that must fail may as well hang
    env: str = ""  # settings before the stacked run's commands
    again: list = None  # shell lines in b, after which the client runs a second time
    stays: bool = False  # the server does not end by itself
    client_host: str = "a"
    explain: dict = dataclasses.field(default_factory=dict)  # host: arguments of `meshverbs explain` for its decision
    changes: bool = True  # whether the tables in `move` must end other than they began
    same: bool = False  # both runs must end in the same words

    def expected(self, mode):
        return self.bare if mode == "bare" else self.stacked


@dataclasses.dataclass
class Outcome:
    """How one run of a case ended."""
    verdict: str
    how: str  # in few words
    text: str  # everything that was said
    logs: dict  # host: what the plugin logged
    tables: dict  # host: (before, after) of the GID table, as lists of "index=gid"


def moved(to, index, verdict, new, gid):
    """Pattern of the log line of a repair."""
    return (rf"rxe0 port 1 to {re.escape(to)}: index {index} is {verdict}, using {new} \({re.escape(gid)}\): "
            "the address seen under this index is at another index now")


def replaced(to, index, verdict, new, gid):
    """Pattern of the log line of another address for a datagram."""
    return (rf"rxe0 port 1 to {re.escape(to)}: index {index} is {verdict}, using {new} \({re.escape(gid)}\): "
            "the entry cannot reach the destination, another one of this port can")


def kept(to, index, why="the entry reaches the destination"):
    return rf"rxe0 port 1 index {index} to {re.escape(to)}: kept, {why}"


def left(to, index, verdict, why):
    return rf"rxe0 port 1 to {re.escape(to)}: index {index} is {verdict}, left alone: {why}"
