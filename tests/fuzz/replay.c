/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Runs a fuzz target over the files of a directory, without libFuzzer: `replay_gid
 * tests/fuzz/corpus/gid`.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#define INPUT_MAX_BYTES (1024 * 1024)

static int replay_file(const char *dir, const char *name, uint8_t *buf)
{
	char path[4096];
	size_t size;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "re");
	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	size = fread(buf, 1, INPUT_MAX_BYTES, file);
	if (ferror(file) || !feof(file)) {
		fprintf(stderr, "%s: cannot be read, or is longer than 1 MiB\n", path);
		fclose(file);
		return -1;
	}
	fclose(file);
	/* Named beforehand, for then a crash shows which file it was. */
	printf("%s (%zu bytes)\n", path, size);
	fflush(stdout);
	return LLVMFuzzerTestOneInput(buf, size);
}

int main(int argc, char **argv)
{
	uint8_t *buf = malloc(INPUT_MAX_BYTES);
	struct dirent *entry;
	int n = 0, bad = 0;
	DIR *dir;

	if (argc != 2 || !buf) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	dir = opendir(argv[1]);
	if (!dir) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
		return 2;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		bad |= replay_file(argv[1], entry->d_name, buf);
		n++;
	}
	closedir(dir);
	free(buf);
	if (!n)
		fprintf(stderr, "%s: no inputs\n", argv[1]);
	return bad || !n;
}
