# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Switched off, misconfigured, without /sys, over an unknown libibverbs: as bare, and the log and the tool say why."""
import json
import re

from .case import FAILS, WORKS, Case, kept, moved
from .moved import empty
from .programs import A, B, pingpong
from .stage import PLACE

BROKEN = f"/{PLACE}/broken.conf"
NO_SYS = f"/{PLACE}/nosys"
STEPS_ASIDE = "; running as without meshverbs"
UNMEASURABLE = rf"/{PLACE}/unmeasurable/libibverbs.so.1: operation \w*async_event is not where it should be"
TABLELESS = rf"/{PLACE}/tableless/libibverbs.so.1 does not export _ibv_query_gid_table"


def cases():
    for name, env, why in (("MESHVERBS=off", "MESHVERBS=off", "environment: switched off by MESHVERBS=off"),
                           ("observe", "MESHVERBS=observe", rf"index 1 is empty, would use 2 \({re.escape(B)}\)"),
                           ("unmeasurable libibverbs", library("unmeasurable"), UNMEASURABLE + STEPS_ASIDE),
                           ("libibverbs without GID tables", library("tableless"), TABLELESS)):
        yield Case(f"{name}: moved index, as bare", stacked=FAILS, same=True, env=env, **pingpong("rc"), move={"b": empty(B)},
                   log={"b": why})
    for name in ("unmeasurable", "tableless"):
        yield Case(f"{name} libibverbs: right index", bare=WORKS, env=library(name), **pingpong("uc"))
    yield Case("broken mesh.conf: moved index, as bare", stacked=FAILS, same=True, env=f"MESHVERBS_CONF={BROKEN}", **pingpong("rc"),
               move={"b": empty(B)}, log={"b": [rf"{BROKEN}:{line}: .*{STEPS_ASIDE}" for line in (2, 4, 8)]})
    yield Case("broken mesh.conf: right index", bare=WORKS, env=f"MESHVERBS_CONF={BROKEN}", **pingpong("uc"))
    yield Case("no /sys: right index", bare=WORKS, env=NO_SYS, **pingpong("rc"), log={"a": kept(B, 1), "b": kept(A, 1)})
    yield Case("no /sys: moved index", env=NO_SYS, **pingpong("rc"), move={"b": empty(B)}, log={"b": moved(A, 1, "empty", 2, B)})


def library(name):
    return f"LD_LIBRARY_PATH=/{PLACE}/{name}"


# Name, command in b, exit status, patterns in its output.
ANSWERS = (
    ("status", "meshverbs status", 0, [r"Active: +yes, on 2 of 2 RDMA devices"]),
    ("status, off", "MESHVERBS=off meshverbs status", 1, [r"Active: +no", "switched off by MESHVERBS=off"]),
    ("status, broken mesh.conf", f"MESHVERBS_CONF={BROKEN} meshverbs status", 1,
     [r"Active: +no", rf"{BROKEN}:2\b", rf"{BROKEN}:4\b", rf"{BROKEN}:8\b", "perhaps", "colour", "does nothing"]),
    ("status, unmeasurable libibverbs", f"{library('unmeasurable')} meshverbs status", 1,
     [r"Active: +no", r"operation \w*async_event is not where it should be"]),
    ("status, libibverbs without GID tables", f"{library('tableless')} meshverbs status", 1,
     [r"Active: +no", "older than rdma-core 32"]),
    ("status, no /sys", f"{NO_SYS} meshverbs status", 1, ["/sys/class/infiniband"]),
    ("explain", f"meshverbs explain --from rxe0 --index 5 --seen {B} --to {A}", 0,
     [rf"a program that uses index 5 gets index 1 \({re.escape(B)}\) instead"]),
    ("explain, unreachable", "meshverbs explain --from rxe0 --index 1 --to fd00:7::7", 1, ["unroutable|no entry|not reach"]),
)


def answers(w):
    """(name, what is wrong, what was said) for each question to the tool."""
    w.run("b", w.reset("b"))
    for name, command, rc, patterns in ANSWERS:
        done = w.run("b", command)
        found = [f"no '{p}' in the answer" for p in patterns if not re.search(p, done.out)]
        yield name, found + ([] if done.rc == rc else [f"exit status {done.rc}, must be {rc}"]), done.out
    yield gids_agree(w)


def gids_agree(w):
    """The tool's table is the kernel's."""
    done = w.run("b", "table; meshverbs gids -d rxe0 -j")
    first, _, text = done.out.partition("\n")
    mine = {entry["index"] for entry in json.loads(text)["gids"]}
    kernel = {int(word.split("=")[0]) for word in first.split()[1:]}
    return "gids", [] if mine == kernel else [f"indexes {sorted(mine)}, the kernel has {sorted(kernel)}"], done.out
