// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Reports of hosts' keys, and of devices' qualification. */
#include "reportint.h"

#include <json-c/json.h>

/* ---- keys ------------------------------------------------------------------------------------ */

static const char *trust_name(const struct md_host *host)
{
	static const char *const names[] = {[MD_TRUST_UNPINNED] = "unpinned",
					    [MD_TRUST_PINNED] = "pinned",
					    [MD_TRUST_CHANGED] = "changed",
					    [MD_TRUST_REVOKED] = "revoked"};

	return host->vouch ? names[host->vouch->trust] : "none";
}

static void add_pin(struct json_object *to, const struct md_pins *pins, const char *name)
{
	enum md_pin_how how;
	uint64_t since_s;
	const struct md_public *key = md_pins_find(pins, name, &how, &since_s);

	if (!key)
		return;
	md_json_add_public(to, "pinned_key", key);
	md_json_add_text(to, "how", md_pin_how_name(how));
	if (since_s)
		md_json_add_number(to, "since", since_s);
}

static struct json_object *host_key_object(const struct md_agent *agent, const struct md_host *host)
{
	struct json_object *object = json_object_new_object();

	md_json_add_text(object, "name", host->name);
	md_json_add_id(object, "id", &host->id);
	md_json_add_text(object, "trust", trust_name(host));
	md_json_add_bool(object, "authenticated", md_trust_is_authenticated(agent, host));
	md_json_add_number(object, "heard_ms_ago", (md_now() - host->heard_ns) / MD_MS);
	if (host->vouch)
		md_json_add_public(object, "key", &host->vouch->said.sign);
	add_pin(object, &agent->trust.pins, host->name);
	return object;
}

static struct json_object *pin_object(const struct md_pins *pins, const struct md_pin *pin)
{
	struct json_object *object = json_object_new_object();

	md_json_add_text(object, "name", pin->name);
	add_pin(object, pins, pin->name);
	if (pin->seen_s)
		md_json_add_number(object, "seen", pin->seen_s);
	return object;
}

static struct json_object *revoked_object(const struct md_revoked *revoked)
{
	struct json_object *object = json_object_new_object();

	md_json_add_text(object, "name", revoked->name);
	md_json_add_public(object, "key", &revoked->key);
	md_json_add_number(object, "since", revoked->since_s);
	return object;
}

void md_report_keys(const struct md_agent *agent, FILE *out)
{
	const struct md_pins *pins = &agent->trust.pins;
	struct json_object *own = agent->trust.on ? md_report_own_identity(agent) : NULL;
	const struct md_revoked *revoked;
	struct md_json_list list = {.out = out};
	const struct md_host *host;
	const struct md_pin *pin;

	fprintf(out, "{\"fleet_key\":%s,\"identity\":%s,", md_secure_has_key(agent->secure) ? "true" : "false",
		own ? json_object_to_json_string_ext(own, JSON_C_TO_STRING_PLAIN) : "null");
	json_object_put(own);
	md_json_list_begin(&list, "hosts");
	for (host = agent->hosts.by_id; host; host = host->hh.next)
		if (md_json_list_has_room(&list))
			md_json_list_put(&list, host_key_object(agent, host));
		else
			list.left_out++;
	md_json_list_end(&list, "hosts");
	fputc(',', out);
	md_json_list_begin(&list, "pins");
	for (pin = pins->by_name; pin; pin = pin->hh.next)
		if (md_json_list_has_room(&list))
			md_json_list_put(&list, pin_object(pins, pin));
		else
			list.left_out++;
	md_json_list_end(&list, "pins");
	fputc(',', out);
	md_json_list_begin(&list, "revoked");
	for (revoked = pins->revoked; revoked; revoked = revoked->hh.next)
		md_json_list_put(&list, revoked_object(revoked));
	md_json_list_end(&list, "revoked");
	fputs("}\n", out);
}

/* ---- qualified ------------------------------------------------------------------------------- */

static void add_text_if(struct json_object *to, const char *key, const char *text)
{
	if (text[0])
		md_json_add_text(to, key, text);
}

static struct json_object *qualified_object(const struct md_qualify *q, const struct md_qualify_device *device)
{
	struct json_object *object = json_object_new_object();

	md_json_add_text(object, "device", device->name);
	md_json_add_text(object, "state", md_qualify_state_name(device->state));
	md_json_add_bool(object, "running", q->running == device);
	add_text_if(object, "board_id", device->key.board_id);
	add_text_if(object, "firmware", device->key.firmware);
	add_text_if(object, "kernel", device->key.kernel);
	add_text_if(object, "libmlx5", device->key.libmlx5);
	if (device->time_s)
		md_json_add_number(object, "time", device->time_s);
	add_text_if(object, "trial", device->trial);
	add_text_if(object, "assumption", device->assumption);
	add_text_if(object, "reason", device->reason);
	add_text_if(object, "why", device->why);
	return object;
}

void md_report_qualified(const struct md_agent *agent, FILE *out)
{
	const struct md_qualify *q = &agent->qualify;
	struct json_object *waits = q->waits ? json_object_new_string(q->waits) : NULL;
	struct md_json_list list = {.out = out};

	fprintf(out, "{\"on\":%s,\"waits\":%s,", q->on ? "true" : "false",
		waits ? json_object_to_json_string_ext(waits, JSON_C_TO_STRING_PLAIN) : "null");
	json_object_put(waits);
	md_json_list_begin(&list, "devices");
	for (size_t i = 0; i < q->n; i++)
		md_json_list_put(&list, qualified_object(q, &q->devices[i]));
	md_json_list_end(&list, "devices");
	fputs("}\n", out);
}
