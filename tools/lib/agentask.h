/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_AGENTASK_H
#define TOOL_AGENTASK_H

#include <stddef.h>

#include "cli.h"

struct json_object;

/* The agent's control socket, CONTROL_DIR/control: one request, one answer. See meshverbsd(8). */

/**
 * agent_ask_text - ask for a report
 * @what: "status", "peers", "keys", "qps", "probes", "qualified", "metrics" or "openmetrics"
 * @ret_text: malloc()ed on success, @ret_len bytes and a NUL
 *
 * Return: 0; -ENOENT, -ECONNREFUSED: no agent; -EPROTONOSUPPORT: one of an older version, which listens in RUN_DIR; -EAGAIN: no answer within ten seconds; another
 * -errno of socket(2), connect(2), send(2), recv(2); -EFBIG, -ENOMEM, -ENAMETOOLONG.
 */
int agent_ask_text(const struct cli *cli, const char *what, char **ret_text, size_t *ret_len);

/**
 * agent_ask - the same for the reports that are JSON
 * @member, @type: what the answer must have, and its enum json_type
 * @ret: on success to be released with json_object_put()
 *
 * Return: as agent_ask_text(); -EBADMSG when the answer has no such member.
 */
int agent_ask(const struct cli *cli, const char *what, const char *member, int type,
	      struct json_object **ret);

/**
 * agent_order - have something done
 * @order: {"do": ...}, see meshverbsd(8); is released; NULL: there was no memory for it
 * @member, @type: what the answer to an order that was carried out has, and its enum json_type
 * @ret: on success to be released with json_object_put(); has "error" where the agent refuses, or @member
 *
 * Return: as agent_ask().
 */
int agent_order(const struct cli *cli, struct json_object *order, const char *member, int type, struct json_object **ret);

/**
 * agent_ask_error - say why there is no answer
 * @expected: what the answer lacks when it is -EBADMSG: "queue pairs"
 */
void agent_ask_error(const struct cli *cli, int err, const char *expected);

/* Members of an answer: NULL, false, or @otherwise, when it is not there or is not what it should be.
 * @object may be NULL. */
const char *agent_text(struct json_object *object,
		       const char *key); /* not for an empty one either */
bool agent_flag(struct json_object *object, const char *key);
long long agent_number(struct json_object *object, const char *key, long long otherwise);
struct json_object *agent_member(struct json_object *object, const char *key, int type);

#endif
