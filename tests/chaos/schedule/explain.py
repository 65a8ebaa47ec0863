# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Why queue pairs of chaos-traffic failed, by what the plugin's log says of that very queue pair."""
import collections
import re

# A queue pair of the traffic program as both its lines and the plugin's name it; "failed consistently" comes from either end.
SAID = re.compile(r"thread (\d+), queue pair ([\d.]+) \((0x[0-9a-f]+)\): (?:then )?failed")
LOGGED = re.compile(r"\bQP (0x[0-9a-f]+)(?: to host \S+)?: (?:not moved: )?(.+); the program gets its errors?$", re.M)

# What a move ends with that did not come about in time, or found no path at that moment: one fault follows the other before agents
# have told that the first is over. No other error than bare programs get, but many of them are a busy machine, or a defect.
LATE = ("the peer's process did not answer", "there was no agreement in time", "no other rail of this host reaches one of the peer's",
        "the peer does not answer for a remote key")
LOST_ATOMIC = ("the result of an atomic is lost",)
# docs/guarantees.md, Not protected: it was made in the middle of a fault; or of one that had taken an agent away.
UNLOGGED = ("cannot be moved later: no other path was agreed upon when it was made",
            "the program's own path fails: Connection timed out")
AGENTLESS = ("cannot be moved later: the peer's host had no agent when it was made",
             "cannot be moved later: this host had no agent when it was made")
# On InfiniBand no prefix tells which rails reach each other. A rail that was down, or whose agent has just started, has heard nobody yet: a
# connection that is made there meanwhile is as without agents.
UNHEARD = (AGENTLESS[0],
           "cannot be moved later: no other rail reached one of the peer's when it was made",
           "cannot be moved later: the peer's host had no agent when it was made, or was in another subnet of InfiniBand")
# If the greeting of a rail that was down is lost, the rail hears the peer at its next beacon, and is no path before.
GREETING_LOST = ("its work did not get through on any path",)
# Directories do not change while the agent is away that would tell: so a path that is dead seems to work, and one that is back does not.
# The same where all ports of the other host are down. Only failures in the time of such a fault are explained by that.
NO_NEWS = ("its work did not get through on any path",)
NO_NEWS_KINDS = ("agent", "second")
STALE_S = 1.0  # after it: retries, and the wait for a path


def pairs_of(said):
    """{(thread, queue pair and how often it was replaced): QP number} of those that failed, by what one end said."""
    return {(thread, pair): int(qpn, 16) for thread, pair, qpn in SAID.findall(said)}


def reasons_of(log):
    """{QP number: reasons, in their order}, by the log of one host"""
    found = collections.defaultdict(list)
    for qpn, why in LOGGED.findall(log):
        found[int(qpn, 16)].append(why)
    return found


def allowed(kinds, infiniband=False):
    """What may be the reason where these faults were done."""
    unheard = UNHEARD + (GREETING_LOST if "control" in kinds else ())
    return [*LATE, *LOST_ATOMIC, *UNLOGGED, *(AGENTLESS if "agent" in kinds else ()), *(unheard if infiniband else ())]


class Explained:
    """@ends: [(what the program said, what the plugin logged meanwhile)], of both"""

    def __init__(self, ends):
        self.ends = [(pairs_of(said), reasons_of(log)) for said, log in ends]

    def why(self, pair):
        """What the log of either end says of this pair of queue pairs."""
        return [reason for pairs, reasons in self.ends if pair in pairs for reason in reasons.get(pairs[pair], ())]

    def unexplained(self, failures, allowed, stale=()):
        """{pair: (its failures, what the logs say)} of those for which no allowed reason is given; @stale: [(begin, end)], monotonic seconds"""
        def allowed_for(lines):
            blind = any(begin <= line.at <= end for line in lines for begin, end in stale)
            return {*allowed, *(NO_NEWS if blind else ())}
        return {pair: (lines, self.why(pair)) for pair, lines in failures.items() if not set(self.why(pair)) & allowed_for(lines)}
