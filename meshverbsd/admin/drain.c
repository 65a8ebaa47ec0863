/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Drains and undrains devices on the administrator's order. */
#include "drain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "agent_log.h"

static bool is_usable(const struct mv_dir_rail *rail)
{
	return (rail->flags & MV_RAIL_UP) && !(rail->flags & MV_RAIL_EXCLUDED);
}

/* Would no usable port be left? */
static bool is_last(const struct md_desc *desc, const char *device)
{
	size_t n_own = 0, n_others = 0;

	for (uint32_t r = 0; r < desc->n_rails; r++) {
		if (!is_usable(&desc->rails[r]))
			continue;
		if (strcmp(desc->rails[r].device, device))
			n_others++;
		else
			n_own++;
	}
	return n_own && !n_others;
}

/* List of device names, e.g. "mlx5_0, mlx5_1". */
static void list_devices(const struct md_desc *desc, char *buf, size_t size)
{
	const char *last = "";
	size_t len = 0;

	snprintf(buf, size, "none");
	for (uint32_t r = 0; r < desc->n_rails && len < size; r++) {
		if (strcmp(last, desc->rails[r].device))
			len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "",
						desc->rails[r].device);
		last = desc->rails[r].device;
	}
}

static bool has_device(const struct md_desc *desc, const char *device)
{
	for (uint32_t r = 0; r < desc->n_rails; r++)
		if (!strcmp(desc->rails[r].device, device))
			return true;
	return false;
}

/* Return: true: the order is refused, with the reason in @why. */
static bool refuse(const struct md_agent *agent, const struct md_order *order, char *why, size_t size)
{
	bool undo = order->verb == MD_UNDRAIN;
	const struct md_desc *desc = agent->watch.view->desc;
	char devices[512];

	list_devices(desc, devices, sizeof(devices));
	if (undo && !md_drained_has(&agent->drained, order->device))
		snprintf(why, size, "%s is not drained", order->device);
	else if (!undo && !has_device(desc, order->device))
		snprintf(why, size, "there is no RDMA device %s on this host; there are: %s",
			 order->device, devices);
	else if (!undo && !order->force && is_last(desc, order->device))
		snprintf(why, size,
			 "%s has the last port that is up: its connections would have nowhere to "
			 "go, and new ones could not be made; if that is meant, force it",
			 order->device);
	else
		return false;
	return true;
}

/* Return: 0; -errno: nothing has changed. */
static int carry_out(struct md_agent *agent, const struct md_order *order)
{
	struct md_drained before = agent->drained;
	bool undo = order->verb == MD_UNDRAIN;
	int err;

	err = undo ? md_drained_remove(&agent->drained, order->device) : md_drained_add(&agent->drained, order->device);
	if (!err)
		err = md_drained_save(agent->rundir.control_fd, &agent->drained);
	if (err) {
		agent->drained = before;
		return err;
	}
	md_log(MD_INFO, "%s is %s", order->device, undo ? "in use again" : "drained: announced as down");
	md_watch_drained(&agent->watch);
	return 0;
}

void md_drain_carry_out(struct md_agent *agent, const struct md_order *order, struct json_object *answer)
{
	char why[1024];
	int err;

	if (refuse(agent, order, why, sizeof(why))) {
		json_object_object_add(answer, "error", json_object_new_string(why));
		return;
	}
	err = carry_out(agent, order);
	if (err) {
		snprintf(why, sizeof(why),
			 "it cannot be noted in %s, so it would not outlive the agent: %s",
			 agent->options->control_dir, md_strerror(err));
		json_object_object_add(answer, "error", json_object_new_string(why));
		return;
	}
	json_object_object_add(answer, "device", json_object_new_string(order->device));
	json_object_object_add(answer, "drained", json_object_new_boolean(order->verb == MD_DRAIN));
}

void md_drain_load(struct md_agent *agent)
{
	int err = md_drained_load(agent->rundir.control_fd, &agent->drained);

	if (err)
		md_log(MD_WARNING, "%s/drained: %s; drained are the %zu devices that it names",
		       agent->options->control_dir, md_strerror(err), agent->drained.n);
	for (size_t i = 0; i < agent->drained.n; i++)
		md_log(MD_INFO, "%s is drained", agent->drained.names[i]);
}
