#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""An RC connection by pyverbs: the client sends a text, the server prints it.

    pyrc.py server PORT DEVICE GID-INDEX
    pyrc.py client PORT DEVICE GID-INDEX HOST TEXT
"""
import json
import socket
import sys
import time
import types

from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

try:
    from pyverbs import enums as e
except ImportError:  # rdma-core 65: each in a class of its type
    from pyverbs import libibverbs_enums
    e = types.SimpleNamespace(**{name: value for kind in vars(libibverbs_enums).values() for name, value in getattr(kind, "__members__", {}).items()})

SIZE, SECONDS = 64, 60


def tcp(port, host):
    deadline = time.monotonic() + SECONDS
    if not host:
        with socket.create_server(("", port)) as listener:
            listener.settimeout(SECONDS)
            return listener.accept()[0]
    while True:
        try:
            return socket.create_connection((host, port), SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def connect(qp, index, peer):
    attr = QPAttr(port_num=1)
    attr.pkey_index = 0
    attr.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE
    qp.to_init(attr)
    route = GlobalRoute(dgid=GID(peer["gid"]), sgid_index=index)
    attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    attr.path_mtu, attr.dest_qp_num, attr.rq_psn = e.IBV_MTU_1024, peer["qpn"], peer["psn"]
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.sq_psn = 12, 14, 5, 7, 1000
    qp.to_rts(attr)


def wait(cq):
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        count, completions = cq.poll()
        if count:
            return completions[0].status
    raise SystemExit("pyrc: no completion")


def main():
    role, port, device, index = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    context = Context(name=device)
    pd, cq = PD(context), CQ(context, 4)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(4, 4, 1, 1)))
    mr = MR(pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE)
    place = SGE(mr.buf, SIZE, mr.lkey)
    with tcp(port, sys.argv[5] if role == "client" else None) as peer, peer.makefile("r") as incoming:
        def exchange(mine):
            peer.sendall(json.dumps(mine).encode() + b"\n")
            return json.loads(incoming.readline())

        theirs = exchange({"gid": str(context.query_gid(1, index)), "qpn": qp.qp_num, "psn": 1000})
        connect(qp, index, theirs)
        if role == "server":
            qp.post_recv(RecvWR(num_sge=1, sg=[place]))
        exchange("ready")
        if role == "client":
            mr.write(sys.argv[6].ljust(SIZE), SIZE)
            qp.post_send(SendWR(num_sge=1, sg=[place]))
        status = wait(cq)
        if status:
            raise SystemExit(f"pyrc: Completion with error {status}")
        print(mr.read(SIZE, 0).decode().rstrip())
        exchange("done")


if __name__ == "__main__":
    main()
