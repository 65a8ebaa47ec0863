/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_VERDICTS_H
#define MV_VERDICTS_H

#include "qualified.h"

/*
 * The folder of verdicts (STATE_DIR/qualified): one file for each combination, named by mv_qualified_file_name(). Root
 * and the agent write it, everybody may read it. Programs move connections because of these files, so a file that
 * others could have written is refused.
 */
#define MV_VERDICTS_DIR	 "qualified"
#define MV_VERDICTS_PATH "/var/lib/meshverbs/" MV_VERDICTS_DIR

#define MV_VERDICTS_WHY 160

/**
 * mv_verdicts_open - open the folder
 * @make: create it (0755) if missing
 * @why: gets the text of an error
 *
 * Return: a descriptor, owned by the caller; -EPERM: its owner is neither root, nor the caller, nor the owner of the
 * parent folder, or others may write to it; another -errno of open(2), mkdir(2).
 */
int mv_verdicts_open(const char *path, int make, char why[MV_VERDICTS_WHY]);

/**
 * mv_verdicts_load - read the verdict on a combination
 * @why: gets the text of an error, one line that begins with the file's name; not with -ENOENT
 *
 * Return: 0; -ENOENT; -EPERM: wrong owner, mode or number of links; -EBADMSG: no verdict, or on another combination;
 * -errno of open(2), read(2); -ENOMEM.
 */
int mv_verdicts_load(int dir_fd, const struct mv_qualified_key *key, struct mv_qualified *ret, char why[MV_VERDICTS_WHY]);

/** mv_verdicts_read - the same by file name, which has to fit the combination in the file; -EINVAL: not such a name */
int mv_verdicts_read(int dir_fd, const char *name, struct mv_qualified *ret, char why[MV_VERDICTS_WHY]);

/** mv_verdicts_store - write a verdict's file atomically, 0644. Return: 0; -EINVAL, -ENAMETOOLONG: no valid file name; another -errno */
int mv_verdicts_store(int dir_fd, const struct mv_qualified *q);

#endif
