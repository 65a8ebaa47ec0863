// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "conn.h"
#include "helper.h"
#include "srq.h"
#include "stalled.h"
#include "thread.h"
#include "ud.h"
#include "vqp_int.h"

/*
 * Fills the tables through which rooms call rooms above them; direct calls only go down. Runs when the plugin is loaded, before
 * its other constructors, and never again.
 */
__attribute__((constructor(101))) static void fill(void)
{
	mesh_places_ops = (struct mesh_places_ops){
		.poll_cq = mesh_poll_cq,
		.req_notify_cq = mesh_req_notify_cq,
		.post_send = mesh_post_send,
		.post_recv = mesh_post_recv,
		.post_srq_recv = mesh_post_srq_recv,
	};
	mesh_cq_clients = (struct mesh_cq_clients){
		.srq_consumed = mesh_srq_consumed,
		.srq_withhold = mesh_srq_withhold,
		.srq_return = mesh_srq_return,
		.post_drain = mesh_post_drain,
		.post_drain_all = mesh_post_drain_all,
		.post_marker_flushed = mesh_post_marker_flushed,
		.flush_queued = mesh_vqp_flush_queued,
		.reaper_run = mesh_reaper_run,
		.stalled_flush = mesh_stalled_flush,
	};
	mesh_rail_clients = (struct mesh_rail_clients){
		.lost = mesh_pds_lose,
		.port_down = mesh_conns_port_down,
		.last_wqe = mesh_reaper_last_wqe,
	};
	mesh_ud_has_driven_rc = mesh_conns_are_driven;
	mesh_post_fails = mesh_vqp_fail_now;
	mesh_helper_begin = mesh_thread_begin;
}
