# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What results mean: a program has to do with meshverbs what it does without, or what it cannot do without. Pure.

A Row is a dict: "what" (a program, or a group of checks), "group" (of programs, for the table), "verdict", "good", "proof" (lines of output).
"""
import re

WORKS, SKIPPED, BARE_FAILS, WRONG = "works", "skipped", "not bare", "WRONG"
GROUPS = (("perftest", r"ib_"), ("libibverbs' examples", r"ibv_"), ("UCX", r"ucx_"), ("libfabric", r"fi_"), ("MPICH", r"mpich|MPI"),
          ("Open MPI", r"openmpi"), ("librdmacm", r"rping|ucmatose|udaddy|rstream"))
NO_FRONT = re.compile(r"meshverbs-front: .*; none was made; with this C library .* LD_PRELOAD=/\S+/meshverbs-provider\.so$")
PULLED = re.compile(r"^(?P<name>\S.{33}) (?P<half>stacked|bare) +(?P<verdict>survived|surfaced|failed|hung|WRONG) ", re.M)


def row(what, verdict, good, proof=(), group=""):
    return {"what": what, "group": group or next((name for name, start in GROUPS if re.match(start, what)), ""), "verdict": verdict, "good": good,
            "proof": list(proof)}


def broken(name, done):
    """The command itself did not come to its end."""
    text = "\n".join(f"{step}: exit status {status}: {said[-1500:]}" for step, (status, said) in done.items())
    return row(name, WRONG, False, text.splitlines(), "the command")


def worked(entry):
    if "outcome" in entry:
        return entry["outcome"] in ("passed", "skipped")
    return entry["client"] == 0 and entry["server"] == 0 and entry["sane"] and entry.get("active", True)


def proof(entry):
    """What a run that failed said itself."""
    if entry is None:
        return ["not run"]
    if "outcome" in entry:
        return [entry["outcome"], *entry["reason"].splitlines()[-4:]]
    said = [f"$ {entry['command']}"]
    for role in ("client", "server"):
        lines = [line.strip() for line in entry["output"][role].splitlines() if line.strip()]
        said += [f"{role} ended with {entry[role]}: {' / '.join(lines[-3:])[:300]}"]
    if not entry.get("active", True):
        said.append("meshverbs was not active")
    return said


def compared(bare, stacked):
    """Results of tests/lab/matrix by name, without and with meshverbs: what works without has to work with it."""
    rows = []
    for name in dict.fromkeys([*bare, *stacked]):
        one, other = bare.get(name), stacked.get(name)
        if one is None or other is None:
            rows.append(row(name, WRONG, False, ["run in one half only"]))
        elif worked(one):
            skipped = one.get("outcome") == "skipped"
            same = worked(other) and (other.get("outcome") == one.get("outcome"))
            rows.append(row(name, (SKIPPED if skipped else WORKS) if same else WRONG, same, proof(one) if skipped else [] if same else proof(other)))
        else:
            rows.append(row(name, BARE_FAILS, True, proof(one)))
    return rows


def nics(outcomes):
    """Results of tests/sim/rightnic/matrix, both halves: which of them are not as they have to be is in each."""
    rows = []
    for one in outcomes:
        name = f"{one['program']} {one['server']}.{one['server_nic']} < {one['client']}.{one['client_nic']}"
        half = "with meshverbs" if one["stacked"] else "bare"
        verdict = WRONG if one["wrong"] else WORKS if one["ok"] else "fails"
        said = [one["wrong"], *(f"{role}: {text[-300:]}" for role, text in one["output"].items())] if one["wrong"] else []
        rows.append(row(f"{name}, {half}{'' if one['right'] else ', wrong'}", verdict, not one["wrong"], said))
    return rows


def pulled(text):
    """The table of tests/sim/survive/programs."""
    found = {}
    for line in PULLED.finditer(text):  # the last one of a program: the table is printed again where something was wrong
        found[line["name"].strip(), line["half"]] = line["verdict"]
    return [row(f"{name}, {'with meshverbs' if half == 'stacked' else half}", verdict, verdict != WRONG) for (name, half), verdict in found.items()]


def installed(text):
    """What apt said. With a C library that no front can be made for, meshverbs-front says so, and what there is instead."""
    lines = text.splitlines()
    bare = any(NO_FRONT.match(line) for line in lines)
    bad = [number for number, line in enumerate(lines)
           if line.startswith(("meshverbs-front:", "E: ", "W: ", "dpkg: error")) and not NO_FRONT.match(line)]
    good = bool(lines) and not bad
    return row("packages", f"installed{', no front' if bare else ''}" if good else WRONG, good, [line for number in bad for line in lines[max(0, number - 1):number + 1]], "packages")


def left_out(text):
    """Programs that a play did not run, for they do not work bare: it says so itself, with the proof."""
    return [row(what, BARE_FAILS, True, [why]) for what, why in dict.fromkeys(re.findall(r"^left out: (.*?): (.*)$", text, re.M))]


def unittests(name, status, text):
    """A run of Python's unittest: one row."""
    count = re.search(r"^Ran (\d+) tests? in", text, re.M)
    bad = re.findall(r"^(?:FAIL|ERROR): (.*)$", text, re.M)
    good = status == 0 and bool(count) and not bad
    return row(name, f"{count[1]} tests" if good else WRONG, good, [] if good else bad or text.splitlines()[-12:], name)


def ctests(name, status, text):
    """A run of ctest: one row."""
    count = re.search(r"^100% tests passed, 0 tests failed out of (\d+)$", text, re.M)
    good = status == 0 and bool(count)
    return row(name, f"{count[1]} tests" if good else WRONG, good, [] if good else text.splitlines()[-20:], name)


def wrong(rows):
    return [one for one in rows if not one["good"]]
