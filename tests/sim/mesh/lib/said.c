// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "said.h"

struct said said;

bool __wrap_mesh_directory_agent(void);
void __wrap_mesh_directory_decide(const struct mv_path_request *request, struct mesh_path_decision *ret);
void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret);
void __wrap_mesh_directory_verdict(const struct mv_path_request *request, struct mesh_path_decision *ret);
int __wrap_mesh_thread_wake(bool urgent);

bool __wrap_mesh_directory_agent(void)
{
	return said.agent;
}

void __wrap_mesh_directory_decide(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	(void)request;
	*ret = said.decision;
}

void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	(void)request;
	*ret = said.decision;
}

void __wrap_mesh_directory_verdict(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	(void)request;
	*ret = said.decision;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	said.woken = true;
	return said.wake;
}
