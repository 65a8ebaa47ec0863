// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Ends the program that it is loaded into: stands for a plugin that libraries it meets have made harmful (SIGABRT), or too slow (SIGALRM). */
#include <signal.h>

__attribute__((constructor)) static void loaded(void)
{
	raise(ENDS_BY);
}
