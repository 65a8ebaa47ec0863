// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_write.h"
#include "files.h"
#include "front.h"
#include "ldcache.h"
#include "trial.h"

#define CONF_HEAD                                                                                  \
	"# Made by meshverbs-front: lets programs that use mlx5 directly find meshverbs.\n"

__attribute__((format(printf, 3, 4))) static int fail(struct front *f, int err, const char *fmt,
						      ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(f->why, sizeof(f->why), fmt, args);
	va_end(args);
	return err;
}

static int path_in(char out[PATH_MAX], const struct front *f, const char *name)
{
	return snprintf(out, PATH_MAX, "%s/%s", f->dir, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static bool in_front_dir(const struct front *f, const char *path)
{
	size_t n = strlen(f->dir);

	return !strncmp(path, f->dir, n) && path[n] == '/';
}

/* The first entry outside our directory is what ld.so would take without us. */
static int look_up(struct front *f, const char *name, char real[PATH_MAX], bool *ours_first)
{
	struct ldcache_paths found;
	int err = ldcache_find(f->ldconfig, f->root, name, &found);

	real[0] = '\0';
	*ours_first = false;
	if (err)
		return fail(f, err, "%s -p: %s; is the C library glibc, and are we root?",
			    f->ldconfig, strerror(-err));
	*ours_first = found.n && in_front_dir(f, found.paths[0]);
	for (unsigned int i = 0; i < found.n && !real[0]; i++)
		if (!in_front_dir(f, found.paths[i]))
			strcpy(real, found.paths[i]);
	return 0;
}

/* Read the library, and make the front of it. */
static int read_real(struct front *f)
{
	char why[128];
	void *data;
	size_t size;
	int err = file_read(f->root, f->real, &data, &size);

	if (err)
		return fail(f, err, "%s: %s", f->real, strerror(-err));
	err = elf_read(&f->facts, data, size, why, sizeof(why));
	if (err)
		err = fail(f, err, "%s: %s, so no front can stand before it", f->real, why);
	else if (strcmp(f->facts.soname, FRONT_SONAME))
		err = fail(f, -EINVAL, "%s calls itself %.63s, not " FRONT_SONAME, f->real, f->facts.soname);
	else if ((err = elf_write(&f->image, &f->image_bytes, &f->facts, data, size, f->real, f->plugin)))
		fail(f, err, "making the front: %s", strerror(-err));
	free(data);
	return err;
}

static int check_plugin(struct front *f)
{
	void *data;
	size_t size;
	int err = file_read(f->root, f->plugin, &data, &size);

	if (err)
		return fail(f, err, "plugin %s: %s; is meshverbs installed?", f->plugin,
			    strerror(-err));
	free(data);
	return 0;
}

int front_survey(struct front *f)
{
	char devel[PATH_MAX];
	int err = look_up(f, FRONT_SONAME, f->real, &f->front_first);

	if (!err)
		err = look_up(f, FRONT_DEVEL, devel, &f->devel_first);
	if (err)
		return err;
	f->cache_read = true;
	f->real_has_devel = devel[0] != '\0';
	if (!f->real[0])
		return fail(f, -ENOENT,
			    "no 64-bit " FRONT_SONAME
			    " in ld.so's cache; nothing needs a front here");
	err = read_real(f);
	return err ? err : check_plugin(f);
}

void front_fini(struct front *f)
{
	free(f->image);
	f->image = NULL;
}

static bool same_file(const struct front *f, const char *path, const void *want, size_t bytes)
{
	void *data;
	size_t size;
	bool same;

	if (file_read(f->root, path, &data, &size))
		return false;
	same = size == bytes && !memcmp(data, want, bytes);
	free(data);
	return same;
}

static bool exists(const struct front *f, const char *path)
{
	return file_exists(f->root, path);
}

static void conf_text(const struct front *f, char out[PATH_MAX + sizeof(CONF_HEAD) + 1])
{
	snprintf(out, PATH_MAX + sizeof(CONF_HEAD) + 1, CONF_HEAD "%s\n", f->dir);
}

enum front_state front_state(const struct front *f)
{
	char text[PATH_MAX + sizeof(CONF_HEAD) + 1], front[PATH_MAX], devel[PATH_MAX];

	conf_text(f, text);
	if (path_in(front, f, FRONT_SONAME) || path_in(devel, f, FRONT_DEVEL))
		return FRONT_ABSENT;
	if (!exists(f, front) && !exists(f, f->conf))
		return FRONT_ABSENT;
	if (same_file(f, front, f->image, f->image_bytes) &&
	    same_file(f, f->conf, text, strlen(text)) && f->front_first &&
	    exists(f, devel) == f->real_has_devel && f->devel_first == f->real_has_devel)
		return FRONT_ACTIVE;
	return FRONT_STALE;
}

/* The files, in the order in which a program may meet them: the library before the directory is
 * searched. */
static int put_files(struct front *f)
{
	char text[PATH_MAX + sizeof(CONF_HEAD) + 1], front[PATH_MAX], devel[PATH_MAX],
		conf_dir[PATH_MAX];
	int err = path_in(front, f, FRONT_SONAME);

	conf_text(f, text);
	strcpy(conf_dir, f->conf);
	*strrchr(conf_dir, '/') = '\0';
	if (!err)
		err = path_in(devel, f, FRONT_DEVEL);
	if (!err)
		err = dir_make(f->root, f->dir);
	if (!err)
		err = file_write(f->root, front, f->image, f->image_bytes);
	if (!err && f->real_has_devel)
		err = file_link(f->root, devel, FRONT_SONAME);
	else if (!err && (err = file_remove(f->root, devel)) > 0)
		err = 0;
	if (!err)
		err = dir_make(f->root, conf_dir);
	return err ? err : file_write(f->root, f->conf, text, strlen(text));
}

/* Also where that cannot be told. */
static bool cache_names_front(const struct front *f)
{
	static const char *const names[] = {FRONT_SONAME, FRONT_DEVEL};
	struct ldcache_paths found;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (ldcache_find(f->ldconfig, f->root, names[i], &found))
			return true;
		for (unsigned int n = 0; n < found.n; n++)
			if (in_front_dir(f, found.paths[n]))
				return true;
	}
	return false;
}

/* ld.so must stop looking here before the library goes, else programs would not start. An earlier
 * call may have taken the snippet and come no further. */
static int take_files(struct front *f, bool harmful)
{
	char front[PATH_MAX], devel[PATH_MAX];
	int changed, err;

	if (path_in(front, f, FRONT_SONAME) || path_in(devel, f, FRONT_DEVEL))
		return -ENAMETOOLONG;
	if (!exists(f, f->conf) && !exists(f, devel) && !exists(f, front)) {
		dir_remove(f->root, f->dir, 2);
		return 0;
	}
	changed = file_remove(f->root, f->conf);
	err = changed < 0 ? changed : ldcache_rebuild(f->ldconfig, f->root);
	if (err && !harmful && cache_names_front(f))
		return err;
	for (int i = 0; i < 2; i++) {
		int one = file_remove(f->root, i == 0 ? devel : front);

		if (one < 0)
			err = one;
	}
	dir_remove(f->root, f->dir, 2);
	return err ? err : 1;
}

static int check_preferred(struct front *f)
{
	char real[PATH_MAX];
	int err = look_up(f, FRONT_SONAME, real, &f->front_first);

	if (!err)
		err = look_up(f, FRONT_DEVEL, real, &f->devel_first);
	if (err)
		return err;
	if (!f->front_first)
		return fail(f, -EXDEV,
			    "another directory of ld.so.conf comes before %s: programs would not "
			    "meet the front",
			    f->dir);
	if (f->real_has_devel && !f->devel_first)
		return fail(f, -EXDEV, "ld.so's cache does not take " FRONT_DEVEL " from %s",
			    f->dir);
	return 0;
}

/* The one that is there brings the same plugin and the same library into each program that starts:
 * what kills the child kills those. */
static int refuse_image(struct front *f, enum front_state state, const char *why)
{
	bool old = strverscmp(gnu_get_libc_version(), "2.33") < 0; /* glibc's bug 16272 */
	int err;

	if (state == FRONT_ABSENT)
		return fail(f, -ELIBBAD, "a program could not load the front: %s; none was made%s%s", why,
			    old ? "; with this C library programs that use mlx5 directly get the "
				  "plugin by LD_PRELOAD="
				: "",
			    old ? f->plugin : "");
	err = take_files(f, true);
	if (err < 0)
		return fail(f, -ELIBBAD,
			    "a program could not load the front: %s; the one that was there cannot "
			    "be taken away, or not out of ld.so's cache: %s",
			    why, strerror(-err));
	return fail(f, -ELIBBAD,
		    "a program could not load the front: %s; took the front away that was there",
		    why);
}

/* Below another root nothing can be loaded. */
static int try_image(struct front *f, enum front_state state)
{
	char why[160];
	int err;

	if (f->root[0])
		return 0;
	err = trial_load(f->image, f->image_bytes, f->facts.symbol, f->facts.symbol_version, why,
			 sizeof(why));
	if (err == -ELIBBAD)
		return refuse_image(f, state, why);
	/* Nothing is known of the image, and so not that what is there does harm. */
	return err ? fail(f, err, "the front could not be tried: %s; all is left as it was",
			  strerror(-err))
		   : 0;
}

int front_update(struct front *f)
{
	enum front_state state = front_state(f);
	int err = try_image(f, state);

	if (err || state == FRONT_ACTIVE)
		return err;
	err = put_files(f);
	if (err) {
		fail(f, err, "%s: %s", f->dir, strerror(-err));
	} else {
		err = ldcache_rebuild(f->ldconfig, f->root);
		if (err)
			fail(f, err, "%s: %s", f->ldconfig, strerror(-err));
		else
			err = check_preferred(f);
	}
	if (err) {
		take_files(f, false);
		return err;
	}
	return 1;
}

int front_withdraw(struct front *f, bool harmful)
{
	int changed = take_files(f, harmful);

	return changed < 0 ? fail(f, changed, "cannot take %s out of ld.so's cache and away: %s",
				  f->dir, strerror(-changed))
			   : changed;
}
