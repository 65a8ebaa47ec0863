// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Fault rules as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fault_rule.h"

static int parse(struct sim_fault *f, const char *text, char *why, size_t size)
{
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", text);
	why[0] = '\0';
	return fault_parse(f, copy, why, size);
}

static struct sim_fault good(const char *text)
{
	struct sim_fault f;
	char why[128];

	assert_int_equal(parse(&f, text, why, sizeof(why)), 0);
	return f;
}

static void bad(const char *text, const char *names)
{
	struct sim_fault f;
	char why[128];

	assert_int_equal(parse(&f, text, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, names));
}

static void test_defaults(void **unused)
{
	struct sim_fault f = good("drop");

	(void)unused;
	assert_int_equal(f.action, SIM_FAULT_DROP);
	assert_int_equal(f.dir, SIM_FAULT_TX);
	assert_int_equal(f.class_mask, SIM_CLASS_ANY);
	assert_int_equal(f.qpn, 0);
	assert_int_equal(f.limit, 0);
}

static void test_settings(void **unused)
{
	struct sim_fault f = good(
		"delay us=250 dir=both class=ack,nak qpn=0x102 skip=3 every=2 ppm=500000 limit=9");

	(void)unused;
	assert_int_equal(f.action, SIM_FAULT_DELAY);
	assert_int_equal(f.delay_us, 250);
	assert_int_equal(f.dir, SIM_FAULT_TX | SIM_FAULT_RX);
	assert_int_equal(f.class_mask, SIM_CLASS_ACK | SIM_CLASS_NAK);
	assert_int_equal(f.qpn, 0x102);
	assert_int_equal(f.skip, 3);
	assert_int_equal(f.every, 2);
	assert_int_equal(f.ppm, 500000);
	assert_int_equal(f.limit, 9);
}

static void test_nth_is_one_packet(void **unused)
{
	struct sim_fault f = good("corrupt dir=rx nth=5");

	(void)unused;
	assert_int_equal(f.skip, 4);
	assert_int_equal(f.limit, 1);
}

static void test_bad_rules_are_named(void **unused)
{
	(void)unused;
	bad("", "unknown action ''");
	bad("lose", "'lose'");
	bad("drop up", "'up'");
	bad("drop colour=red", "'colour'");
	bad("drop dir=up", "'dir'");
	bad("drop class=ack,nack", "'class'");
	bad("drop class=", "'class'");
	bad("drop nth=0", "'nth'");
	bad("drop nth=-1", "'nth'");
	bad("drop nth=3x", "'nth'");
	bad("drop ppm=1000001", "'ppm'");
	bad("drop qpn=0x1000000", "'qpn'");
	bad("drop limit=", "'limit'");
	bad("delay", "us=N");
	bad("drop us=3", "us=N");
}

static void test_what_is_shown_can_be_given(void **unused)
{
	struct sim_fault f = good("delay us=7 dir=rx class=request,response qpn=258 skip=1 every=4 "
				  "ppm=10 limit=2"),
			 again;
	char line[256];

	(void)unused;
	fault_format(line, sizeof(line), &f);
	assert_non_null(strstr(line, "seen=0 hits=0"));
	*strstr(line, " seen=") = '\0';
	again = good(line);
	assert_memory_equal(&again, &f, sizeof(f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_nth_is_one_packet),
		cmocka_unit_test(test_bad_rules_are_named),
		cmocka_unit_test(test_what_is_shown_can_be_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
