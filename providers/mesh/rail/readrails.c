// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "rails.h"

/* Rails whose events the helper thread reads. */

void mesh_thread_rail(struct mesh_rail *rail)
{
	struct mesh_process *process = mesh_root.process;
	bool room;
	size_t i;

	mesh_lock(&process->read_rails.lock);
	for (i = 0; i < process->read_rails.n && process->read_rails.rails[i] != rail; i++)
		;
	room = i < MESH_READ_RAILS;
	if (room && i == process->read_rails.n) {
		process->read_rails.rails[i] = mesh_rail_ref(rail); /* until the rail is lost: reopening takes milliseconds */
		atomic_store_explicit(&process->read_rails.n, i + 1, memory_order_release);
	}
	mesh_unlock(&process->read_rails.lock);
	if (!room)
		mv_log_once(&mesh_root.log, MV_LOG_ERR, "more than %d rails in use; completion events of %s are lost",
			    MESH_READ_RAILS, rail->device);
}
