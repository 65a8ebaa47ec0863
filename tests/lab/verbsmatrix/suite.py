# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rdma-core's own Python test-suite on two hosts: each runs its share of the tests."""
import json
import pathlib
import shlex
import time

from rdmalab import job as job_module

RUNNER = pathlib.Path(__file__).resolve().parent.parent / "guest" / "pyverbs_suite.py"
SIMBIN = RUNNER.parent / "simbin"  # commands for what the kernel does not know of simulated hosts


def run(place, hosts, link, options, report):
    """Results by test id; report(id, result) is called as each one ends. options: those of the command"""
    jobs = {}
    for number, host in enumerate(hosts):
        nic = next(n for n in place.topo.links[link].ports if n.host == host)
        path = [f"PATH={place.script(host, SIMBIN)}:/usr/sbin:/usr/bin:/sbin:/bin"] if place.kind == "sim" else []
        words = ["env", *path, *options.env, "/usr/bin/python3", place.script(host, RUNNER), "--dev", place.device(nic.port),
                 "--gid", str(place.gid("ipv4")), "--share", f"{number}/{len(hosts)}", "--timeout", f"{options.timeout:g}",
                 "--only", options.only, "--one-in", str(options.one_in), "--seed", str(options.seed)]
        if place.kind == "lab":
            words.append("--hugepages")
        jobs[host] = place.start(host, shlex.join(words))
    results, buffers = {}, dict.fromkeys(jobs, b"")
    left = dict(jobs)
    while left:
        for host, job in list(left.items()):
            ended = job.poll() is not None
            *lines, buffers[host] = (buffers[host] + job.fresh()).split(b"\n")
            for line in lines:
                take(line.decode(errors="replace"), results, report)
            if ended:
                if job.poll():
                    raise RuntimeError(f"the suite's runner on {host} ended with status {job.poll()}:\n{job.text()[-2000:]}")
                del left[host]
            job.check()
        time.sleep(job_module.POLL_S)
    return results


def take(line, results, report):
    if line.startswith("@@"):
        entry = json.loads(line[2:])
        name = entry.pop("id")
        results[name] = entry
        report(name, entry)
