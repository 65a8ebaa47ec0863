/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_TEXT_H
#define TOOL_TEXT_H

/**
 * text_clean - make a string fit for terminals and JSON parsers, in place
 * @text: NULL is allowed
 *
 * Control characters, including newlines, and invalid UTF-8 become '?'.
 *
 * Return: @text.
 */
char *text_clean(char *text);

#endif
