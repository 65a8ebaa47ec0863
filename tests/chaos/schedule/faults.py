# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What goes wrong. Each fault is done to the rail that carries the traffic, and undone."""
import time

ENDS = ("a", "b")


def port(hosts, random, rail):
    """A port goes down, and comes back."""
    where = f"{random.choice(ENDS)}.{rail}"
    hosts.link(where, False)
    hosts.linger(random)
    hosts.link(where, True)
    return where


def cable(hosts, random, rail):
    """All ports of a rail; beyond a router those that are the router's neighbours at one end."""
    links = sorted({hosts.topo.nic(f"{end}.{rail}").link for end in ENDS})
    link = links[0] if len(links) == 1 else random.choice(links)
    hosts.link(link, False)
    hosts.linger(random)
    hosts.link(link, True)
    return link


def address(hosts, random, rail):
    """A port goes down, and with it its address, as systemd-networkd has it; it is back a while after the port."""
    where = f"{random.choice(ENDS)}.{rail}"
    hosts.link(where, False)
    time.sleep(0.005)
    hosts.address(where, False)
    hosts.linger(random)
    hosts.link(where, True)
    time.sleep(0.3)
    hosts.address(where, True)
    return where


def flap(hosts, random, rail):
    """Down and up several times, faster than anyone can move."""
    where = f"{random.choice(ENDS)}.{rail}"
    for _ in range(random.randrange(2, 6)):
        hosts.link(where, False)
        time.sleep(random.uniform(0.002, 0.2))
        hosts.link(where, True)
        time.sleep(random.uniform(0.002, 0.2))
    return where


def rails(hosts, random, rail):
    """One rail, and as soon as that is back, the other."""
    end = random.choice(ENDS)
    for which in (rail, 1 - rail):
        hosts.link(f"{end}.{which}", False)
        hosts.linger(random)
        hosts.link(f"{end}.{which}", True)
        time.sleep(random.uniform(0.0, 0.3))
    return end


def second(hosts, random, rail):
    """The other rail while the first is still down: for a moment there is none."""
    end = random.choice(ENDS)
    hosts.link(f"{end}.{rail}", False)
    time.sleep(random.uniform(0.0, 0.1))
    hosts.link(f"{end}.{1 - rail}", False)
    time.sleep(random.uniform(0.0, 0.1))
    hosts.link(f"{end}.{1 - rail}", True)
    hosts.linger(random)
    hosts.link(f"{end}.{rail}", True)
    return end


def lossy(hosts, random, where, words):
    hosts.fault(where, words)
    hosts.linger(random, 1.0, 3.0)
    hosts.fault(where, "clear")
    return f"{where} {words}"


def oneway(hosts, random, rail):
    """Nothing leaves one NIC any more, or nothing comes in; carrier stays."""
    where = f"{random.choice(ENDS)}.{rail}"
    return lossy(hosts, random, where, f"drop dir={random.choice(('tx', 'rx'))}")


def acks(hosts, random, rail):
    """Acknowledgements are lost, then the port: much has been executed that nobody knows of."""
    where = f"{random.choice(ENDS)}.{rail}"
    hosts.fault(where, "drop dir=rx class=ack")
    hosts.fault(where, "drop dir=rx class=response")
    time.sleep(random.uniform(0.0, 0.05))
    hosts.link(where, False)
    hosts.linger(random)
    hosts.fault(where, "clear")
    hosts.link(where, True)
    return where


def nth(hosts, random, rail):
    """Single packets are lost, then the port."""
    where = f"{random.choice(ENDS)}.{rail}"
    kind = random.choice(("request", "ack", "response", "any"))
    hosts.fault(where, f"drop dir={random.choice(('tx', 'rx'))} class={kind} skip={random.randrange(20)} limit={random.randrange(1, 4)}")
    time.sleep(random.uniform(0.0, 0.05))
    hosts.link(where, False)
    hosts.linger(random)
    hosts.fault(where, "clear")
    hosts.link(where, True)
    return f"{where} {kind}"


def switch(hosts, random, rail):
    """A port of the switch is dead, its carrier is on."""
    where = f"{random.choice(ENDS)}.{rail}"
    hosts.forward(where, False)
    hosts.linger(random, 1.0, 3.0)
    hosts.forward(where, True)
    return where


def agent(hosts, random, rail):
    """An agent is killed about when a port goes down, and started again."""
    end, where = random.choice(ENDS), f"{random.choice(ENDS)}.{rail}"
    first = random.random() < 0.5
    if first:
        hosts.agent_kill(end)
        time.sleep(random.uniform(0.0, 0.02))
    hosts.link(where, False)
    if not first:
        time.sleep(random.uniform(0.0, 0.02))
        hosts.agent_kill(end)
    time.sleep(random.uniform(0.0, 0.3))
    hosts.agent_start(end)
    hosts.linger(random, 0.5, 1.5)
    hosts.link(where, True)
    return f"{where}, agent of {end} {'first' if first else 'then'}"


def control(hosts, random, rail):
    """The agents' datagrams get lost while a port goes down."""
    where, percent = f"{random.choice(ENDS)}.{rail}", random.choice((10, 30, 60))
    for end in ENDS:
        hosts.control_loss(end, percent)
    hosts.link(where, False)
    hosts.linger(random, 1.0, 2.0)
    hosts.link(where, True)
    for end in ENDS:
        hosts.control_loss(end, 0)
    return f"{where}, {percent} %"


NO_PATH = ("second",)  # for a moment; queue pairs that have used up their retries by then fail
# The port says so at once. Of the others it may be retries that tell, as bare: then a CQ with room for signaled work requests only is overrun.
SEEN = ("port", "cable", "address", "flap", "rails")
# Only probes tell of these, and on InfiniBand none are sent: a new queue pair takes the dead rail again and again, as bare.
PROBED = ("oneway", "switch")
KINDS = {f.__name__: f for f in (port, cable, address, flap, rails, second, oneway, acks, nth, switch, agent, control)}


def usual(infiniband):
    """What is done if nobody says which."""
    return [kind for kind in KINDS if not (infiniband and kind in PROBED)]
