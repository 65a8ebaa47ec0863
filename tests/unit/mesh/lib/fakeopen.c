// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <dlfcn.h>
#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "fakeverbs.h"

static void get(void *handle, const char *name, void *ret)
{
	void *p = dlsym(handle, name);

	if (!p)
		fail_msg("%s", dlerror());
	memcpy(ret, &p, sizeof(p));
}

struct fakeverbs fake_open(const char *file)
{
	struct fakeverbs f = {0};

	f.handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!f.handle)
		fail_msg("%s", dlerror());
	get(f.handle, "fake_configure", &f.configure);
	get(f.handle, "fake_state", &f.state);
	get(f.handle, "fake_register_lower", &f.register_lower);
	get(f.handle, "fake_open_device", &f.open_device);
	get(f.handle, "fake_open_direct", &f.open_direct);
	get(f.handle, "fake_import_device", &f.import_device);
	get(f.handle, "ibv_close_device", &f.close_device);
	get(f.handle, "fake_modify_qp", &f.modify_qp);
	get(f.handle, "fake_create_ah", &f.create_ah);
	get(f.handle, "fake_async_event", &f.async_event);
	get(f.handle, "ibv_query_port", &f.query_port);
	memcpy(&f.anchor, &f.configure, sizeof(f.anchor));
	return f;
}

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:private_part_of_refused\n";
}
