// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * meshverbs-front: puts the front in place on a host, called by packages when meshverbs or libmlx5
 * is installed, upgraded or removed, and by people.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "front.h"
#include "ldcache.h"

static const char usage[] =
	"usage: meshverbs-front [OPTION]... update|remove|status\n"
	"\n"
	"Programs that use mlx5 directly (NCCL, UCX, perftest) find meshverbs through a front for "
	"libmlx5.so.1.\n"
	"  update   make the front for the libmlx5 of this host, or bring it up to date\n"
	"  remove   take it away\n"
	"  status   0: it is in place, 1: it is not or not up to date, 2: it cannot be made here\n"
	"\n"
	"  -r, --root DIR      the host's files are below DIR\n"
	"  -p, --plugin PATH   the plugin it loads (" FRONT_PLUGIN ")\n"
	"  -d, --dir DIR       where the front goes (" FRONT_DIR ")\n"
	"  -c, --conf PATH     snippet for ld.so (" FRONT_CONF ")\n"
	"  -C, --cache         bring ld.so's cache up to date first\n"
	"  -q, --quiet         print errors only\n";

struct command {
	struct front front;
	bool refresh; /* ld.so's cache, first */
	bool quiet;
	const char *verb;
};

static int set_path(char out[PATH_MAX], const char *text)
{
	if (text[0] != '/' || strlen(text) >= PATH_MAX - 32) {
		fprintf(stderr, "meshverbs-front: '%s' is not an absolute path\n", text);
		return -EINVAL;
	}
	strcpy(out, text);
	/* Paths are compared as text: no slash at the end. */
	for (size_t n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
		out[n - 1] = '\0';
	return 0;
}

static int parse(struct command *c, int argc, char **argv)
{
	static const struct option options[] = {
		{"root", required_argument, NULL, 'r'}, {"plugin", required_argument, NULL, 'p'},
		{"dir", required_argument, NULL, 'd'},  {"conf", required_argument, NULL, 'c'},
		{"cache", no_argument, NULL, 'C'},      {"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
	};
	int option, err = 0;

	strcpy(c->front.dir, FRONT_DIR);
	strcpy(c->front.plugin, FRONT_PLUGIN);
	strcpy(c->front.conf, FRONT_CONF);
	strcpy(c->front.ldconfig,
	       access("/sbin/ldconfig", X_OK) ? "/usr/sbin/ldconfig" : "/sbin/ldconfig");
	while (!err && (option = getopt_long(argc, argv, "r:p:d:c:Cqh", options, NULL)) >= 0) {
		switch (option) {
		case 'r':
			err = set_path(c->front.root, optarg);
			if (!strcmp(c->front.root, "/"))
				c->front.root[0] = '\0';
			break;
		case 'p':
			err = set_path(c->front.plugin, optarg);
			break;
		case 'd':
			err = set_path(c->front.dir, optarg);
			break;
		case 'c':
			err = set_path(c->front.conf, optarg);
			break;
		case 'C':
			c->refresh = true;
			break;
		case 'q':
			c->quiet = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			err = -EINVAL;
		}
	}
	if (!err && optind + 1 != argc) {
		fputs(usage, stderr);
		err = -EINVAL;
	}
	c->verb = err ? NULL : argv[optind];
	return err;
}

static int refuse(const struct command *c)
{
	fprintf(stderr, "meshverbs-front: %s\n", c->front.why);
	return 2;
}

/* A package manager may call us before whoever runs ldconfig for the libraries that it has just put
 * there. Not being able to is not the end: the survey tells what the cache lacks. */
static void refresh_cache(const struct command *c)
{
	int err = c->refresh ? ldcache_rebuild(c->front.ldconfig, c->front.root) : 0;

	if (err)
		fprintf(stderr, "meshverbs-front: %s: %s\n", c->front.ldconfig, strerror(-err));
}

static int do_update(struct command *c)
{
	int changed;

	refresh_cache(c);
	changed = front_survey(&c->front);
	if (changed < 0) {
		/* A front whose library is gone or has become something else is worse than none.
		 * Where ldconfig does not even list the cache, nothing is known of it. */
		refuse(c);
		changed = front_withdraw(&c->front, c->front.cache_read);
		if (changed < 0)
			return refuse(c);
		if (changed)
			fprintf(stderr, "meshverbs-front: took the front away that was there\n");
		return 2;
	}
	changed = front_update(&c->front);
	if (changed < 0)
		return refuse(c);
	if (!c->quiet)
		printf("%s/" FRONT_SONAME " %s %s\n", c->front.dir,
		       changed ? "now stands before" : "stands before", c->front.real);
	return 0;
}

static int do_remove(struct command *c)
{
	int changed = front_withdraw(&c->front, false);

	if (changed < 0)
		return refuse(c);
	if (!c->quiet)
		printf("%s\n", changed ? "removed" : "there is no front");
	return 0;
}

static int do_status(struct command *c)
{
	static const char *const names[] = {[FRONT_ABSENT] = "absent",
					    [FRONT_STALE] = "not up to date",
					    [FRONT_ACTIVE] = "active"};
	enum front_state state;

	if (front_survey(&c->front))
		return refuse(c);
	state = front_state(&c->front);
	if (!c->quiet)
		printf("front:   %s\nlibrary: %s (%u versions, last %s)\nplugin:  %s\n",
		       names[state], c->front.real, c->front.facts.n_versions,
		       c->front.facts.versions[c->front.facts.n_versions - 1].name, c->front.plugin);
	return state == FRONT_ACTIVE ? 0 : 1;
}

/* One at a time: two triggers of a package manager, or a person and a trigger. The lock ends with
 * the process. */
static int lock(const struct command *c)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/etc", c->front.root) >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX)) {
		fprintf(stderr, "meshverbs-front: %s: %s\n", path, strerror(errno));
		return -errno;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(struct command *c);
	} verbs[] = {{"update", do_update}, {"remove", do_remove}, {"status", do_status}};
	static struct command c;
	int status = 2;

	if (parse(&c, argc, argv))
		return 2;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(verbs[i].name, c.verb))
			continue;
		if (!lock(&c))
			status = verbs[i].run(&c);
		front_fini(&c.front);
		return status;
	}
	fprintf(stderr, "meshverbs-front: unknown command '%s'; use update, remove or status\n",
		c.verb);
	return 2;
}
