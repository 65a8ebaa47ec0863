# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Results as a table and as JSON."""
import json
import pathlib


def table(rows, columns, cell):
    """Text table; cell(row, column) is the text in it."""
    body = [[row, *[cell(row, column) for column in columns]] for row in rows]
    head = ["", *columns]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in [head, *body])


def word(case, stacked, result, wrong):
    if not result:
        return "."
    if wrong:
        return "WRONG"
    return "fails" if not result["ok"] else "ok" if case.right or not stacked else "moved"


def matrix(title, outcomes, stacked):
    """outcomes: {Case: (result, what is wrong)}"""
    places, cells = {}, {}
    for case, (result, wrong) in outcomes.items():
        place = (f"{case.server}.{case.server_nic} < {case.client}.{case.client_nic}"
                 f"{'' if case.right else '  wrong'}")
        places[place] = True
        cells[place, case.program] = word(case, stacked, result, wrong)
    columns = list(dict.fromkeys(case.program for case in outcomes))
    return f"{title}\n" + table(sorted(places), columns, lambda row, column: cells.get((row, column), "."))


def write_json(path, data):
    pathlib.Path(path).write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
