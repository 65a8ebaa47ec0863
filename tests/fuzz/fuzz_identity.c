/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The file of a host's identity, any bytes: one is read as it would be written, or there is a reason which does not quote the
 * file. */
#include "fuzz.h"

#include <string.h>

#include "identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size ? size : 1), why[100] = "", file[MD_IDENTITY_FILE_SIZE];
	struct md_identity identity, again;
	int rc;

	FUZZ_CHECK(text);
	memset(&identity, 0xee, sizeof(identity));
	memcpy(text, data, size);
	rc = md_identity_parse(text, size, "", &identity, why, sizeof(why));
	free(text);
	if (rc) {
		FUZZ_CHECK(*why && identity.secret[0] == 0xee && identity.box_secret[31] == 0xee);
		return 0;
	}
	FUZZ_CHECK(!*why);
	md_identity_format(&identity, "machine", file);
	FUZZ_CHECK(!md_identity_parse(file, strlen(file), "machine", &again, why, sizeof(why)));
	FUZZ_CHECK(!memcmp(&identity, &again, sizeof(identity)));
	FUZZ_CHECK(md_identity_parse(file, strlen(file), "another", &again, why, sizeof(why)));
	return 0;
}
