# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is to be thought of an outcome. Pure."""
import re

from schedule.explain import LOST_ATOMIC
from schedule.hosts import CLIENT, SERVER

SHARE = 0.05  # of what a program moves at least: more than agents say to each other
RETURNS_S = 30  # lasts longer than that after its cable is back: it has to return (hold_down_ms is 100 here; routes are asked for every 5 s)
SURFACED = r"Failed status 12|transport retry counter exceeded"  # perftest, libibverbs: IBV_WC_RETRY_EXC_ERR
ENDS = (SERVER, CLIENT)


def results(case, out):
    """What is wrong with what the program said, "" when nothing."""
    said = "\n".join(out.said.values())
    if case.program.forbidden and re.search(case.program.forbidden, said):
        return f"it said '{re.search(case.program.forbidden, said).group(0)}'"
    last = None
    for last in re.finditer(case.program.sane, said):
        pass
    if not last:
        return "it did not say that it worked"
    if "count" in last.groupdict() and int(last["count"]) != case.count:
        return f"it did {last['count']} of {case.count}"
    if case.sequence and re.findall(case.sequence, said) != [str(i) for i in range(case.count)]:
        return "some of it is missing, or out of its order"
    return ""


def was_pulled(case, out):
    """What is wrong with the test itself: the fault was none."""
    if out.elsewhere > SHARE * case.megabytes and not case.both_nics:
        return f"it used another NIC before: {out.elsewhere:.2f} MB"
    return "" if out.before > SHARE * case.megabytes else f"only {out.before:.2f} MB were carried before"


def moved(case, out):
    """What is wrong with how it moved."""
    missing = [host for host in ENDS if not any(device != out.nic for _, device in out.moves(host))]
    if missing:
        return f"no move in the log of {' and '.join(missing)}"
    if out.away < SHARE * case.megabytes:
        return f"only {out.away:.2f} MB went over the other NIC"
    if case.stays_out:
        return ""
    if not out.plugged:
        return "it was over before the cable was back"
    if out.lasted > RETURNS_S and not returned(case, out):
        return f"it did not return within {out.lasted:.1f} s"
    return ""


def returned(case, out):
    """It was on the primary path again, by both logs and by what was carried."""
    return out.back > SHARE * case.megabytes and all(any(device == out.nic for _, device in out.moves(host)) for host in ENDS)


def none_returned(half, homes):
    """What is wrong with all programs together: each was over before it had to return, but one or another has the time. @homes: which did."""
    return "no program returned to the NIC that its cable was back on" if half == "stacked" and len(homes) > 1 and not any(homes) else ""


def surfaced(case, out):
    """Whether it failed as an atomic may: with that status, and the plugin says why."""
    return (case.may_surface and out.client not in (0, None) and bool(re.search(SURFACED, out.said.get("client", "")))
            and any(reason in log for log in out.logs.values() for reason in LOST_ATOMIC))


def stacked(case, out):
    """(verdict, what is wrong or ""): survived, surfaced, WRONG"""
    wrong = was_pulled(case, out)
    if not wrong and surfaced(case, out):
        return "surfaced", ""
    if not wrong and (out.client, out.server) != (0, 0):
        wrong = f"ended with {out.client} and {out.server}"
    if not wrong and case.fault:
        wrong = "results were lost, and it was not told"
    wrong = wrong or results(case, out) or moved(case, out)
    return ("WRONG" if wrong else "survived"), wrong


def bare(case, out):
    """(verdict, what is wrong or ""): failed, hung, heals, WRONG. The fault is real: nobody gets through."""
    wrong = was_pulled(case, out)
    if not wrong and case.heals_itself and (out.client, out.server) == (0, 0):
        wrong = results(case, out)
        return "WRONG" if wrong else "heals", wrong
    if not wrong and (out.client, out.server) == (0, 0):
        wrong = "it did not notice: this proves nothing"
    if not wrong and out.away > SHARE * case.megabytes and not case.heals_itself:
        wrong = f"{out.away:.2f} MB went over the other NIC"
    return "WRONG" if wrong else "failed" if out.client or out.server else "hung", wrong
