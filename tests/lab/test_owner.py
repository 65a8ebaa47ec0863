#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Whose queue pair is it? The kernel of a guest is asked, as the agent asks, and an attacker tries to register what is not its own.

    test_owner.py BUILD_DIR             one guest, half a minute on an idle machine; any kernel the lab boots

A bare ibv_rc_pingpong waits for its client: the victim, whose queue pair nobody has registered. The kernel has to name its pid. A process of
another user makes a queue pair of its own and registers that, the victim's, and a hundred numbers that nobody has yet: all but its own are
refused, it is told so, and the agent's log names its user and pid.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "topo")]
from gids import stage  # noqa: E402
from rdmalab import Lab  # noqa: E402
from rdmalab.progress import Progress  # noqa: E402

BOOT_S, WAIT_S = 400.0, 90.0
OWNER = f"/{stage.PLACE}/owner"
NOBODY = 65534


def victim(lab):
    """(job, pid, QPN) of a program that waits in INIT."""
    job = lab.start("a", f"/{stage.PLACE}/bare sh -c 'echo pid $$; exec ibv_rc_pingpong -d rxe0 -g 1' 2>&1")
    # The program buffers what it says of itself; the kernel's list tells its number.
    job.wait_output("pid ", WAIT_S)
    pid = int(re.search(r"pid (\d+)", job.text())[1])
    shows = lab.run("a", f"for i in $(seq 300); do rdma resource show qp link rxe0/1 | grep 'pid {pid} ' && break; sleep 0.1; done", WAIT_S)
    return job, pid, int(re.search(r"lqpn (\d+)", shows.out)[1])


def run(lab):
    wrong = []

    def check(what, ok, said):
        print(f"{'ok   ' if ok else 'WRONG'} {what}" + ("" if ok else f":\n{said}"), flush=True)
        if not ok:
            wrong.append(what)

    kernel = lab.run("a", "uname -r", WAIT_S).out.strip()
    agent = lab.start("a", "exec meshverbsd --foreground 2>&1")
    lab.run("a", "until [ -S /run/meshverbs/agent ]; do sleep 0.1; done; chmod 666 /dev/infiniband/*", WAIT_S)
    job, pid, qpn = victim(lab)
    asked = lab.run("a", f"{OWNER} ask rxe0 {qpn}; {OWNER} ask rxe0 {qpn + 50}", WAIT_S)
    check(f"Linux {kernel} names process {pid} for QP {qpn}, and none for one that is not there",
          asked.out.split() == ["owner", str(pid), "owner", "-2"], asked.out)
    squat = lab.run("a", f"setpriv --reuid {NOBODY} --clear-groups {OWNER} squat rxe0 {qpn} 2>&1", WAIT_S)
    check("a squatter registers its own queue pair, and neither another's nor one that is not there yet", squat.rc == 0, squat.out)
    squatter = re.search(r"pid (\d+)", squat.out)
    logged = rf"user {NOBODY}, process {squatter and squatter[1]} .* may not register QP {qpn} of rxe0: it is another process's"
    check("the agent's log names its user and pid", re.search(logged, agent.text()), agent.text())
    thread = lab.run("a", f"{OWNER} thread rxe0 2>&1", WAIT_S)
    check("a queue pair whose thread has ended is its process's", thread.rc == 0, thread.out)
    check("the agent and the victim live", agent.poll() is None and job.poll() is None, agent.text())
    job.kill()
    agent.kill()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR")
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("lab-owner: skipped: needs root (guests read the host's root file system)")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = pathlib.Path(tempfile.mkdtemp(prefix="lab-owner."))
    try:
        stage.build(args.build, directory / "stage")
        shutil.copy(pathlib.Path(args.build) / "tests/lab/lab-owner", directory / "stage" / stage.PLACE / "owner")
        name = f"owner-{os.getpid()}"
        with Lab.up("pair", name=name, only=["a"], overlays=[directory / "stage"], mem=512, timeout=BOOT_S, progress=Progress(name)) as lab:
            return 1 if run(lab) else 0
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(main())
