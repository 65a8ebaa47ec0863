/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The hosts file, any bytes; and requests on the control socket. */
#include "fuzz.h"

#include <string.h>

#include "control.h"
#include "hostsfile.h"

static void report(void *arg, unsigned int line, const char *text)
{
	unsigned int *n = arg;

	FUZZ_CHECK(line && *text);
	(*n)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct md_targets targets = {0};
	struct md_pins pins = {0};
	struct md_target *target, *next;
	unsigned int n = 0;
	struct md_order order;
	char name[32];

	FUZZ_CHECK(md_hostsfile_parse(&targets, &pins, (const char *)data, size, report, &n) == n);
	HASH_ITER(hh, targets.by_gid, target, next)
	{
		size_t len = strnlen(target->name, sizeof(target->name));

		FUZZ_CHECK(len && len < sizeof(target->name));
		for (size_t i = 0; i < len; i++)
			FUZZ_CHECK(target->name[i] > ' ' && target->name[i] <= '~');
	}
	md_targets_fini(&targets);
	md_pins_fini(&pins);
	if (!md_control_parse_order((const char *)data, size, &order)) {
		FUZZ_CHECK(memchr(order.device, '\0', sizeof(order.device)) && memchr(order.host, '\0', sizeof(order.host)) &&
			   memchr(order.key, '\0', sizeof(order.key)));
		FUZZ_CHECK((order.verb > MD_UNDRAIN || *order.device) && (order.verb != MD_KEY_PIN || (*order.host && *order.key)));
	}
	if (!md_control_parse((const char *)data, size, name, sizeof(name)))
		FUZZ_CHECK(memchr(name, '\0', sizeof(name)));
	return 0;
}
