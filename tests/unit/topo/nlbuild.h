/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TEST_NLBUILD_H
#define MV_TEST_NLBUILD_H

#include <stddef.h>
#include <stdint.h>
#include <linux/netlink.h>

/* Netlink messages by hand, also wrong ones. */
struct nlbuild {
	uint8_t data[4096];
	size_t len;
	size_t message; /* where the one under construction begins */
};

/* Begins a message; the one before ends. @header: the family's fixed part */
void nl_message(struct nlbuild *nl, uint16_t type, const void *header, size_t len);
void nl_attr(struct nlbuild *nl, uint16_t type, const void *value, size_t len);
void nl_attr_u32(struct nlbuild *nl, uint16_t type, uint32_t value);
void nl_attr_text(struct nlbuild *nl, uint16_t type, const char *value); /* with its NUL */
void nl_attr_addr(struct nlbuild *nl, uint16_t type, const char *address); /* 4 or 16 bytes */

/* Nested attributes: between begin and end all go inside. */
size_t nl_nest_begin(struct nlbuild *nl, uint16_t type);
void nl_nest_end(struct nlbuild *nl, size_t nest);

/* The message under construction. */
struct nlmsghdr *nl_header(struct nlbuild *nl);

/* Whole messages. */
void nl_link(struct nlbuild *nl, int ifindex, const char *name, unsigned int flags);
void nl_addr(struct nlbuild *nl, uint32_t ifindex, const char *address, uint8_t prefix_len);
void nl_done(struct nlbuild *nl);
void nl_error(struct nlbuild *nl, int32_t err); /* negative, or 0 for an acknowledgement */

#endif
