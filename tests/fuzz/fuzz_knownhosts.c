/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* known_hosts, any bytes: what is taken of it is written as a file from which the same is taken, without a bad line. */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "pins.h"
#include "statement.h"

static void check_table(const struct md_pins *pins)
{
	const struct md_revoked *revoked;
	const struct md_pin *pin;
	size_t n = 0, n_revoked = 0;

	for (pin = pins->by_name; pin; pin = pin->hh.next, n++) {
		FUZZ_CHECK(memchr(pin->name, '\0', sizeof(pin->name)) && md_statement_is_name(pin->name));
		FUZZ_CHECK(pin->has_own && !pin->has_file && !md_public_is_zero(&pin->own));
		FUZZ_CHECK(pin->how == MD_PIN_FIRST_CONTACT || pin->how == MD_PIN_OPERATOR || pin->how == MD_PIN_ROTATED ||
			   pin->how == MD_PIN_UNCONFIRMED);
		FUZZ_CHECK((pin->how == MD_PIN_UNCONFIRMED) == (pin->prev != NULL));
		FUZZ_CHECK(md_pins_find(pins, pin->name, NULL, NULL) == &pin->own);
	}
	for (revoked = pins->revoked; revoked; revoked = revoked->hh.next, n_revoked++) {
		FUZZ_CHECK(md_statement_is_name(revoked->name) && md_pins_is_revoked(pins, &revoked->key));
		pin = NULL;
		HASH_FIND(hh, pins->by_name, revoked->name, strlen(revoked->name), pin);
		FUZZ_CHECK(!pin || !md_public_is(&pin->own, &revoked->key));
	}
	FUZZ_CHECK(n == pins->n && n_revoked == pins->n_revoked && n <= MD_PINS_MAX && n_revoked <= MD_REVOKED_MAX);
}

static size_t n_lines(const uint8_t *data, size_t size)
{
	size_t n = size && data[size - 1] != '\n';

	while (size--)
		n += data[size] == '\n';
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct md_pins pins = {0}, again = {0};
	unsigned int n_bad, line = 0;
	char *text = malloc(size ? size : 1), *first, *second;
	size_t first_len, second_len;

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	n_bad = md_pins_parse(&pins, text, size, &line);
	free(text);
	FUZZ_CHECK(n_bad ? line && n_bad + line <= n_lines(data, size) + 1 : !line);
	check_table(&pins);
	first = md_pins_format(&pins, &first_len);
	FUZZ_CHECK(first && !md_pins_parse(&again, first, first_len, &line));
	check_table(&again);
	second = md_pins_format(&again, &second_len);
	FUZZ_CHECK(second && first_len == second_len && !memcmp(first, second, first_len));
	free(first);
	free(second);
	md_pins_fini(&pins);
	md_pins_fini(&again);
	return 0;
}
