/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Orders about keys: pin, forget, revoke, restore keys of other hosts; rotate this host's. */
#include "agent.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "agent_log.h"
#include "shell_word.h"

/* Least time between rotations: a host that missed the first one does not know the key that has signed the second. */
#define ROTATE_AGAIN_NS (60 * MD_S)

static void fail(struct json_object *answer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void fail(struct json_object *answer, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	json_object_object_add(answer, "error", json_object_new_string(text));
}

static void put_key(struct json_object *answer, const char *member, const struct md_public *key)
{
	char text[MD_PUBLIC_TEXT_SIZE];

	md_public_format(key, text);
	json_object_object_add(answer, member, json_object_new_string(text));
}

/* Return: true: orders about keys cannot be carried out; reason in @answer. */
static bool refuse(const struct md_agent *agent, struct json_object *answer)
{
	const struct md_trust *trust = &agent->trust;
	const char *dir = agent->options->state_dir;

	if (md_secure_has_key(agent->secure))
		fail(answer,
		     "this host has a fleet key, %s: identities do nothing; to use them take the key away and restart "
		     "meshverbsd",
		     agent->options->config.agent_key);
	else if (!trust->on)
		fail(answer, "this host has no identity: %s", trust->why);
	else if (trust->dir_fd < 0)
		fail(answer,
		     "%s is not there, so it could not be noted: make it, with mode 0700 and for the agent's user, and restart "
		     "meshverbsd",
		     dir);
	else if (trust->pins_lost)
		fail(answer,
		     "%s/" MD_PINS_FILE
		     " could not be read, so it is not written: mend it, or remove it, and restart meshverbsd",
		     dir);
	else
		return false;
	return true;
}

static bool read_key(const char *text, struct json_object *answer, struct md_public *ret)
{
	if (!md_public_parse(text, ret))
		return true;
	fail(answer, "'%s' is no key of a host: copy all 44 characters that meshverbs keys shows there", text);
	return false;
}

/* Writes the file now, instead of at the next regular write. */
static void save_soon(struct md_trust *trust)
{
	trust->save_err = 0;
	trust->save_ns = trust->look_ns = 0;
}

/* ---- keys of others -------------------------------------------------------------------------- */

static void pin_key(struct md_agent *agent, const struct md_order *order, struct json_object *answer)
{
	struct md_trust *trust = &agent->trust;
	const struct md_public *had;
	const char *revoked_as;
	enum md_pin_how how;
	struct md_public key;
	int err;

	if (!read_key(order->key, answer, &key))
		return;
	had = md_pins_find(&trust->pins, order->host, &how, NULL);
	revoked_as = md_pins_revoked_as(&trust->pins, &key);
	if (revoked_as) {
		fail(answer, "this key is revoked: meshverbs keys restore %s %s", MV_SHELL(revoked_as), MV_SHELL(order->key));
		return;
	}
	if (had && how == MD_PIN_HOSTS_FILE) {
		fail(answer,
		     "the hosts file, %s, has a key of host %s, which has precedence: change it there, and systemctl reload "
		     "meshverbsd",
		     agent->options->config.agent_hosts, order->host);
		return;
	}
	if (had)
		put_key(answer, "former_key", had);
	err = md_pins_set(&trust->pins, order->host, &key, MD_PIN_OPERATOR, md_realtime_s());
	if (err) {
		fail(answer, "the key of host %s cannot be noted: %s", order->host,
		     err == -EINVAL   ? "this is no name of a host"
		     : err == -ENOSPC ? "there are too many; meshverbs keys forget those that are gone"
				      : md_strerror(err));
		return;
	}
	put_key(answer, "key", &key);
	md_log(MD_INFO, "host %s: the administrator has pinned the key %s", order->host, order->key);
	md_trust_review(agent, NULL);
}

static void forget_key(struct md_agent *agent, const struct md_order *order, struct json_object *answer)
{
	struct md_trust *trust = &agent->trust;
	const struct md_public *had = md_pins_find(&trust->pins, order->host, NULL, NULL);
	int err;

	if (had)
		put_key(answer, "key", had);
	err = md_pins_forget(&trust->pins, order->host);
	if (err == -EPERM)
		fail(answer, "the key of host %s is in the hosts file, %s: change it there, and systemctl reload meshverbsd",
		     order->host, agent->options->config.agent_hosts);
	else if (err)
		fail(answer, "no key of host %s is known: meshverbs keys lists them", order->host);
	if (err)
		return;
	md_log(MD_INFO, "host %s: the administrator has its key forgotten", order->host);
	md_trust_review(agent, order->host);
}

/* The key for that name: the pinned one, else the one that a host of that name shows. NULL: none. */
static const struct md_public *known_key(const struct md_agent *agent, const char *name)
{
	const struct md_public *key = md_pins_find(&agent->trust.pins, name, NULL, NULL);
	const struct md_host *host;

	for (host = agent->hosts.by_id; !key && host; host = host->hh.next)
		if (host->vouch && !strcmp(host->vouch->said.name, name))
			key = &host->vouch->said.sign;
	return key;
}

static void revoke_key(struct md_agent *agent, const struct md_order *order, struct json_object *answer)
{
	struct md_trust *trust = &agent->trust;
	const struct md_public *known = known_key(agent, order->host);
	char text[MD_PUBLIC_TEXT_SIZE];
	struct md_public key;
	int err;

	if (!md_statement_is_name(order->host)) {
		fail(answer, "'%s' is no name of a host", order->host);
		return;
	}
	if (*order->key && !read_key(order->key, answer, &key))
		return;
	if (!*order->key && !known) {
		fail(answer, "no key of host %s is known: meshverbs keys lists them; or name the key behind the host",
		     order->host);
		return;
	}
	if (!*order->key)
		key = *known;
	if (md_public_is(&key, &trust->identity.sign)) {
		fail(answer, "this is the key of this host: meshverbs keys rotate makes another");
		return;
	}
	err = md_pins_revoke(&trust->pins, order->host, &key, md_realtime_s());
	if (err) {
		fail(answer, "the key of host %s cannot be revoked: %s", order->host,
		     err == -ENOSPC ? "too many are; meshverbs keys restore those of hosts that are gone" : md_strerror(err));
		return;
	}
	put_key(answer, "key", &key);
	md_public_format(&key, text);
	md_log(MD_INFO, "host %s: the administrator has revoked the key %s", order->host, text);
	md_trust_review(agent, NULL);
}

static void restore_key(struct md_agent *agent, const struct md_order *order, struct json_object *answer)
{
	struct md_trust *trust = &agent->trust;
	const struct md_revoked *revoked;
	char text[MD_PUBLIC_TEXT_SIZE];
	struct md_public key;
	size_t n = 0;

	if (*order->key && !read_key(order->key, answer, &key))
		return;
	for (revoked = trust->pins.revoked; revoked; revoked = revoked->hh.next) {
		if (strcmp(revoked->name, order->host) != 0 || (*order->key && !md_public_is(&revoked->key, &key)))
			continue;
		key = revoked->key;
		n++;
	}
	if (!n) {
		fail(answer,
		     *order->key ? "this key of host %s is not revoked: meshverbs keys lists those that are"
				 : "no key of host %s is revoked: meshverbs keys lists those that are",
		     order->host);
		return;
	}
	if (n > 1) {
		fail(answer, "%zu keys of host %s are revoked: name one of those that meshverbs keys lists", n, order->host);
		return;
	}
	md_pins_restore(&trust->pins, &key);
	put_key(answer, "key", &key);
	md_public_format(&key, text);
	md_log(MD_INFO, "host %s: the administrator has the key %s believed again", order->host, text);
	md_trust_review(agent, NULL);
}

/* ---- this host's ----------------------------------------------------------------------------- */

/* Runs in the jobs' thread. */
static void save_next(struct md_job *job)
{
	struct md_trust *trust = md_job_of(job, struct md_trust, rotate);

	trust->rotate_err = md_identity_save(trust->dir_fd, trust->machine_id, &trust->next);
}

/* Peers seal with the former key until they have the statement with the new one; both open (peer_keys.h). */
static void on_next_saved(struct md_job *job)
{
	struct md_agent *agent = md_job_of(job, struct md_agent, trust.rotate);
	struct md_trust *trust = &agent->trust;
	char key[MD_PUBLIC_TEXT_SIZE];

	if (trust->rotate_err) {
		md_log(MD_ERROR, "%s/" MD_IDENTITY_FILE ": %s: this host keeps its key", agent->options->state_dir,
		       md_strerror(trust->rotate_err));
	} else {
		md_identity_wipe(&trust->identity);
		trust->identity = trust->next;
		trust->rotated_ns = md_now();
		md_secure_identity(agent->secure, &trust->identity);
		md_trust_describe(agent);
		md_announce_nets(&agent->tx.announce, agent->watch.view, trust->rotated_ns);
		md_public_format(&trust->identity.sign, key);
		md_log(MD_INFO, "this host has a new key, which the former one has signed: %s", key);
	}
	md_identity_wipe(&trust->next);
}

static void rotate_own(struct md_agent *agent, struct json_object *answer)
{
	struct md_trust *trust = &agent->trust;
	uint64_t now_ns = md_now();

	if (trust->rotate.out || (trust->rotated_ns && now_ns - trust->rotated_ns < ROTATE_AGAIN_NS)) {
		fail(answer, "this host has changed its key less than a minute ago: other hosts are still being told");
		return;
	}
	if (!trust->identity.lasting) {
		fail(answer,
		     "%s/" MD_IDENTITY_FILE " could not be written, so the agent makes another identity with each start: mend "
					    "that and restart meshverbsd",
		     agent->options->state_dir);
		return;
	}
	if (md_identity_rotate(&trust->identity, &trust->next)) {
		fail(answer, "no key can be made: libsodium does not start");
		return;
	}
	put_key(answer, "former_key", &trust->identity.sign);
	put_key(answer, "key", &trust->next.sign);
	trust->rotate_err = 0;
	trust->rotate.run = save_next;
	trust->rotate.done = on_next_saved;
	md_jobs_give(&agent->jobs, &trust->rotate);
}

void md_trust_carry_out(struct md_agent *agent, const struct md_order *order, struct json_object *answer)
{
	if (refuse(agent, answer))
		return;
	if (order->verb == MD_KEY_PIN)
		pin_key(agent, order, answer);
	else if (order->verb == MD_KEY_FORGET)
		forget_key(agent, order, answer);
	else if (order->verb == MD_KEY_REVOKE)
		revoke_key(agent, order, answer);
	else if (order->verb == MD_KEY_RESTORE)
		restore_key(agent, order, answer);
	else
		rotate_own(agent, answer);
	if (*order->host)
		json_object_object_add(answer, "host", json_object_new_string(order->host));
	if (agent->trust.pins.dirty)
		save_soon(&agent->trust);
}
