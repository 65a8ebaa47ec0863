/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_VERDICTS_H
#define MV_VERDICTS_H

#include "qualified.h"

/*
 * The folder of verdicts (STATE_DIR/qualified): a file for each combination, mv_qualified_file_name(). Root and the agent write it,
 * everybody may read it. Programs leave a NIC for another on the word of these files, so one that somebody else could have
 * written is not believed.
 */
#define MV_VERDICTS_DIR	 "qualified"
#define MV_VERDICTS_PATH "/var/lib/meshverbs/" MV_VERDICTS_DIR

#define MV_VERDICTS_WHY 160

/**
 * mv_verdicts_open - the folder
 * @make: make it (0755) if need be
 * @why: on failure what is wrong with it
 *
 * Return: a descriptor; -EPERM: neither root nor the caller nor the owner of the folder above owns it, or others may write in it; -errno of open(2), mkdir(2).
 */
int mv_verdicts_open(const char *path, int make, char why[MV_VERDICTS_WHY]);

/**
 * mv_verdicts_load - the verdict on a combination
 * @why: unless 0 or -ENOENT is returned: what is wrong with the file, one line that begins with its name
 *
 * Return: 0; -ENOENT; -EPERM: owner, mode or links of the file are not right; -EBADMSG: no verdict, or of another combination than the file's
 * name says; -errno of open(2), read(2); -ENOMEM.
 */
int mv_verdicts_load(int dir_fd, const struct mv_qualified_key *key, struct mv_qualified *ret, char why[MV_VERDICTS_WHY]);

/** mv_verdicts_read - the same with a file's name instead of the combination, which it has to fit; -EINVAL: no such name */
int mv_verdicts_read(int dir_fd, const char *name, struct mv_qualified *ret, char why[MV_VERDICTS_WHY]);

/** mv_verdicts_store - replaces the file as a whole, 0644; 0; -EINVAL, -ENAMETOOLONG: no file can be named after it; -errno */
int mv_verdicts_store(int dir_fd, const struct mv_qualified *q);

#endif
