#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs on a host: rdma-core's Python tests, each in a process of its own with a time limit.

The suite is imported once (seconds under emulation) and each test runs in a fork, so a test that
hangs or crashes takes nothing along.  Prints one line "@@{json}" for each test.
"""
import argparse
import gzip
import importlib.machinery
import json
import os
import pathlib
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest
import zlib

SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
# Tests of the suite that race: (id, what it says then, how often it is tried). Before rdma-core 44 both members of a multicast group send, so either
# may receive what it has sent itself (7d311d53506f "tests: Move RDMACM tests to be in one direction"); bare as well.
RACES = [(r"\.test_rdmacm_async_(ex_)?multicast_traffic$", "ValueError: too many values to unpack (expected 2)", 6)]


class Collector(unittest.TestResult):
    """What became of one test: outcome and why."""

    def __init__(self):
        super().__init__()
        self.outcome, self.reason = "passed", ""

    def take(self, outcome, reason):
        if self.outcome in ("passed", "skipped"):
            self.outcome, self.reason = outcome, reason

    def addSkip(self, test, reason):
        self.take("skipped", reason)

    def addFailure(self, test, err):
        self.take("failed", last_words(err))

    def addError(self, test, err):
        self.take("failed", last_words(err))

    def addSubTest(self, test, subtest, err):
        if err:
            self.take("failed", last_words(err))


def last_words(err):
    return "".join(traceback.format_exception_only(*err[:2])).strip()[-500:]


def unpack(directory):
    """A copy of the suite with the files that Debian compressed unpacked."""
    for file in SUITE.iterdir():
        if file.suffix == ".gz":
            (directory / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.is_file():
            shutil.copy(file, directory / file.name)


def load(directory, device, gid):
    sys.argv = ["run_tests", "--dev", device, "--gid", str(gid)]
    sys.path.insert(0, str(directory))
    from args_parser import parser
    package = importlib.machinery.SourceFileLoader("tests", str(directory / "__init__.py")).load_module()
    parser.parse_args()
    loader = unittest.TestLoader()
    return [t for m in package.__test_modules__ for t in flatten(loader.loadTestsFromModule(m))]


def flatten(suite):
    for item in suite:
        yield from flatten(item) if isinstance(item, unittest.TestSuite) else [item]


def run_one(test, timeout):
    """Outcome of a test, run in a fork of this process."""
    start = time.monotonic()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(test, reader, writer)
    os.close(writer)
    text = read_all(reader, start + timeout)
    if text is None:
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    try:
        os.killpg(pid, signal.SIGKILL)  # what the test left running
    except ProcessLookupError:
        pass
    os.close(reader)
    if text is None:
        outcome, reason = "timeout", f"{timeout:g} s"
    elif not text:
        outcome, reason = "crashed", f"wait status {status}"
    else:
        outcome, reason = json.loads(text)
    return {"outcome": outcome, "reason": steady(reason), "seconds": round(time.monotonic() - start, 2)}


def run_tried(test, timeout):
    """run_one(), again where the test itself races."""
    entry = run_one(test, timeout)
    for name, said, tries in RACES:
        while re.search(name, test.id()) and entry["reason"] == said and tries > 1:
            entry = run_one(test, timeout)
            tries -= 1
    return entry


def child(test, reader, writer):
    os.close(reader)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    result = Collector()
    unittest.TestSuite([test]).run(result)
    os.write(writer, json.dumps([result.outcome, result.reason]).encode())
    os._exit(0)


def read_all(fd, deadline):
    """All that comes until end of file, None if that takes too long."""
    data = b""
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        more = os.read(fd, 65536)
        data += more
        if data.endswith(b"]") or not more:  # grandchildren may hold the pipe open
            return data.decode()


def steady(reason):
    """Without what differs from run to run: addresses, numbers of processes and queue pairs."""
    return re.sub(r"0x[0-9a-f]+", "0x...", reason)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--dev", required=True)
    args.add_argument("--gid", type=int, default=1)
    args.add_argument("--share", default="0/1", help="I/N: the tests with number = I modulo N")
    args.add_argument("--timeout", type=float, default=20.0)
    args.add_argument("--only", default="", help="regular expression")
    args.add_argument("--one-in", type=int, default=1, metavar="N", help="of these only about every Nth, by its name and --seed")
    args.add_argument("--seed", type=int, default=0)
    args.add_argument("--hugepages", action="store_true", help="reserve a few, which some tests want, in this kernel")
    options = args.parse_args()
    if options.hugepages:
        pathlib.Path("/proc/sys/vm/nr_hugepages").write_text("8")
    index, shares = map(int, options.share.split("/"))
    with tempfile.TemporaryDirectory() as directory:
        unpack(pathlib.Path(directory))
        tests = [t for t in load(pathlib.Path(directory), options.dev, options.gid)
                 if re.search(options.only, t.id()) and zlib.crc32(f"{options.seed} {t.id()}".encode()) % options.one_in == 0]
        for test in tests[index::shares]:
            print("@@" + json.dumps({"id": test.id(), **run_tried(test, options.timeout)}), flush=True)


if __name__ == "__main__":
    main()
