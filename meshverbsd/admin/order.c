/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Orders of the administrator: permission, and dispatch. */
#include "order.h"

#include <stdio.h>

#include <json-c/json.h>

#include "agent_log.h"
#include "drain.h"

/* Text after "may", before the name of the device or host. */
static const char *const orders[] = {
	[MD_DRAIN] = "drain ",
	[MD_UNDRAIN] = "undrain ",
	[MD_KEY_PIN] = "pin a key of host ",
	[MD_KEY_FORGET] = "forget the key of host ",
	[MD_KEY_REVOKE] = "revoke a key of host ",
	[MD_KEY_RESTORE] = "restore a key of host ",
	[MD_KEY_ROTATE] = "change the key of this host",
};

static bool is_drain(const struct md_order *order)
{
	return order->verb == MD_DRAIN || order->verb == MD_UNDRAIN;
}

static void refuse(struct md_agent *agent, const struct md_order *order, const struct md_peer *peer, struct json_object *answer)
{
	const char *thing = is_drain(order) ? order->device : order->host;
	char text[MD_PEER_TEXT_SIZE], why[128];

	if (md_now() >= agent->refused_order_ns) {
		agent->refused_order_ns = md_now() + MD_LOG_AGAIN_NS;
		md_log(MD_WARNING, "%s may not %s%s", md_peer_text(peer, text, sizeof(text)), orders[order->verb],
		       thing);
	}
	snprintf(why, sizeof(why), "only root and the user of the agent may %s, and not in a container",
		 order->verb == MD_DRAIN     ? "drain a device"
		 : order->verb == MD_UNDRAIN ? "undrain a device"
					     : "change keys");
	json_object_object_add(answer, "error", json_object_new_string(why));
}

static char *line_of(struct json_object *object, size_t *ret_len)
{
	const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
	char *line = NULL;
	int len = text ? asprintf(&line, "%s\n", text) : -1;

	if (len < 0)
		return NULL;
	*ret_len = (size_t)len;
	return line;
}

char *md_order_answer(void *arg, const struct md_order *order, const struct md_peer *peer, size_t *ret_len)
{
	struct json_object *answer = json_object_new_object();
	struct md_agent *agent = arg;
	char *line;

	if (!answer)
		return NULL;
	if (!md_peer_is_admin(peer))
		refuse(agent, order, peer, answer);
	else if (is_drain(order))
		md_drain_carry_out(agent, order, answer);
	else
		md_trust_carry_out(agent, order, answer);
	line = line_of(answer, ret_len);
	json_object_put(answer);
	return line;
}
