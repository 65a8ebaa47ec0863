/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Names and texts of mv_decide()'s results. */
#include "decide.h"

const char *mv_verdict_name(enum mv_verdict verdict)
{
	switch (verdict) {
	case MV_VERDICT_OK:
		return "ok";
	case MV_VERDICT_EMPTY:
		return "empty";
	case MV_VERDICT_NO_NETDEV:
		return "no-netdev";
	case MV_VERDICT_FAMILY:
		return "family";
	case MV_VERDICT_SUBNET:
		return "subnet";
	case MV_VERDICT_UNROUTABLE:
		return "unroutable";
	case MV_VERDICT_DOWN:
		return "down";
	}
	return "unknown";
}

const char *mv_action_name(enum mv_action action)
{
	switch (action) {
	case MV_KEEP:
		return "keep";
	case MV_REPAIR:
		return "repair";
	case MV_REPLACE:
		return "replace";
	case MV_PASS:
		return "pass";
	}
	return "unknown";
}

const char *mv_reason_name(enum mv_reason reason)
{
	switch (reason) {
	case MV_REASON_FITS:
		return "fits";
	case MV_REASON_INFINIBAND:
		return "infiniband";
	case MV_REASON_NO_DESTINATION:
		return "no-destination";
	case MV_REASON_SELF:
		return "self";
	case MV_REASON_PORT_DOWN:
		return "port-down";
	case MV_REASON_MOVED:
		return "moved";
	case MV_REASON_OTHER_NETDEV:
		return "other-netdev";
	case MV_REASON_BETTER_ENTRY:
		return "better-entry";
	case MV_REASON_NEEDS_PEER:
		return "needs-peer";
	case MV_REASON_NO_PATH:
		return "no-path";
	}
	return "unknown";
}

const char *mv_reason_text(enum mv_reason reason)
{
	switch (reason) {
	case MV_REASON_FITS:
		return "the entry reaches the destination";
	case MV_REASON_INFINIBAND:
		return "the port is not Ethernet, its paths are the subnet manager's business";
	case MV_REASON_NO_DESTINATION:
		return "no destination GID, or a device or port without a known GID table";
	case MV_REASON_SELF:
		return "the destination is an address of this host";
	case MV_REASON_PORT_DOWN:
		return "the entry is right, but its netdev is down or has no carrier";
	case MV_REASON_MOVED:
		return "the address seen under this index is at another index now";
	case MV_REASON_OTHER_NETDEV:
		return "the netdev of this entry does not reach the destination, another one with the same address does";
	case MV_REASON_BETTER_ENTRY:
		return "the entry cannot reach the destination, another one of this port can";
	case MV_REASON_NEEDS_PEER:
		return "another entry would reach the destination, but the peer was given this "
		       "address";
	case MV_REASON_NO_PATH:
		return "no entry of this port reaches the destination";
	}
	return "unknown";
}
