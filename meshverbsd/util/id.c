/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "id.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

static void read_line(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n;

	memset(buf, 0, size);
	if (fd < 0)
		return;
	n = read(fd, buf, size - 1);
	close(fd);
	buf[n < 0 ? 0 : n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

void md_id_gather(struct md_id_from *ret)
{
	struct stat st;

	memset(ret, 0, sizeof(*ret));
	read_line("/etc/machine-id", ret->machine_id, sizeof(ret->machine_id));
	read_line("/proc/sys/kernel/random/boot_id", ret->boot_id, sizeof(ret->boot_id));
	if (gethostname(ret->hostname, sizeof(ret->hostname) - 1))
		ret->hostname[0] = '\0';
	if (!stat("/proc/self/ns/net", &st))
		ret->netns = st.st_ino;
}

struct mv_host_id md_id_make(const struct md_id_from *from)
{
	crypto_generichash_state state;
	struct mv_host_id id;

	crypto_generichash_init(&state, NULL, 0, sizeof(id.bytes));
	crypto_generichash_update(&state, (const uint8_t *)from->machine_id,
				  sizeof(from->machine_id));
	crypto_generichash_update(&state, (const uint8_t *)from->boot_id, sizeof(from->boot_id));
	crypto_generichash_update(&state, (const uint8_t *)&from->netns, sizeof(from->netns));
	if (!from->machine_id[0] && !from->boot_id[0])
		crypto_generichash_update(&state, (const uint8_t *)from->hostname,
					  sizeof(from->hostname));
	crypto_generichash_final(&state, id.bytes, sizeof(id.bytes));
	return id;
}
