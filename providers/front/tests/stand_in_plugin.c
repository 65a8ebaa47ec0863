// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Says in a file that it was loaded: stands for the meshverbs plugin in tests of the front. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void)
{
	const char *path = secure_getenv("FRONT_TEST_LOADED");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

	if (fd < 0)
		return;
	if (write(fd, program_invocation_short_name, strlen(program_invocation_short_name)) > 0 &&
	    write(fd, "\n", 1) == 1)
		fsync(fd);
	close(fd);
}
