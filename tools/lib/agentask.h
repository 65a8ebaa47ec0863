/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_AGENTASK_H
#define TOOL_AGENTASK_H

#include <stddef.h>

#include "cli.h"

struct json_object;

/* Client of the agent's control socket, CONTROL_DIR/control: one request, one answer. See meshverbsd(8). */

/**
 * agent_ask_text - get a report
 * @what: "status", "peers", "keys", "qps", "probes", "qualified", "metrics" or "openmetrics"
 * @ret_text: written on success; release with free(); @ret_len bytes and a NUL
 *
 * Return: 0; -ENOENT, -ECONNREFUSED: no agent; -EPROTONOSUPPORT: an older agent, which listens in RUN_DIR; -EAGAIN: no
 * answer within ten seconds; another -errno of socket(2), connect(2), send(2), recv(2); -EFBIG, -ENOMEM, -ENAMETOOLONG.
 */
int agent_ask_text(const struct cli *cli, const char *what, char **ret_text, size_t *ret_len);

/**
 * agent_ask - get a report that is JSON
 * @member, @type: a member that the answer must have, and its enum json_type
 * @ret: written on success; release with json_object_put()
 *
 * Return: as agent_ask_text(); -EBADMSG: the answer does not have the member.
 */
int agent_ask(const struct cli *cli, const char *what, const char *member, int type,
	      struct json_object **ret);

/**
 * agent_order - give an order
 * @order: {"do": ...}, see meshverbsd(8); released; NULL: no memory @member, @type: a member of the answer to an order
 * that was carried out, and its enum json_type
 * @ret: written on success; release with json_object_put(); has @member, or "error" if the agent refuses
 *
 * Return: as agent_ask().
 */
int agent_order(const struct cli *cli, struct json_object *order, const char *member, int type, struct json_object **ret);

/**
 * agent_ask_error - print why there is no answer, to stderr
 * @expected: with -EBADMSG: what the answer lacks, e.g. "queue pairs"
 */
void agent_ask_error(const struct cli *cli, int err, const char *expected);

/* Members of an answer. NULL, false or @otherwise: missing, or of another type. @object may be NULL. */
const char *agent_text(struct json_object *object,
		       const char *key); /* also NULL if empty */
bool agent_flag(struct json_object *object, const char *key);
long long agent_number(struct json_object *object, const char *key, long long otherwise);
struct json_object *agent_member(struct json_object *object, const char *key, int type);

#endif
