// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Stands for libmlx5 in tests that replace it. */
int front_test_symbol(void);

__attribute__((visibility("default"))) int front_test_symbol(void)
{
	return 1;
}
