/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure.h"

static const struct {
	const char *name, *text;
} verdicts[MD_OPEN_N_VERDICTS] = {
	[MD_OPEN_OK] = {"ok", "taken"},
	[MD_OPEN_LEARNED] = {"learned", "a challenge, answered"},
	[MD_OPEN_PROVEN] = {"proven", "an answer to a challenge"},
	[MD_OPEN_UNPROVEN] = {"unproven",
			      "sender has not shown yet that it receives at its address"},
	[MD_OPEN_NOT_OURS] = {"not_ours", "not a datagram of an agent"},
	[MD_OPEN_VERSION] = {"version", "sender speaks another version"},
	[MD_OPEN_OWN] = {"own", "our own, come back"},
	[MD_OPEN_SAME_ID] = {"same_id", "another agent has the host id of this one"},
	[MD_OPEN_OFF_LINK] = {"off_link", "a beacon that may come from beyond the link"},
	[MD_OPEN_PLAIN] = {"plain", "sender has no fleet key, this host has"},
	[MD_OPEN_SEALED] = {"sealed", "sender has a fleet key, this host has not"},
	[MD_OPEN_OTHER_KEY] = {"other_key", "sender has another fleet key"},
	[MD_OPEN_FORGED] = {"forged", "authentication failed"},
	[MD_OPEN_REPLAY] = {"replay", "seen before"},
	[MD_OPEN_TOO_OLD] = {"too_old", "older than what is remembered of its sender"},
	[MD_OPEN_OLD_START] = {"old_start", "from before its sender's last start"},
	[MD_OPEN_NO_ROOM] = {"no_room", "too many senders"},
	[MD_OPEN_THROTTLED] = {"throttled", "too many forgeries lately"},
	[MD_OPEN_PORT] = {"port", "not from the UDP port of an agent, so perhaps of some user's program"},
	[MD_OPEN_UNSEALED] = {"unsealed", "in the name of a host that seals what it sends, and not sealed"},
	[MD_OPEN_STRANGER] = {"stranger", "sealed by a host whose public key is not known, or is another one"},
};

const char *md_verdict_name(enum md_verdict verdict)
{
	return (unsigned int)verdict < MD_OPEN_N_VERDICTS ? verdicts[verdict].name : "?";
}

const char *md_verdict_text(enum md_verdict verdict)
{
	return (unsigned int)verdict < MD_OPEN_N_VERDICTS ? verdicts[verdict].text : "?";
}
