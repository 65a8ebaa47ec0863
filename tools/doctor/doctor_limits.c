// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: limit of locked, and so of registered, memory, for all ways to start programs. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "agentask.h"
#include "doctor.h"
#include "shell_word.h"

/* The buffers of one rank soon need this much. */
#define ENOUGH_BYTES (1ull << 30)
#define UNLIMITED    UINT64_MAX

#define CAP_IPC_LOCK_BIT 14 /* linux/capability.h: exempts from the limit */

static const char *limit_text(uint64_t limit, char buf[static 32])
{
	if (limit == UNLIMITED)
		snprintf(buf, 32, "unlimited");
	else
		snprintf(buf, 32, "%" PRIu64 " KiB", limit / 1024);
	return buf;
}

/* ---- processes
 * -----------------------------------------------------------------------------------------------
 */

/* The soft limit in /proc/PID/limits. Return: 0 or -errno. */
static int read_limit(struct doctor *d, const char *pid, uint64_t *ret)
{
	static const char key[] = "Max locked memory";
	char *text, *at;
	int rc = files_read(d, &text, "/proc/%s/limits", pid);

	if (rc)
		return rc;
	at = strstr(text, key);
	if (at) {
		at += strlen(key);
		at += strspn(at, " \t");
		*ret = isdigit((unsigned char)*at) ? strtoull(at, NULL, 10) : UNLIMITED;
	}
	free(text);
	return at ? 0 : -EBADMSG;
}

static bool may_lock_anyway(struct doctor *d)
{
	char *text, *at;
	bool may = false;

	if (files_read(d, &text, "/proc/self/status"))
		return false;
	at = strstr(text, "CapEff:");
	if (at)
		may = strtoull(at + strlen("CapEff:"), NULL, 16) >> CAP_IPC_LOCK_BIT & 1;
	free(text);
	return may;
}

static void check_shell(struct doctor *d)
{
	char text[32];
	uint64_t limit;

	if (read_limit(d, "self", &limit)) {
		doctor_skip(d, "/proc/self/limits cannot be read");
		return;
	}
	if (limit >= ENOUGH_BYTES || may_lock_anyway(d))
		return;
	doctor_find(d, DOCTOR_ACTION, words("this shell"),
		    words("RLIMIT_MEMLOCK is %s", limit_text(limit, text)),
		    d->container ? words("in Docker: --ulimit memlock=-1; in Kubernetes: the "
					 "runtime's base spec, see memlock-containerd")
				 : words("write '* soft memlock unlimited' and '* hard memlock "
					 "unlimited' into a file in "
					 "/etc/security/limits.d, and log in again; by hand: "
					 "ulimit -l unlimited"));
}

/* ---- daemons that start programs
 * ----------------------------------------------------------------------------- */

static const struct starter {
	const char *comm, *unit, *starts;
} starters[] = {
	{"containerd", "containerd", "containers"}, {"crio", "crio", "containers"},
	{"slurmd", "slurmd", "Slurm's jobs"},       {"pbs_mom", "pbs", "PBS's jobs"},
	{"sge_execd", "gridengine", "jobs"},        {"condor_master", "condor", "jobs"},
};

/* Docker's limit for containers. Return: true: set, in *@ret_limit. */
static bool docker_limit(struct doctor *d, uint64_t *ret_limit)
{
	struct json_object *root = NULL, *memlock;
	long long soft;
	char *text;

	if (files_read(d, &text, "/etc/docker/daemon.json"))
		return false;
	root = json_tokener_parse(text);
	free(text);
	memlock = agent_member(agent_member(root, "default-ulimits", json_type_object), "memlock",
			       json_type_object);
	soft = agent_number(memlock, "Soft", agent_number(memlock, "soft", -1));
	*ret_limit = soft < 0 ? UNLIMITED : (uint64_t)soft;
	json_object_put(root);
	return memlock;
}

/* The value of base_runtime_spec in containerd's config.toml. Return: false: not set. */
static bool base_spec_path(struct doctor *d, char *path, size_t size)
{
	char *text, *at, *end;
	bool found = false;

	if (files_read(d, &text, "/etc/containerd/config.toml"))
		return false;
	for (at = strtok_r(text, "\n", &end); at && !found; at = strtok_r(NULL, "\n", &end)) {
		at += strspn(at, " \t");
		if (strncmp(at, "base_runtime_spec", strlen("base_runtime_spec")) != 0)
			continue;
		at = strpbrk(at, "\"'");
		if (!at || at[1] != '/')
			continue;
		snprintf(path, size, "%.*s", (int)strcspn(at + 1, "\"'"), at + 1);
		found = true;
	}
	free(text);
	return found;
}

