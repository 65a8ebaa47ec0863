// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Stands for libmlx5 in tests that replace it. */
#include <unistd.h>

/* libibverbs' own, which test_elf.c has. */
void verbs_register_driver_99(void);

static int constructed;

/* As libmlx5 registers its driver. */
__attribute__((constructor)) static void construct(void)
{
	verbs_register_driver_99();
	constructed = getpid() > 0; /* of the C library, by a version of its own */
}

int front_test_symbol(void);

__attribute__((visibility("default"))) int front_test_symbol(void)
{
	return constructed;
}
