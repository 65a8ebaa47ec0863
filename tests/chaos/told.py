#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One end of a connection by mlx5_0 that does what it is told, a line each, and says what came of it:

    connect QPN GID       the other end's, which it says of itself when it starts
    register              a new memory region: ADDRESS RKEY
    post ADDRESS RKEY     one RDMA WRITE
    read ADDRESS RKEY     one RDMA READ
    invalidate            IBV_WR_LOCAL_INV; posted, or why not
    nop                   a WQE with the opcode NOP, by mlx5dv_wr_raw_wqe()
    completion SECONDS    the status of the next completion, which comes within that time
    write ADDRESS RKEY    post, and the status of its completion
    event                 the next asynchronous event

    told.py [raw] [unseen=own|given] [mtu=BYTES] [size=BYTES]    raw: the queue pair is made for mlx5dv_wr_raw_wqe(); regions that are
registered past libibverbs, as by mlx5dv: its own, or those that it registers when told; path MTU, 1024; of regions and messages, 64
"""
import ctypes
import mmap
import os
import pathlib
import struct
import sys
import time

from pyverbs import enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.providers.mlx5 import mlx5_enums as dve
from pyverbs.providers.mlx5.mlx5dv import Mlx5Context, Mlx5DVContextAttr, Mlx5DVQPInitAttr, Mlx5QP, Wqe, WqeCtrlSeg
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr, QPInitAttrEx
from pyverbs.wr import SGE, SendWR

PORT = pathlib.Path("/sys/class/infiniband/mlx5_0/ports/1")
TODO = ("connect", "register", "post", "read", "invalidate", "nop", "completion", "write", "event")
PSN, SECONDS = 0x1234, 60.0
MTUS = {256: e.IBV_MTU_256, 512: e.IBV_MTU_512, 1024: e.IBV_MTU_1024, 2048: e.IBV_MTU_2048, 4096: e.IBV_MTU_4096}
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
CAP = QPCap(4, 4, 1, 1)
REG_MR = 9  # IB_USER_VERBS_CMD_REG_MR of rdma/ib_user_verbs.h, with struct ib_uverbs_reg_mr and its answer:
REG_MR_IN, REG_MR_OUT = "IHHQQQQII", "III"
WORD = 4  # octets that the lengths of commands are counted in
OPCODE_NOP, CQ_UPDATE, CTRL_UNITS = 0, 2 << 2, 1  # MLX5_OPCODE_NOP, MLX5_WQE_CTRL_CQ_UPDATE of mlx5dv.h; 16 octets each


def own_gid():
    """(GID, its index): RoCE v2, IPv4"""
    for file in (PORT / "gids").iterdir():
        gid = file.read_text().strip()
        if gid.startswith("0000:0000:0000:0000:0000:ffff:") and "v2" in (PORT / "gid_attrs/types" / file.name).read_text():
            return gid, int(file.name)
    sys.exit("no GID")


class Unseen:
    """A memory region, registered by a command of its own to the kernel."""

    def __init__(self, context, pd, size):
        self.memory = mmap.mmap(-1, max(size, mmap.PAGESIZE))
        self.buf = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        answer = bytearray(struct.calcsize(REG_MR_OUT))
        command = struct.pack(REG_MR_IN, REG_MR, struct.calcsize(REG_MR_IN) // WORD, len(answer) // WORD,
                              ctypes.addressof(ctypes.c_char.from_buffer(answer)), self.buf, size, self.buf, pd.handle, ACCESS)
        os.write(context.cmd_fd, command)
        _, self.lkey, self.rkey = struct.unpack(REG_MR_OUT, answer)


class End:
    def __init__(self, raw, unseen, mtu, size):
        self.mtu, self.size, self.unseen = MTUS[mtu], size, unseen
        self.context = Mlx5Context(Mlx5DVContextAttr(), name="mlx5_0")
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 8)
        self.mrs = [self.region(unseen == "own")]
        self.qp = self.raw_qp() if raw else QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=CAP, sq_sig_all=1))
        self.gid, self.index = own_gid()

    def raw_qp(self):
        attr = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=CAP, sq_sig_all=1, pd=self.pd,
                            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, send_ops_flags=e.IBV_QP_EX_WITH_RDMA_WRITE)
        raw = Mlx5DVQPInitAttr(comp_mask=dve.MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS, send_ops_flags=dve.MLX5DV_QP_EX_WITH_RAW_WQE)
        return Mlx5QP(self.context, attr, raw)

    def region(self, unseen):
        return Unseen(self.context, self.pd, self.size) if unseen else MR(self.pd, self.size, ACCESS)

    def connect(self, qpn, gid):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        self.qp.to_init(attr)
        attr.path_mtu = self.mtu
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
        attr.min_rnr_timer = 12
        attr.dest_qp_num = int(qpn)
        attr.rq_psn = attr.sq_psn = PSN
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(gid), sgid_index=self.index, hop_limit=64), is_global=1, port_num=1)
        self.qp.to_rtr(attr)
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
        self.qp.to_rts(attr)
        return "connected"

    def register(self):
        self.mrs.append(self.region(self.unseen == "given"))
        return f"region {self.mrs[-1].buf} {self.mrs[-1].rkey}"

    def post(self, address, rkey, opcode=e.IBV_WR_RDMA_WRITE):
        mr = self.mrs[0]
        wr = SendWR(opcode=opcode, num_sge=1, sg=[SGE(mr.buf, self.size, mr.lkey)])
        wr.set_wr_rdma(int(rkey), int(address))
        self.qp.post_send(wr)
        return "posted"

    def read(self, address, rkey):
        return self.post(address, rkey, e.IBV_WR_RDMA_READ)

    def invalidate(self):
        try:
            self.qp.post_send(SendWR(opcode=e.IBV_WR_LOCAL_INV))
        except PyverbsRDMAError as err:
            return f"errno {err.error_code}"
        return "posted"

    def nop(self):
        self.qp.wr_start()
        self.qp.wr_id = 0
        # Its place in the queue is filled in.
        self.qp.wr_raw_wqe(Wqe([WqeCtrlSeg(opcode=OPCODE_NOP, qp_num=self.qp.qp_num, fm_ce_se=CQ_UPDATE, ds=CTRL_UNITS)]))
        self.qp.wr_complete()
        return "posted"

    def completion(self, seconds):
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            count, completions = self.cq.poll()
            if count:
                return f"status {completions[0].status}"
            time.sleep(0.001)
        return "no completion"

    def write(self, address, rkey):
        self.post(address, rkey)
        return self.completion(SECONDS)

    def event(self):
        event = self.context.get_async_event()
        event.ack()
        return f"event {event.event_type}"


def main():
    settings = {"unseen": "", "mtu": 1024, "size": 64}
    for word in sys.argv[1:]:
        key, _, value = word.partition("=")
        if value:
            settings[key] = int(value) if value.isdigit() else value
    end = End("raw" in sys.argv, **settings)
    print("end", end.qp.qp_num, end.gid, flush=True)
    for line in sys.stdin:
        word, *words = line.split()
        if word not in TODO:
            sys.exit(f"what is '{word}'? There are: {' '.join(TODO)}")
        print(getattr(end, word)(*words), flush=True)


main()