/* The limit in an OCI spec. Return: true: set. */
static bool spec_limit(struct doctor *d, const char *path, uint64_t *ret_limit)
{
	struct json_object *root, *rlimits, *rlimit;
	bool found = false;
	const char *type;
	char *text;
	size_t i;

	if (files_read(d, &text, "%s", path))
		return false;
	root = json_tokener_parse(text);
	free(text);
	rlimits = agent_member(agent_member(root, "process", json_type_object), "rlimits",
			       json_type_array);
	for (i = 0; rlimits && i < json_object_array_length(rlimits); i++) {
		rlimit = json_object_array_get_idx(rlimits, i);
		type = agent_text(rlimit, "type");
		if (!type || strcmp(type, "RLIMIT_MEMLOCK") != 0)
			continue;
		/* json-c returns INT64_MAX for 2^64 - 1, which means "unlimited" here. */
		*ret_limit = (uint64_t)agent_number(rlimit, "soft", INT64_MAX);
		if (*ret_limit >= INT64_MAX)
			*ret_limit = UNLIMITED;
		found = true;
	}
	json_object_put(root);
	return found;
}

static bool containerd_limit(struct doctor *d, uint64_t *ret_limit)
{
	char path[PATH_MAX];

	return base_spec_path(d, path, sizeof(path)) && spec_limit(d, path, ret_limit);
}

static void find_starter(struct doctor *d, const struct starter *starter, uint64_t limit)
{
	char text[32];

	doctor_find(d, DOCTOR_ACTION, words("%s", starter->comm),
		    words("it runs with RLIMIT_MEMLOCK %s, and %s inherit that",
			  limit_text(limit, text), starter->starts),
		    words("systemctl edit %s: under [Service] LimitMEMLOCK=infinity; then "
			  "systemctl restart %s",
			  MV_SHELL(starter->unit), MV_SHELL(starter->unit)));
}

/*
 * Was the process started by root of this host? It chooses its name itself. Real user ids are seen from this PID and
 * user namespace; a process of an inner PID namespace has several PIDs.
 */
static bool is_daemon_of_root(struct doctor *d, const char *pid)
{
	const char *uid, *pids;
	char *text;
	bool is;

	if (files_read(d, &text, "/proc/%s/status", pid))
		return false;
	/* At the start of a line: the name, before it, may contain these words, but no newline. */
	uid = strstr(text, "\nUid:\t");
	pids = strstr(text, "\nNSpid:\t");
	is = uid && strtoul(uid + strlen("\nUid:\t"), NULL, 10) == 0 && isdigit((unsigned char)uid[strlen("\nUid:\t")]) &&
	     (!pids || !memchr(pids + strlen("\nNSpid:\t"), '\t', strcspn(pids + strlen("\nNSpid:\t"), "\n")));
	free(text);
	return is;
}

static void visit_process(struct doctor *d, const char *name, void *arg)
{
	bool *told = arg;
	uint64_t limit, given;
	char *comm;
	size_t i;

	if (!isdigit((unsigned char)name[0]) || files_read(d, &comm, "/proc/%s/comm", name))
		return;
	comm[strcspn(comm, "\n")] = '\0';
	for (i = 0; i < sizeof(starters) / sizeof(starters[0]); i++) {
		if (told[i] || strcmp(comm, starters[i].comm) != 0 || !is_daemon_of_root(d, name) || read_limit(d, name, &limit) ||
		    limit >= ENOUGH_BYTES)
			continue;
		/* The spec's limit for containers counts instead, and has a check of its own. */
		if (!strcmp(comm, "containerd") &&
		    (containerd_limit(d, &given) || docker_limit(d, &given)))
			continue;
		told[i] = true;
		find_starter(d, &starters[i], limit);
	}
	free(comm);
}

static void check_daemons(struct doctor *d)
{
	bool told[sizeof(starters) / sizeof(starters[0])] = {false};

	files_each(d, "/proc", visit_process, told);
}

static void check_docker(struct doctor *d)
{
	uint64_t limit;
	char text[32];

	if (docker_limit(d, &limit) && limit < ENOUGH_BYTES)
		doctor_find(
			d, DOCTOR_ACTION, words("/etc/docker/daemon.json"),
			words("default-ulimits gives containers a memlock of %s",
			      limit_text(limit, text)),
			words("\"default-ulimits\": {\"memlock\": {\"Name\": \"memlock\", "
			      "\"Soft\": -1, \"Hard\": -1}}, then "
			      "systemctl restart docker; for one container: --ulimit memlock=-1"));
}

