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
    ways: tuple  # (NIC of server, NIC of client) that reach each other

    @property
    def right(self):
        """Both ends are told NICs that reach each other."""
        return (self.server_nic, self.client_nic) in self.ways

    @property
    def name(self):
        return f"{self.program} {self.server}.{self.server_nic} < {self.client}.{self.client_nic}"


def routes(topo, host, other):
    """{(NIC of host, NIC of other)} that host's routes lead to."""
    return {(index, nic.index) for index, net, _ in topo.hosts[host].routes for nic in topo.hosts[other].nics.values()
            for addr in nic.addrs if addr.ip in net}


def near(topo, server, client):
    """[(NIC of server, NIC of client)] of the cables and switches between two hosts."""
    return [(nic.index, other.index) for nic in topo.hosts[server].nics.values()
            for other in topo.neighbours(nic) if other.host == client]


def paths(topo, server, client):
    """The same, and those of the routes of both."""
    back = {(mine, theirs) for theirs, mine in routes(topo, client, server)}
    return near(topo, server, client) + sorted(routes(topo, server, client) & back)


def all_cases(topo, programs):
    """Every program, ordered pair of hosts that have a path, and choice of NICs."""
    cases = []
    hosts = [name for name, host in topo.hosts.items() if not host.router]
    for server in hosts:
        for client in hosts:
            ways = paths(topo, server, client) if client != server else []
            cases += [Case(program, server, client, mine, theirs, tuple(ways)) for program in programs
                      if ways and can_reach(topo, program, server, client)
                      for mine in topo.hosts[server].nics for theirs in topo.hosts[client].nics]
    return [case for case in cases if case.right or not stays(topo, case)]


def by_lid(topo, host, nic):
    """Whether programs connect by LIDs there, without a GID."""
    return topo.hosts[host].nics[nic].options.get("link_layer") == "infiniband"


def can_reach(topo, program, server, client):
    """ibv_ud_pingpong gives its datagrams a hop limit of 1."""
    return program != "ibv_ud_pingpong" or near(topo, server, client)


def is_up(topo, host, nic):
    """Something is plugged in there."""
    return bool(topo.hosts[host].nics[nic].link)


def stays(topo, case):
    """Datagrams by LID, and of a port that is down, are left as the program asks: a wrong choice fails with meshverbs, too."""
    return case.program == "ibv_ud_pingpong" and (by_lid(topo, case.client, case.client_nic) or
                                                  not is_up(topo, case.server, case.server_nic) or
                                                  not is_up(topo, case.client, case.client_nic))


def can_start(topo, case):
    """perftest ends by itself where its device's port is down at the start, and no cable makes it so."""
    return case.program.startswith("ibv_") or (is_up(topo, case.server, case.server_nic) and
                                               is_up(topo, case.client, case.client_nic))


def sample(cases, seed, n_right):
    """One case with a wrong choice for each program that has one, and some with the right one; the same for the same seed."""
    rng = random.Random(seed)
    chosen = [rng.choice([c for c in cases if c.program == program and not c.right])
              for program in dict.fromkeys(c.program for c in cases if not c.right)]
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
    ways = [(case.server_nic, case.client_nic)] if case.right else case.ways
    if not any(result["carried"][case.server].get(server, 0) >= 0.8 and result["carried"][case.client].get(client, 0) >= 0.8
               for server, client in ways):
        return f"went through other NICs than {' or '.join(f'{server} and {client}' for server, client in ways)}: {result['carried']}"
    return ""
