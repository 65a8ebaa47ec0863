/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requests over the control socket: how they are parsed. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "control.h"

static void test_control_requests(void **state)
{
	static const char *const bad[] = {
		"",
		"x",
		"{}",
		"[]",
		"{\"get\":1}",
		"{\"get\":null}",
		"\"get\"",
		"{\"get\"",
		"{\"get\":\"0123456789012345678901234567890123456789\"}",
		"[[[[[[[[[[[[[[[[",
	};
	char name[32];

	(void)state;
	assert_int_equal(md_control_parse("{\"get\": \"peers\"}", 16, name, sizeof(name)), 0);
	assert_string_equal(name, "peers");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(md_control_parse(bad[i], strlen(bad[i]), name, sizeof(name)),
				 -EBADMSG);
}

static void test_objects(void **state)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{"{}", "{}"},
		{" {\"a\": 1}", "{\"a\":1}"},
		{"{\"a\":[null,{\"b\":\"NaN\"}]}", "{\"a\":[null,{\"b\":\"NaN\"}]}"},
		{"{\"a\":\"\xc3\xa4\"}", "{\"a\":\"\xc3\xa4\"}"},
		{"{'a':-01}", "{\"a\":-1}"}, /* json-c takes it for JSON */
		{"{\"a\":\"\\n\"}", "{\"a\":\"\\n\"}"},
		{"{\"a\":\"\n\"}", NULL},
		{"{\"a\":1}\n", NULL},
		{"{\"a\":\"/\"}", "{\"a\":\"/\"}"},
		{"{\"a\":\"\1\"}", NULL}, /* would be printed with six bytes */
		{"{\"a\":\"\\u0001\"}", "{\"a\":\"\\u0001\"}"},
		{"{\"a\":\"\\u007f\"}", NULL}, /* would be printed as it is, for a terminal to obey */
		{"{\"a\":\"\\u009b31m\"}", NULL},
		{"{\"a\":\"\\u00e4\"}", "{\"a\":\"\xc3\xa4\"}"},
		{"", NULL},
		{"{", NULL},
		{"[1]", NULL},
		{"1", NULL},
		{"{\"a\":1} x", NULL},
		{"{\"a\":1", NULL},
		{"{\"a\":NaN}", NULL},
		{"{\"a\":[1,{\"b\":Infinity}]}", NULL},
		{"{\"a\":-Infinity}", NULL},
		{"{\"a\":1.}", NULL},
		{"{\"a\":1.5}", NULL},
		{"{\"a\":\"\xff\"}", NULL},
		{"{\"a\":\"\xc3\"}", NULL},
		{"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *shown = md_control_object(cases[i].text, strlen(cases[i].text));

		if (shown && cases[i].shown)
			assert_string_equal(shown, cases[i].shown);
		else if (shown || cases[i].shown)
			fail_msg("%s: %s", cases[i].text, shown ? shown : "refused");
		free(shown);
	}
}

static void test_control_orders(void **state)
{
	static const char *const bad[] = {
		"{\"do\":1,\"device\":\"a\"}",
		"{\"do\":null,\"device\":\"a\"}",
		"{\"do\":\"drain\"}",
		"{\"do\":\"drain\",\"device\":\"\"}",
		"{\"do\":\"drain\",\"device\":7}",
		"{\"do\":\"drain\",\"device\":\"a\\u0000b\"}",
		"{\"do\":\"drain\",\"device\":\"a\",\"force\":1}",
		"{\"do\":\"drained\",\"device\":\"a\"}",
		"{\"do\":\"key-pin\",\"host\":\"b\"}",
		"{\"do\":\"key-pin\",\"key\":\"AQ==\"}",
		"{\"do\":\"key-forget\",\"host\":\"b\\u0000c\"}",
		"{\"do\":\"key-revoke\",\"host\":\"b\",\"key\":1}",
		"{\"do\":\"key-forget\",\"host\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
		"{\"do\":\"drain\",\"device\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
	};
	static const char good[] = "{\"do\": \"drain\", \"device\": \"mlx5_0\"}",
			  forced[] = "{\"do\":\"undrain\",\"device\":\"mlx5_1\",\"force\":true}",
			  other[] = "{\"get\":\"peers\"}", pin[] = "{\"do\":\"key-pin\",\"host\":\"b\",\"key\":\"AQ==\"}",
			  revoke[] = "{\"do\":\"key-revoke\",\"host\":\"b\"}", rotate[] = "{\"do\":\"key-rotate\"}";
	struct md_order order;

	(void)state;
	assert_int_equal(md_control_parse_order(good, strlen(good), &order), 0);
	assert_string_equal(order.device, "mlx5_0");
	assert_int_equal(order.verb, MD_DRAIN);
	assert_false(order.force);
	assert_int_equal(md_control_parse_order(forced, strlen(forced), &order), 0);
	assert_string_equal(order.device, "mlx5_1");
	assert_int_equal(order.verb, MD_UNDRAIN);
	assert_true(order.force);
	assert_int_equal(md_control_parse_order(pin, strlen(pin), &order), 0);
	assert_int_equal(order.verb, MD_KEY_PIN);
	assert_string_equal(order.host, "b");
	assert_string_equal(order.key, "AQ==");
	assert_int_equal(md_control_parse_order(revoke, strlen(revoke), &order), 0);
	assert_int_equal(order.verb, MD_KEY_REVOKE);
	assert_string_equal(order.key, "");
	assert_int_equal(md_control_parse_order(rotate, strlen(rotate), &order), 0);
	assert_int_equal(order.verb, MD_KEY_ROTATE);
	assert_int_equal(md_control_parse_order(other, strlen(other), &order), -ENOENT);
	assert_int_equal(md_control_parse_order("[1", 2, &order), -ENOENT);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(md_control_parse_order(bad[i], strlen(bad[i]), &order), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_control_requests),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_control_orders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
