# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Skips and failures of rdma-core's Python suite that are known, each kind with its reason.

The file has paragraphs: a text, then indented lines `OUTCOME REGEX`; the expression has to be found in "TEST: REASON".
"""
import dataclasses
import pathlib
import re

OUTCOMES = ("skipped", "failed", "crashed", "timeout")


@dataclasses.dataclass
class Rule:
    line: int
    text: str  # the explanation
    outcome: str
    found: re.Pattern


def load(path):
    rules, text, fresh = [], "", True
    for number, line in enumerate(pathlib.Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#") or not line.strip():
            fresh = True
        elif not line.startswith((" ", "\t")):
            text, fresh = (line.strip() if fresh else f"{text} {line.strip()}"), False
        else:
            outcome, _, regex = line.strip().partition(" ")
            if outcome not in OUTCOMES or not regex or not text:
                raise ValueError(f"{path}:{number}: write an explanation, then indented: {'|'.join(OUTCOMES)} REGEX")
            try:
                rules.append(Rule(number, text, outcome, re.compile(regex)))
            except re.error as err:
                raise ValueError(f"{path}:{number}: {regex}: {err}") from None
    return rules


def check(found, rules):
    """({explanation: test names}, {name: entry that no rule explains}, rules that explain nothing)."""
    kinds, new, used = {}, {}, set()
    for name, entry in found.items():
        if entry["outcome"] == "passed":
            continue
        text = f"{name}: {entry['reason']}"
        rule = next((r for r in rules if r.outcome == entry["outcome"] and r.found.search(text)), None)
        if rule:
            used.add(rule.line)
            kinds.setdefault(rule.text, []).append(name)
        else:
            new[name] = entry
    return kinds, new, [r for r in rules if r.line not in used]
