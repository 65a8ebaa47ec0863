/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "attacked.h"

struct md_keys keys;
struct host a, b, m;

int with_key(void **state)
{
	(void)state;
	keys = keys_of(1, 'k', 0);
	host_start(&a, 1, &keys);
	host_start(&b, 2, &keys);
	host_start(&m, 66, NULL);
	return 0;
}

int without_key(void **state)
{
	(void)state;
	host_start(&a, 1, NULL);
	host_start(&b, 2, NULL);
	host_start(&m, 66, NULL);
	return 0;
}

int stop_hosts(void **state)
{
	(void)state;
	host_stop(&a);
	host_stop(&b);
	host_stop(&m);
	return 0;
}
