// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "simhost.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "state.h"

static struct sim_state *host;

void simhost_open(void)
{
	const char *path = getenv(SIM_STATE_ENV);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (host)
		return;
	if (fd < 0)
		fail_msg("%s: run this in a host of the simulator", SIM_STATE_ENV);
	host = mmap(NULL, sizeof(*host), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(host, MAP_FAILED);
	assert_int_equal(host->version, SIM_STATE_VERSION);
}

void simhost_mute(uint32_t qpn)
{
	struct sim_fault *rule = host->faults;

	while (rule < host->faults + SIM_MAX_FAULTS && atomic_load(&rule->action))
		rule++;
	assert_true(rule < host->faults + SIM_MAX_FAULTS);
	rule->dir = SIM_FAULT_TX | SIM_FAULT_RX;
	rule->class_mask = SIM_CLASS_ANY;
	rule->dev = 0xff;
	rule->port = 0;
	rule->qpn = qpn;
	rule->skip = rule->every = rule->ppm = rule->limit = rule->delay_us = 0;
	atomic_store(&rule->seen, 0);
	atomic_store(&rule->hits, 0);
	atomic_store(&rule->action, SIM_FAULT_DROP);
	atomic_fetch_add(&host->faults_generation, 1);
}

void simhost_unmute(void)
{
	int i;

	for (i = 0; i < SIM_MAX_FAULTS; i++)
		atomic_store(&host->faults[i].action, SIM_FAULT_OFF);
	atomic_fetch_add(&host->faults_generation, 1);
}

void simhost_late(uint32_t us)
{
	uint32_t i;

	for (i = 0; i < host->n_devs; i++)
		atomic_store(&host->devs[i].late_us, us);
}

void simhost_lacks_ece(const char *device, uint32_t options)
{
	uint32_t i;

	for (i = 0; i < host->n_devs; i++)
		if (!strcmp(host->devs[i].name, device))
			atomic_store(&host->devs[i].no_ece, options);
}

void simhost_quirks(const char *device, uint32_t quirks)
{
	uint32_t i;

	for (i = 0; i < host->n_devs; i++)
		if (!strcmp(host->devs[i].name, device))
			atomic_store(&host->devs[i].quirks, quirks);
}
