#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One datagram with the GID indexes one likes.

    ud.py receive INDEX        prints its QPN, then the message that comes and its source (IPv4); a line on stdin says that it has been sent
    ud.py send INDEX GID QPN   sends it, from that entry of the table
    ud.py hold INDEX GID QPN   as send, but opens the device first and waits for a line on stdin
"""
import ipaddress
import os
import select
import sys
import time
import types

from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
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

QKEY, GRH, TEXT = 0x1234, 40, b"a datagram"
SECONDS = float(os.environ.get("UD_SECONDS", "60"))  # 60: for what has to come


class End:
    def __init__(self):
        self.context = Context(name="mlx5_0")
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 8)
        self.mr = MR(self.pd, 256, e.IBV_ACCESS_LOCAL_WRITE)
        attr = QPAttr(qp_state=e.IBV_QPS_INIT, cur_qp_state=e.IBV_QPS_RESET, port_num=1)
        attr.qkey = QKEY
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.cq, rcq=self.cq, cap=QPCap(4, 4, 1, 1)), attr)

    def completion(self, posted=True):
        """Status of the next completion, None if there is none in time, which begins when there is something to complete."""
        end = time.monotonic() + SECONDS if posted else float("inf")
        while time.monotonic() < end:
            count, completions = self.cq.poll()
            if count:
                return completions[0].status
            time.sleep(0.001)
            if end == float("inf") and select.select([sys.stdin], [], [], 0)[0]:
                end = time.monotonic() + SECONDS
        return None


def receive():
    end = End()
    end.qp.post_recv(RecvWR(sg=[SGE(end.mr.buf, 256, end.mr.lkey)], num_sge=1))
    print(end.qp.qp_num, flush=True)
    status = end.completion(posted=False)
    if status is None:
        sys.exit("nothing came")
    source = ipaddress.IPv4Address(end.mr.read(4, 32))  # in the IPv4 header, the second half of the GRH's place
    print("got", end.mr.read(len(TEXT), GRH).decode(), "from", source, flush=True)


def send(index, gid, qpn, wait):
    end = End()
    if wait:
        print("opened", flush=True)
        sys.stdin.readline()
    route = GlobalRoute(dgid=GID(ipaddress.IPv6Address(gid).packed.hex(":", 2)), sgid_index=index, hop_limit=64)
    ah = AH(end.pd, attr=AHAttr(gr=route, is_global=1, port_num=1))
    end.mr.write(TEXT.decode(), len(TEXT))
    wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(end.mr.buf, len(TEXT), end.mr.lkey)])
    wr.set_wr_ud(ah, qpn, QKEY)
    end.qp.post_send(wr)
    status = end.completion()
    if status != 0:
        sys.exit(f"send completed with {status}")
    print("sent", flush=True)


if sys.argv[1] == "receive":
    receive()
else:
    send(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[1] == "hold")
