# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rdma-core's own Python test-suite in lab guests: each guest runs its share of the tests."""
import json
import pathlib
import shlex
import time

from rdmalab import job as job_module

RUNNER = pathlib.Path(__file__).resolve().parent.parent / "guest" / "pyverbs_suite.py"


def run(lab, hosts, link, env, only, timeout, report):
    """Results by test id; report(id, result) is called as each one ends."""
    jobs = {}
    for number, host in enumerate(hosts):
        nic = next(n for n in lab.topo.links[link].ports if n.host == host)
        job_dir = lab.host(host).dir / "jobs"
        (job_dir / RUNNER.name).write_bytes(RUNNER.read_bytes())
        words = ["env", *env, "/usr/bin/python3", f"/run/lab/jobs/{RUNNER.name}", "--dev", lab.device(nic.port),
                 "--gid", "1", "--share", f"{number}/{len(hosts)}", "--timeout", f"{timeout:g}", "--only", only]
        jobs[host] = lab.start(host, shlex.join(words))
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
            job.guest.check()
        time.sleep(job_module.POLL_S)
    return results


def take(line, results, report):
    if line.startswith("@@"):
        entry = json.loads(line[2:])
        name = entry.pop("id")
        results[name] = entry
        report(name, entry)
