# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Whether a case's two runs ended as they must, and what to print about it."""
import json
import re


def wrong(case, outcomes):
    """What is wrong with the outcomes of a case, by mode; a list of texts, empty if nothing is."""
    found = [text for mode, outcome in outcomes.items() for text in ends(case, mode, outcome)]
    bare, stacked = outcomes["bare"], outcomes["stacked"]
    if case.same and bare.how != stacked.how:
        found.append(f"bare ended with '{bare.how}', stacked with '{stacked.how}'")
    found += [f"bare: the plugin was loaded on {host}" for host, log in bare.logs.items() if log.strip()]
    return [*found, *logged(case, stacked), *explained(case, stacked)]


def ends(case, mode, outcome):
    if outcome.verdict != case.expected(mode):
        yield f"{mode}: {outcome.verdict} ({outcome.how}), must be: {case.expected(mode)}"
    for host in case.move:
        tables = outcome.tables.get(host, [])
        if case.changes and (len(tables) < 2 or tables[0] == tables[-1]):
            yield f"{mode}: the GID table of {host} did not change"
    if mode == "bare" and not re.search(case.bare_says, outcome.text):
        yield f"bare: nobody said '{case.bare_says}'"


def logged(case, outcome):
    """The stacked run's log has the lines it must have, and no index was changed that should not be."""
    for host, patterns in case.log.items():
        for pattern in flat(patterns):
            if not re.search(pattern, outcome.logs.get(host, "")):
                yield f"log of {host}: no line '{pattern}'"
    for host, log in outcome.logs.items():
        if re.search(r", using \d", log) and not any("using" in p for p in flat(case.log.get(host, []))):
            yield f"log of {host}: an index was changed, none should have been"


def explained(case, outcome):
    """The tool said beforehand what the plugin then did."""
    for host in case.explain:
        answer = re.search(r"^@@explain (.*)$", outcome.text, re.M)
        done = re.search(r"(using|would use) (\d+) ", outcome.logs.get(host, ""))
        if not answer or not done:
            yield f"explain on {host}: no answer, or nothing was changed"
            continue
        result = json.loads(answer[1])["result"]
        if result["index"] != int(done[2]) or result["action"] not in ("repair", "replace"):
            yield f"explain on {host}: {result['action']} with index {result['index']}, the plugin used {done[2]}"


def flat(patterns):
    return [patterns] if isinstance(patterns, str) else patterns


def show(name, outcomes, found, seconds):
    """One line about a case, and everything that was said if it failed."""
    ends_as = ", ".join(f"{mode}: {outcome.how}" for mode, outcome in outcomes.items())
    print(f"{'FAIL' if found else 'ok':4} {name} ({ends_as}) {seconds:.1f} s", flush=True)
    if not found:
        return
    for text in found:
        print(f"     {text}")
    for mode, outcome in outcomes.items():
        show_text(mode, outcome.text)
        for host, log in outcome.logs.items():
            show_text(f"{mode}, log of {host}", log)


def show_answer(name, found, text):
    print(f"{'FAIL' if found else 'ok':4} {name}", flush=True)
    for line in found:
        print(f"     {line}")
    if found:
        show_text("answer", text)


def show_text(title, text):
    print(f"     === {title}")
    print("".join(f"     | {line}\n" for line in text.splitlines()), end="", flush=True)
