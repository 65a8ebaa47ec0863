// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#define VENDOR_MELLANOX 0x02c9 /* OUI, as ibv_device_attr.vendor_id */
#define IBV_MTU_4096    5

static int text_to(char *out, size_t size, const char *text)
{
	if (strlen(text) >= size)
		return -EINVAL;
	strcpy(out, text);
	return 0;
}

static int number_to(uint64_t *out, const char *text, int base, uint64_t most)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, base);
	return errno || end == text || *end || *out > most ? -EINVAL : 0;
}

static int guid_to(uint8_t out[8], const char *text)
{
	uint64_t v;

	if (strlen(text) != 16 || number_to(&v, text, 16, UINT64_MAX))
		return -EINVAL;
	for (int i = 7; i >= 0; i--, v >>= 8)
		out[i] = (uint8_t)v;
	return 0;
}

/* "ffff,8001": in hexadecimal. */
static int pkeys_to(struct sim_port *p, const char *value)
{
	for (size_t i = 0; i < SIM_MAX_PKEYS; i++) {
		char *end;
		unsigned long pkey = strtoul(value, &end, 16);

		if (end == value || pkey > UINT16_MAX)
			return -EINVAL;
		p->pkeys[i] = (uint16_t)pkey;
		if (!*end)
			return 0;
		value = end + 1;
		if (*end != ',')
			return -EINVAL;
	}
	return -EINVAL;
}

static int dev_setting(struct sim_dev *d, const char *key, const char *value)
{
	struct sim_port *p = &d->ports[0];
	uint64_t v = 0;
	int err = 0;

	if (!strcmp(key, "netdev"))
		return text_to(p->netdev, sizeof(p->netdev), value);
	if (!strcmp(key, "pci"))
		return text_to(d->pci, sizeof(d->pci), value);
	if (!strcmp(key, "fw"))
		return text_to(d->fw_ver, sizeof(d->fw_ver), value);
	if (!strcmp(key, "board"))
		return text_to(d->board_id, sizeof(d->board_id), value);
	if (!strcmp(key, "node_guid")) {
		memset(p->port_guid, 0, sizeof(p->port_guid));
		err = guid_to(d->node_guid, value);
		memcpy(p->port_guid, d->node_guid, sizeof(p->port_guid));
		return err;
	}
	if (!strcmp(key, "sys_image_guid"))
		return guid_to(d->sys_image_guid, value);
	if (!strcmp(key, "link_layer")) {
		p->link_layer =
			strcmp(value, "infiniband") ? SIM_LINK_ETHERNET : SIM_LINK_INFINIBAND;
		return 0;
	}
	if (!strcmp(key, "numa")) {
		d->numa_node = atoi(value);
		return 0;
	}
	if (!strcmp(key, "pkey_table"))
		return pkeys_to(p, value);
	if (!strcmp(key, "prefix"))
		return number_to(&p->subnet_prefix, value, 16, UINT64_MAX);
	if (number_to(&v, value, 10, UINT32_MAX))
		return -EINVAL;
	if (!strcmp(key, "minor"))
		d->minor = (uint32_t)v;
	else if (!strcmp(key, "part_id"))
		d->vendor_part_id = (uint32_t)v;
	else if (!strcmp(key, "hw_ver"))
		d->hw_ver = (uint32_t)v;
	else if (!strcmp(key, "speed"))
		p->active_speed = (uint8_t)v;
	else if (!strcmp(key, "width"))
		p->active_width = (uint8_t)v;
	else if (!strcmp(key, "gids") && v <= SIM_MAX_GIDS)
		p->n_gids = (uint16_t)v;
	else if (!strcmp(key, "pkeys"))
		p->n_pkeys = (uint16_t)v;
	else if (!strcmp(key, "lid"))
		p->lid = (uint16_t)v;
	else if (!strcmp(key, "lmc") && v <= SIM_MAX_LMC)
		p->lmc = (uint8_t)v;
	else if (!strcmp(key, "devx") && v <= 1)
		d->devx = (uint32_t)v;
	else if (!strcmp(key, "lag_ports") && (!v || v == 2))
		d->lag_ports = (uint32_t)v;
	else if (!strcmp(key, "firmware_us"))
		for (int kind = 1; kind < SIM_N_FW; kind++)
			atomic_store_explicit(&d->firmware_us[kind], (uint32_t)v, memory_order_relaxed);
	else
		return -EINVAL;
	return 0;
}

