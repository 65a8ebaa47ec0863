# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Builds meshverbs' packages in Debian's suites, installs them there, and runs that suite's programs on simulated hosts, bare and with them.

What was made for an earlier run of the same source is used again: roots, packages, and results that were as they have to be.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

from pkglab import Failed

from . import REPO, SUITES, judge, table
from .plays import NAMES, PLAYS
from .suite import Source, Suite, save

FOREIGN = "bookworm"


def parse(words):
    top = argparse.ArgumentParser(prog="run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("suites", metavar="SUITE", nargs="*", choices=[*SUITES, []], help=f"default: {' '.join(SUITES)}")
    top.add_argument("-p", "--play", action="append", choices=NAMES, help="only this; may be given again")
    top.add_argument("-o", "--out", type=pathlib.Path, default=REPO / "build/distro", help="default: build/distro")
    top.add_argument("-s", "--short", action="store_true", help="the core and a sample of each play: some ten minutes for each suite")
    top.add_argument("--again", action="store_true", help="run also what was as it has to be")
    top.add_argument("--build", action="store_true", help="only make roots and packages")
    top.add_argument("--table", action="store_true", help="run nothing: print the table of what was run")
    return top.parse_args(words)


def kept(path):
    """What an earlier run left, or {}."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def perform(suite, play, stage, short):
    """Rows of a play."""
    done = {}
    for old in suite.out.glob(f"{play.name}-*.json"):
        old.unlink()
    for name, stacked, script in play.steps:
        done[name] = suite.run(script, f"{name}.log", play.seconds, stacked=stacked, stage=stage, short=short)
    return play.read(suite.out, done)


def run_play(suite, play, source, args, stage=None):
    """Whether it is as it has to be; its rows go to the results."""
    path = suite.out / f"{play.name}.rows.json"
    before = kept(path)
    if (not args.again and before.get("tree") == source.tree and before.get("rows") and not judge.wrong(before["rows"])
            and (args.short or not before["short"])):
        print(f"  {play.name}: as it has to be, from an earlier run", flush=True)
        return True
    begun = time.monotonic()
    path.unlink(missing_ok=True)  # should this end early
    rows = perform(suite, play, stage, args.short)
    save(path, {"tree": source.tree, "commit": source.commit, "short": args.short, "rows": rows})
    bad = judge.wrong(rows)
    not_bare = [one for one in rows if one["verdict"] == judge.BARE_FAILS]
    print(f"  {play.name}: {len(rows) - len(bad)} of {len(rows)} as they have to be, {len(not_bare)} that do not work bare, "
          f"{time.monotonic() - begun:.0f} s", flush=True)
    for one in bad:
        print("\n      ".join([f"    WRONG: {one['what']}", *one["proof"]]), flush=True)
    return bool(rows) and not bad


def run_suite(name, args, source):
    """How many plays were not as they have to be."""
    print(f"== {name}", flush=True)
    suite, failed = Suite(name, args.out), 0
    with suite.alone():
        suite.prepare(source)
        save(suite.out / "versions.json", suite.versions())
        for play in [] if args.build else PLAYS:
            if (args.play and play.name not in args.play) or (play.foreign and name in ("bullseye", FOREIGN)):
                continue
            failed += not run_play(suite, play, source, args, suite.foreign_stage(FOREIGN, source) if play.foreign else None)
    return failed


def report(out):
    """Write the table and the proofs; the table."""
    suites = [name for name in SUITES if (out / name / "versions.json").is_file()]
    found = {name: {play.name: kept(out / name / f"{play.name}.rows.json") for play in PLAYS} for name in suites}
    results = {name: {play: one["rows"] for play, one in plays.items() if one.get("rows")} for name, plays in found.items()}
    versions = {name: {"meshverbs": " ".join(sorted({one["commit"] for one in plays.values() if one.get("commit")})),
                       **kept(out / name / "versions.json")} for name, plays in found.items()}
    text = table.markdown(results, versions, [(play.name, play.title) for play in PLAYS])
    (out / "table.md").write_text(text)
    (out / "not-bare.txt").write_text(table.proofs(results))
    return text


def main(words=None):
    args = parse(words)
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.table:
        print(report(args.out), end="")
        return 0
    if os.geteuid() != 0:
        print("roots and simulated hosts need root", file=sys.stderr)
        return 77
    source = Source.of_tree()
    failed = []
    for name in args.suites or SUITES:
        try:
            if run_suite(name, args, source):
                failed.append(name)
        except (Failed, OSError, subprocess.SubprocessError) as err:
            print(f"FAILED: {name}: {err}", flush=True)
            failed.append(name)
    print("\n" + report(args.out))
    print(f"What programs do not do bare, with the proof: {args.out}/not-bare.txt")
    print(f"distro: {'not as it has to be: ' + ' '.join(failed) if failed else 'all as it has to be'}")
    return 1 if failed else 0
