// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "said.h"

struct said said;

bool __wrap_mesh_view_agent(void);
void __wrap_mesh_view_decide(const struct mv_path_request *request, struct mesh_view *ret);
void __wrap_mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret);
void __wrap_mesh_view_verdict(const struct mv_path_request *request, struct mesh_view *ret);
int __wrap_mesh_thread_wake(bool urgent);

bool __wrap_mesh_view_agent(void)
{
	return said.agent;
}

void __wrap_mesh_view_decide(const struct mv_path_request *request, struct mesh_view *ret)
{
	(void)request;
	*ret = said.view;
}

void __wrap_mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret)
{
	(void)request;
	*ret = said.view;
}

void __wrap_mesh_view_verdict(const struct mv_path_request *request, struct mesh_view *ret)
{
	(void)request;
	*ret = said.view;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	said.woken = true;
	return said.wake;
}
