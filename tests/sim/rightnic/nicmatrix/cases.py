# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""From a topology to what is to be run, and what has to come of it; pure."""
import dataclasses
import random


@dataclasses.dataclass(frozen=True)
class Case:
    program: str
    server: str
    client: str
    server_nic: int  # what the programs are told
    client_nic: int
    server_via: int  # what reaches the other host
    client_via: int

    @property
    def right(self):
        """Both ends are told NICs that reach each other."""
        return (self.server_nic, self.client_nic) == (self.server_via, self.client_via)

    @property
    def name(self):
        return f"{self.program} {self.server}.{self.server_nic} < {self.client}.{self.client_nic}"


def paths(topo, server, client):
    """[(NIC of server, NIC of client)] of the cables and switches between two hosts."""
    return [(nic.index, other.index) for nic in topo.hosts[server].nics.values()
            for other in topo.neighbours(nic) if other.host == client]


def all_cases(topo, programs):
    """Every program, ordered pair of neighbours and choice of NICs.

    Only for topologies where two hosts have one path at most: else there is no telling wrong from right.
    """
    cases = []
    for server in topo.hosts:
        for client in topo.hosts:
            ways = paths(topo, server, client) if client != server else []
            if len(ways) > 1:
                raise ValueError(f"{topo.path}: {len(ways)} paths between {server} and {client}")
            cases += [Case(program, server, client, mine, theirs, *ways[0]) for program in programs if ways
                      for mine in topo.hosts[server].nics for theirs in topo.hosts[client].nics]
    return cases


def sample(cases, seed, n_right):
    """One case with a wrong choice for each program, and some with the right one; the same for the same seed."""
    rng = random.Random(seed)
    chosen = [rng.choice([c for c in cases if c.program == program and not c.right])
              for program in dict.fromkeys(c.program for c in cases)]
    return chosen + rng.sample([c for c in cases if c.right], n_right)


def judge(case, stacked, result):
    """What is wrong with the result of a case; "" when nothing.

    result: "ok" (both ends ended well and said so), "reached" (a failure was one to connect or to transmit, not to
    start), "carried" ({host: {NIC: share of the bytes of this case}})
    """
    if not stacked and not case.right:
        if result["ok"]:
            return "works bare, although these NICs do not reach each other"
        return "" if result["reached"] else "fails bare, but for another reason than the path"
    if not result["ok"]:
        return "fails"
    ways = {case.server: case.server_via, case.client: case.client_via}
    for host, nic in ways.items():
        if result["carried"][host].get(nic, 0) < 0.8:
            return f"went through other NICs of {host} than NIC {nic}: {result['carried'][host]}"
    return ""
