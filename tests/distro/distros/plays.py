# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is run in a suite's root: the simulator's own tests of unmodified programs, with that suite's programs, libraries and packages."""
import dataclasses
import json
import re
import typing

from . import judge

MATRIX = "$REPO/tests/lab/matrix"
QUICK = "^(?!.* -a( |$))"  # not perftest's -a, whose table takes a quarter of an hour
SUBSET = "^(ib_(write|send|read|atomic)_bw|ibv_(rc|srq|ud)_pingpong|ucx_perftest (rc_verbs (am|put)_bw|ucp tag_bw rc_v ipv4))"


@dataclasses.dataclass(frozen=True)
class Play:
    name: str
    title: str  # the table's column of situations
    steps: tuple  # (name, stacked, script): its output is in NAME.log, files of its own in /out; $SHORT is a seed, or empty
    read: typing.Callable  # (folder of results, {step: (status, output)}) -> [judge.Row]
    seconds: int = 900
    foreign: bool = False  # with the plugin of another suite's package


def matrix(name, half, words):
    """A step: one half of a command of tests/lab/matrix."""
    command = f"{MATRIX} {words} --sim $BUILD --label {half} -o /out/{name}-{half}.json"
    if half == "bare":
        return f"{name}-bare", False, command
    return f"{name}-stacked", True, f"$REPO/scripts/stage $BUILD /tmp/stage && {command} --overlay /tmp/stage"


def halves(name, words):
    return tuple(matrix(name, half, words) for half in ("bare", "stacked"))


def load(folder, name):
    try:
        return json.loads((folder / name).read_text())
    except (OSError, ValueError):
        return None


def both(name):
    """Rows of two result files of tests/lab/matrix."""
    def read(folder, done):
        found = [load(folder, f"{name}-{half}.json") for half in ("bare", "stacked")]
        return judge.compared(*(one["results"] for one in found)) if all(found) else [judge.broken(name, done)]
    return read


def nics(folder, done):
    found = [load(folder, f"nic-{half}.json") for half in ("bare", "stacked")]
    return judge.nics(sum(found, [])) if all(found) else [judge.broken("nic", done)]


def pulled(folder, done):  # pylint: disable=unused-argument
    text = "\n".join(said for _, said in done.values())
    rows = judge.pulled(text)
    return [*rows, *judge.left_out(text)] if rows else [judge.broken("pulled", done)]


def unittests(folder, done):  # pylint: disable=unused-argument
    rows = [judge.unittests(name, status, text) for name, (status, text) in done.items()]
    return [*rows, *judge.left_out("\n".join(text for _, text in done.values()))]


def installed(folder, done):  # pylint: disable=unused-argument
    log = folder / "install.log"
    return [judge.installed(log.read_text() if log.is_file() else "")]


def ctests(folder, done):  # pylint: disable=unused-argument
    return [judge.ctests(name, status, text) for name, (status, text) in done.items()]


# a.0 reaches b.0, and nothing else does
NICS = "$REPO/tests/sim/rightnic/matrix $BUILD --topology triangle --only '[ab]\\.. < [ab]\\..' --jobs 1"
# UCX of some suites is built without InfiniBand: what rests on it is left out, which judge.left_out() finds in the output.
ASK_UCX = ("found=$($REPO/sim/sim run pair a -- ucx_info -d | sed -n 's/^# *Transport: //p' | sort -u | tr '\\n' ' '); "
           "case $found in *rc_verbs* | '') ;; *) set -- {}; echo \"left out: {}: UCX has the transports $found\" ;; esac; ")
# MPICH of bullseye uses sockets, and no UCX.
ASK_MPICH = ("device=$(mpichversion | sed -n 's/^MPICH Device:[[:space:]]*//p'); "
             "case $device in *ucx* | '') ;; *) [ $# -gt 0 ] || set -- {}; echo \"left out: MPI: MPICH has the device $device\" ;; esac; ")
OTHERS = "-k nccl -k Unopened -k Versions -k Uncabled -k SameAddress -k Lost"
PULLED = (ASK_UCX.format("--only '^(?!ucx|MPI)'", "ucx_perftest, MPI") + ASK_MPICH.format("--only '^(?!MPI)'")
          + "$REPO/tests/sim/survive/programs $BUILD --seed 1 ${SHORT:+--short} \"$@\"")
CHOOSE = (ASK_UCX.format(OTHERS, "ucx_perftest, MPI") + ASK_MPICH.format(f"-k ucx {OTHERS}") + "RIGHTNIC_SHORT=$SHORT python3 $REPO/tests/sim/rightnic/test_programs.py \"$@\"")
UNIT = ('eval "$(grep ^for_unit= $REPO/check)" && { ninja -C $BUILD "${for_unit[@]}" >/tmp/built || { grep -A9 "^FAILED" /tmp/built; false; }; } && cd $BUILD && '
        "ctest -L '^unit$' -j2 --output-on-failure --no-tests=error")
PLAYS = (
    Play("install", "apt install", (), installed),
    Play("unit", "unit tests", (("unit", False, UNIT),), ctests),
    Play("programs", "right NIC", halves("programs", f"run --only '{QUICK}' ${{SHORT:+--sample 6 --seed $SHORT}}"), both("programs"), 1200),
    Play("nic", "wrong NIC, triangle", (
        ("nic-bare", False, f"{NICS} --half bare -o /out/nic-bare.json"),
        ("nic-stacked", True, f"{NICS} --half stacked -o /out/nic-stacked.json")), nics),
    Play("gid", "wrong GID", (("gid", True, "python3 $REPO/tests/sim/accept/test_gid.py"),), unittests),
    Play("pulled", "cable pulled, survive = on", (
        ("pulled-stacked", True, f"{PULLED} --half stacked"),
        ("pulled-bare", False, f"{PULLED} --half bare")), pulled),
    Play("rdmacm", "librdmacm's programs: right NIC, triangle, cable pulled", (
        ("rdmacm", True, "python3 $REPO/tests/sim/hosts/test_rdmacm.py ${SHORT:+Programs Stacked Survival.test_both_ends}"),), unittests),
    Play("choose", "programs that choose: triangle, a port down", (
        ("choose-bare", False, f"export RIGHTNIC_HALF=bare; {CHOOSE}"),
        ("choose-stacked", True, f"export RIGHTNIC_HALF=stacked; {CHOOSE}")), unittests),
    Play("suite", "rdma-core's own suite",
         halves("suite", r"pyverbs --timeout 40 ${SHORT:+--only 'test_(addr|cq|mr|pd|qp|shared_pd)\.'}"), both("suite"), 1200),
    Play("foreign", "bookworm's plugin", halves("foreign", f"run --only '{SUBSET}'"), both("foreign"), foreign=True),
)
NAMES = [play.name for play in PLAYS]
assert all(re.fullmatch("[a-z]+", name) for name in NAMES)
