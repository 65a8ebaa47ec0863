// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Reports of processes' queue pairs, and of probed paths. */
#include "reportint.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>


/* ---- probed paths ---------------------------------------------------------------------------- */

static struct json_object *probe_object(const struct md_probe *probe, uint64_t now_ns)
{
	struct json_object *object = json_object_new_object();

	md_json_add_gid(object, "gid", &probe->key.local);
	md_json_add_gid(object, "peer_gid", &probe->key.remote);
	md_json_add_text(object, "state", mv_probed_name(probe->state));
	md_json_add_bool(object, "probed", probe->n_scheduled > 0);
	md_json_add_bool(object, "suspect", probe->suspect);
	if (probe->answered) {
		md_json_add_number(object, "rtt_us", probe->rtt.newest_us);
		md_json_add_number(object, "answered_ms_ago", (now_ns - probe->answered_ns) / MD_MS);
	}
	return object;
}

void md_report_probes(const struct md_agent *agent, FILE *out)
{
	struct md_json_list list = {.out = out};
	struct md_probe *probe, *next;
	uint64_t now_ns = md_now();

	fputc('{', out);
	md_json_list_begin(&list, "probes");
	HASH_ITER(hh, agent->prober.probes.by_key, probe, next)
	{
		if (md_json_list_has_room(&list))
			md_json_list_put(&list, probe_object(probe, now_ns));
		else
			list.left_out++;
	}
	md_json_list_end(&list, "probes");
	fputs("}\n", out);
}

/* ---- QPs ------------------------------------------------------------------------------------- */

/* Name of a process's program; "": not visible. */
static void read_comm(pid_t pid, char *buf, size_t size)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		n = read(fd, buf, size - 1);
		close(fd);
	}
	buf[n < 0 ? 0 : n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

/* Printed by md_control_object(), so it is copied. */
static struct json_object *status_object(char *status)
{
	struct json_object *object = json_object_new_object();

	if (object)
		json_object_set_serializer(object, json_object_userdata_to_json_string, status,
					   NULL);
	return object;
}

/* The process of the QP before, cached: QPs of a process are mostly adjacent, and reading /proc takes long. */
struct shown {
	uint64_t client;
	char comm[64];
};

static struct json_object *qp_object(const struct md_agent *agent, const struct md_qp *qp,
				     struct shown *shown)
{
	const struct md_client *client = md_clients_find(&agent->clients, qp->owner);
	struct json_object *object = json_object_new_object();

	md_json_add_text(object, "device", qp->key.device);
	md_json_add_bool(object, "drained", md_drained_has(&agent->drained, qp->key.device));
	md_json_add_number(object, "qpn", qp->key.qpn);
	md_json_add_number(object, "type", qp->type);
	if (client) {
		if (shown->client != client->number)
			read_comm(client->pid, shown->comm, sizeof(shown->comm));
		shown->client = client->number;
		md_json_add_number(object, "pid", (uint64_t)client->pid);
		md_json_add_number(object, "uid", client->uid);
		md_json_add_text(object, "comm", shown->comm[0] ? shown->comm : client->name);
		md_json_add_text(object, "name", client->name);
	}
	if (qp->status)
		md_json_add(object, "status", status_object(qp->status));
	return object;
}

void md_report_qps(const struct md_agent *agent, const struct md_peer *peer, FILE *out)
{
	struct md_json_list list = {.out = out};
	struct shown shown = {0};
	struct md_qp *qp, *next;

	/* After a restart of the agent, processes take a moment to register their QPs again. */
	fprintf(out, "{\"up_ms\":%llu,", (unsigned long long)((md_now() - agent->self.begun_ns) / MD_MS));
	md_json_list_begin(&list, "qps");
	HASH_ITER(hh, agent->clients.qps.by_key, qp, next)
	{
		if (!md_peer_is_admin(peer) && peer->account != qp->account)
			continue;
		if (md_json_list_has_room(&list))
			md_json_list_put(&list, qp_object(agent, qp, &shown));
		else
			list.left_out++;
	}
	md_json_list_end(&list, "qps");
	fputs("}\n", out);
}
