# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The table of all suites, as Markdown. Pure."""
from . import judge

NOT_RUN = "not run"


def line(cells):
    return f"| {' | '.join(cells)} |"


def cell(rows):
    """What came of a group of programs, in a few words."""
    if not rows:
        return NOT_RUN
    bad, not_bare, skipped = len(judge.wrong(rows)), *(sum(one["verdict"] == verdict for one in rows) for verdict in (judge.BARE_FAILS, judge.SKIPPED))
    if bad:
        return f"**{bad} of {len(rows)} wrong**"
    if len(rows) == 1 and not not_bare:
        return rows[0]["verdict"]
    return f"{len(rows) - not_bare - skipped}" + (f", {skipped} skipped" if skipped else "") + (f", {not_bare} not bare" if not_bare else "")


def groups(results, play):
    """[(group, {suite: rows})] of a play, in the order in which they were met."""
    found = {}
    for suite, plays in results.items():
        for one in plays.get(play, ()):
            found.setdefault(one["group"], {}).setdefault(suite, []).append(one)
    return list(found.items())


def markdown(results, versions, plays):
    """results: {suite: {play: [Row]}}; versions: {suite: {name: version}}; plays: [(name, title)]"""
    suites = list(versions)
    lines = [line(["", "", *suites]), line(["---"] * (len(suites) + 2))]
    for name in dict.fromkeys(name for found in versions.values() for name in found):
        lines.append(line(["version", name, *(versions[suite].get(name) or "none" for suite in suites)]))
    for play, title in plays:
        for group, found in groups(results, play):
            lines.append(line([title, group or "other", *(cell(found.get(suite)) for suite in suites)]))
    return "\n".join(lines) + "\n"


def proofs(results):
    """What programs cannot do without meshverbs either, with what they said; a paragraph for each suite."""
    text = []
    for suite, plays in results.items():
        for play, rows in plays.items():
            for one in rows:
                if one["verdict"] == judge.BARE_FAILS:
                    text.append(f"{suite}, {play}: {one['what']}")
                    text += [f"    {said}" for said in one["proof"]]
    return "\n".join(text) + "\n"