static void check_containerd(struct doctor *d)
{
	char path[PATH_MAX], text[32];
	uint64_t limit;

	if (base_spec_path(d, path, sizeof(path)) && spec_limit(d, path, &limit) &&
	    limit < ENOUGH_BYTES)
		doctor_find(d, DOCTOR_ACTION, words("%s", path),
			    words("the base runtime spec of containerd gives containers a memlock "
				  "of %s",
				  limit_text(limit, text)),
			    words("set soft and hard of RLIMIT_MEMLOCK in process.rlimits to "
				  "18446744073709551615, then systemctl "
				  "restart containerd"));
}

/* ---- systemd's default
 * --------------------------------------------------------------------------------------- */

/* E.g. "65536", "8M", "infinity", "8M:infinity": the soft limit. */
static uint64_t parse_size(const char *text)
{
	static const char units[] = "KMGTPE";
	const char *unit;
	char *end;
	uint64_t size;

	if (!strncmp(text, "infinity", strlen("infinity")))
		return UNLIMITED;
	size = strtoull(text, &end, 10);
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	return unit ? size << 10 * (unit - units + 1) : size;
}

struct systemd {
	const char *dir; /* of drop-ins; NULL: the main file */
	uint64_t limit;
};

static void read_system_conf(struct doctor *d, const char *path, uint64_t *limit)
{
	static const char key[] = "DefaultLimitMEMLOCK";
	char *text, *at, *end;

	if (files_read(d, &text, "%s", path))
		return;
	for (at = strtok_r(text, "\n", &end); at; at = strtok_r(NULL, "\n", &end)) {
		at += strspn(at, " \t");
		if (strncmp(at, key, strlen(key)) != 0)
			continue;
		at += strlen(key);
		at += strspn(at, " \t");
		if (*at == '=')
			*limit = parse_size(at + 1 + strspn(at + 1, " \t"));
	}
	free(text);
}

static void visit_dropin(struct doctor *d, const char *name, void *arg)
{
	struct systemd *systemd = arg;
	const char *suffix = strrchr(name, '.');
	char path[PATH_MAX];

	if (!suffix || strcmp(suffix, ".conf") != 0)
		return;
	snprintf(path, sizeof(path), "%s/%s", systemd->dir, name);
	read_system_conf(d, path, &systemd->limit);
}

static void check_systemd(struct doctor *d)
{
	static const char *const dirs[] = {"/usr/lib/systemd/system.conf.d",
					   "/run/systemd/system.conf.d",
					   "/etc/systemd/system.conf.d"};
	struct systemd systemd = {.limit = 8ull << 20}; /* systemd-system.conf(5) */
	char text[32];
	size_t i;

	if (!files_exist(d, "/run/systemd/system")) {
		doctor_skip(d, "systemd does not run here");
		return;
	}
	read_system_conf(d, "/etc/systemd/system.conf", &systemd.limit);
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		systemd.dir = dirs[i];
		files_each(d, dirs[i], visit_dropin, &systemd);
	}
	if (systemd.limit < ENOUGH_BYTES)
		doctor_find(d, DOCTOR_NOTE, words("systemd"),
			    words("services get a memlock of %s unless their unit says otherwise",
				  limit_text(systemd.limit, text)),
			    words("for a service that uses RDMA: systemctl edit UNIT, under "
				  "[Service] LimitMEMLOCK=infinity; for "
				  "all of them: DefaultLimitMEMLOCK=infinity in a file in "
				  "/etc/systemd/system.conf.d, and reboot"));
}

#define WHY                                                                                        \
	"Registering memory locks it: beyond the limit ibv_reg_mr and ibv_create_cq fail with "    \
	"'Cannot allocate memory', "                                                               \
	"and a connection that moved registers its memory once more."

const struct doctor_check doctor_limit_checks[] = {
	{"memlock-shell", "locked memory of programs started here", WHY, check_shell},
	{"memlock-daemons", "locked memory of what containerd and batch systems start", WHY,
	 check_daemons},
	{"memlock-docker", "locked memory of Docker's containers", WHY, check_docker},
	{"memlock-containerd", "locked memory of containerd's containers", WHY, check_containerd},
	{"memlock-systemd", "locked memory of systemd's services", WHY, check_systemd},
	{0},
};
