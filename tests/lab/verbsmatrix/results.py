# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Result files, and what differs between two of them."""
import json
import pathlib


def save(path, label, kind, results, seconds):
    """Write a result file; kind is "programs" or "pyverbs"."""
    content = {"label": label, "kind": kind, "seconds": round(seconds, 1), "results": results}
    pathlib.Path(path).write_text(json.dumps(content, indent=1) + "\n")


def load(path):
    try:
        content = json.loads(pathlib.Path(path).read_text())
        content["label"], content["kind"], content["results"]
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise ValueError(f"{path} is no result file of this program: {err!r}") from None
    return content


def worked(entry):
    """Whether a result means that the program or test did what it should (a skipped test did).

    Where meshverbs is installed on simulated hosts, it must have been active, too.
    """
    if "outcome" in entry:
        return entry["outcome"] in ("passed", "skipped")
    return entry["client"] == 0 and entry["server"] == 0 and entry["sane"] and entry.get("active", True)


def essence(entry):
    """The part of a result that must be equal, as short text."""
    if entry is None:
        return "not run"
    if "outcome" in entry:
        reason = f": {entry['reason']}" if entry["reason"] else ""
        return entry["outcome"] + reason.replace("\n", " ")
    facts = " ".join(f"{k}={v}" for group in entry["facts"] for k, v in group.items())
    if not entry.get("active", True):
        facts += " (meshverbs was NOT ACTIVE)"
    return f"client {entry['client']}, server {entry['server']}, {'sane' if entry['sane'] else 'NOT SANE'} {facts}".rstrip()


def compare(one, other):
    """Names of what differs between two loaded files."""
    names = [*one["results"], *(n for n in other["results"] if n not in one["results"])]
    return [n for n in names if essence(one["results"].get(n)) != essence(other["results"].get(n))]


def proof(entry, lines=6):
    """What a failed run said itself."""
    if "outcome" in entry:
        return [entry["reason"]]
    text = [f"$ {entry['command']}"]
    for role in ("client", "server"):
        said = [line for line in entry["output"][role].splitlines() if line.strip()][-lines:]
        text += [f"{role}: {line}" for line in said] or [f"{role}: (nothing)"]
    return text
