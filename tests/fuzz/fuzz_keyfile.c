/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* md_keys_parse() on any text: one or two different keys or a reason, and the file is not quoted in
 * it. */
#include "fuzz.h"

#include <string.h>

#include "secure_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size ? size : 1), why[100] = "";
	struct md_keys keys;
	int rc;

	FUZZ_CHECK(text);
	memset(&keys, 0xee, sizeof(keys));
	memcpy(text, data, size);
	rc = md_keys_parse(text, size, &keys, why, sizeof(why));
	if (rc) {
		FUZZ_CHECK(keys.keys[0][0] == 0xee && keys.keys[1][MD_KEY_BYTES - 1] == 0xee);
		FUZZ_CHECK(*why);
	} else {
		FUZZ_CHECK(!*why);
		FUZZ_CHECK(keys.n == 1 || keys.n == 2);
		FUZZ_CHECK(keys.n == 1 || memcmp(keys.keys[0], keys.keys[1], MD_KEY_BYTES));
	}
	md_keys_wipe(&keys);
	free(text);
	return 0;
}
