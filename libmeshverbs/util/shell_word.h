/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_SHELL_WORD_H
#define MV_SHELL_WORD_H

/*
 * A name in a command that people are told to run. Names of netdevs, devices and hosts may hold whatever a shell acts
 * on: a netdev `a;reboot`, a host `$(reboot)`.
 *
 * A name `-x` stays an option of the command. No host has such a name (md_statement_is_name()), and only root gives names
 * to devices, netdevs and files of the agent.
 */
struct mv_shell_word {
	char text[512];
};

/**
 * mv_shell_word - quote a word for the shell, if it needs quotes
 *
 * Example: eth0, and 'a;reboot' in quotes. A word too long for the struct becomes '...'; NULL becomes ''.
 */
struct mv_shell_word mv_shell_word(const char *word);

/** MV_SHELL - the same as a string, valid until the end of the full expression */
#define MV_SHELL(word) (mv_shell_word(word).text)

#endif
