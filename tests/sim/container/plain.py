#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One message over a reliable connection, from one end that only sends to one that only receives.

    plain.py receive DEVICE INDEX SECONDS [srq]   of the GID table; prints "end QPN", reads "PEER'S-GID QPN" from stdin, connects, says
                                                  "connected", waits; with an SRQ
    plain.py send DEVICE INDEX                    the same, and after the next line from stdin goes on to RTS and sends
"""
import ipaddress
import sys
import time
import types

from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

try:
    from pyverbs import enums as e
except ImportError:  # rdma-core 65: each in a class of its type
    from pyverbs import libibverbs_enums
    e = types.SimpleNamespace(**{name: value for kind in vars(libibverbs_enums).values() for name, value in getattr(kind, "__members__", {}).items()})

TEXT, PSN = "a message", 0x123
# Tells who retries for seconds from who does not answer: eight times a second.
TIMEOUT, RETRIES = 18, 7


def completion(cq, seconds):
    """Status of the next completion, None if there is none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        count, completions = cq.poll()
        if count:
            return completions[0].status
        time.sleep(0.001)
    return None


def main():
    receives, index = sys.argv[1] == "receive", int(sys.argv[3])
    context = Context(name=sys.argv[2])
    pd, cq = PD(context), CQ(context, 8)
    mr = MR(pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
    srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=4))) if sys.argv[5:] == ["srq"] else None
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, srq=srq, cap=QPCap(4, 4, 1, 1)), QPAttr(port_num=1))
    qp.to_init(QPAttr(port_num=1))
    if receives:
        (srq or qp).post_recv(RecvWR(sg=[SGE(mr.buf, 64, mr.lkey)], num_sge=1))
    print("end", qp.qp_num, flush=True)
    gid, qpn = sys.stdin.readline().split()
    route = GlobalRoute(dgid=GID(ipaddress.IPv6Address(gid).packed.hex(":", 2)), sgid_index=index, hop_limit=64)
    attr = QPAttr(port_num=1)
    attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    attr.dest_qp_num, attr.rq_psn, attr.sq_psn, attr.path_mtu = int(qpn), PSN, PSN, e.IBV_MTU_1024
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, TIMEOUT, RETRIES, 7
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    qp.to_rtr(attr)
    print("connected", flush=True)
    if receives:
        status = completion(cq, float(sys.argv[4]))
        print("got", mr.read(len(TEXT), 0).decode() if status == 0 else f"status {status}", flush=True)
        return status != 0
    sys.stdin.readline()
    qp.to_rts(attr)
    mr.write(TEXT, len(TEXT))
    qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(mr.buf, len(TEXT), mr.lkey)]))
    status = completion(cq, 20)
    print("sent" if status == 0 else f"status {status}", flush=True)
    return status != 0


sys.exit(main())