static int read_dev(struct config *c, char **save)
{
	const char *name = strtok_r(NULL, " ", save);
	struct sim_dev *d = &c->devs[c->n_devs];
	char *word;

	if (c->n_devs == SIM_MAX_DEVS || !name || text_to(d->name, sizeof(d->name), name))
		return -EINVAL;
	d->vendor_id = VENDOR_MELLANOX;
	d->n_ports = 1;
	d->ports[0].max_mtu = IBV_MTU_4096;
	d->ports[0].pkeys[0] = 0xffff;
	while ((word = strtok_r(NULL, " ", save))) {
		char *value = strchr(word, '=');

		if (!value)
			return -EINVAL;
		*value++ = '\0';
		if (dev_setting(d, word, value))
			return -EINVAL;
	}
	d->ports[0].sm_lid = d->ports[0].link_layer == SIM_LINK_INFINIBAND;
	atomic_store_explicit(&d->present, 1, memory_order_relaxed);
	c->n_devs++;
	return 0;
}

static int read_stand_in(struct config *c, char **save)
{
	struct config_stand_in *s = &c->stand_ins[c->n_stand_ins];
	const char *netdev = strtok_r(NULL, " ", save), *parent = strtok_r(NULL, " ", save);
	const char *id = strtok_r(NULL, " ", save);
	uint64_t v;

	if (c->n_stand_ins == CONFIG_MAX_STAND_INS || !id || number_to(&v, id, 10, 4094) ||
	    text_to(s->netdev, sizeof(s->netdev), netdev) ||
	    text_to(s->parent, sizeof(s->parent), parent))
		return -EINVAL;
	s->vlan_id = (uint16_t)v;
	c->n_stand_ins++;
	return 0;
}

static int read_lid(struct config *c, char **save)
{
	struct sim_lid *l = &c->lids[c->n_lids];
	const char *lid = strtok_r(NULL, " ", save), *addr = strtok_r(NULL, " ", save);
	const char *gid = strtok_r(NULL, " ", save), *lmc = strtok_r(NULL, " ", save);
	struct in_addr v4;
	uint64_t v, lmc_v;

	/* The last record stays zero: it ends the table. */
	if (c->n_lids >= SIM_MAX_LIDS - 1 || !lmc || number_to(&v, lid, 10, 0xbfff) || number_to(&lmc_v, lmc, 10, SIM_MAX_LMC) ||
	    inet_pton(AF_INET6, gid, l->gid) != 1)
		return -EINVAL;
	l->lid = (uint16_t)v;
	l->lmc = (uint8_t)lmc_v;
	if (inet_pton(AF_INET, addr, &v4) == 1) {
		l->addr[10] = l->addr[11] = 0xff;
		memcpy(l->addr + 12, &v4, sizeof(v4));
	} else if (inet_pton(AF_INET6, addr, l->addr) != 1) {
		return -EINVAL;
	}
	c->n_lids++;
	return 0;
}

static int read_line(struct config *c, char *line)
{
	char *save, *verb = strtok_r(line, " ", &save), *rest;

	if (!verb)
		return 0;
	if (!strcmp(verb, "dev"))
		return read_dev(c, &save);
	if (!strcmp(verb, "vlan"))
		return read_stand_in(c, &save);
	if (!strcmp(verb, "lid"))
		return read_lid(c, &save);
	rest = strtok_r(NULL, "", &save);
	if (!rest)
		return -EINVAL;
	if (!strcmp(verb, "host"))
		return text_to(c->host, sizeof(c->host), rest);
	if (!strcmp(verb, "state"))
		return text_to(c->state_path, sizeof(c->state_path), rest);
	if (!strcmp(verb, "socket"))
		return text_to(c->socket_path, sizeof(c->socket_path), rest);
	if (!strcmp(verb, "seed"))
		return number_to(&c->seed, rest, 10, UINT64_MAX);
	return -EINVAL;
}

int config_read(struct config *c, const char *path)
{
	FILE *f = fopen(path, "re");
	char line[1024];
	int err = 0;

	if (!f) {
		err = -errno;
		fprintf(stderr, "simhostd: %s: %s\n", path, strerror(-err));
		return err;
	}
	memset(c, 0, sizeof(*c));
	for (int n = 1; !err && fgets(line, sizeof(line), f); n++) {
		line[strcspn(line, "\n")] = '\0';
		err = read_line(c, line);
		if (err)
			fprintf(stderr, "simhostd: %s:%d: bad statement\n", path, n);
	}
	if (!err && (!c->host[0] || !c->state_path[0] || !c->socket_path[0])) {
		fprintf(stderr, "simhostd: %s: no host, state or socket\n", path);
		err = -EINVAL;
	}
	fclose(f);
	return err;
}
