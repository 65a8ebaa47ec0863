/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TEST_ATTACKED_H
#define MD_TEST_ATTACKED_H

#include "hosts.h"

/* Two hosts, and an attacker who has no key. docs/security.md names their tests with the claims they stand for. */

extern struct md_keys keys; /* of a and b, if they have any */
extern struct host a, b, m; /* m: the attacker */

/** with_key, without_key, stop_hosts - start and stop all three, for cmocka */
int with_key(void **state);
int without_key(void **state);
int stop_hosts(void **state);

#define KEYED(test) cmocka_unit_test_setup_teardown(test, with_key, stop_hosts)
#define PLAIN(test) cmocka_unit_test_setup_teardown(test, without_key, stop_hosts)

#endif
