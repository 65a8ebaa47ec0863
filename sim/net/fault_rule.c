// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_rule.h"

struct word {
	const char *name;
	uint32_t value;
};

static const struct word actions[] = {
	{"drop", SIM_FAULT_DROP},
	{"delay", SIM_FAULT_DELAY},
	{"corrupt", SIM_FAULT_CORRUPT},
	{"duplicate", SIM_FAULT_DUPLICATE},
	{NULL, 0},
};

static const struct word dirs[] = {{"tx", SIM_FAULT_TX},
				   {"rx", SIM_FAULT_RX},
				   {"both", SIM_FAULT_TX | SIM_FAULT_RX},
				   {NULL, 0}};

static const struct word classes[] = {
	{"request", SIM_CLASS_REQUEST},
	{"ack", SIM_CLASS_ACK},
	{"nak", SIM_CLASS_NAK},
	{"response", SIM_CLASS_DATA_RESPONSE},
	{"ud", SIM_CLASS_UD},
	{"any", SIM_CLASS_ANY},
	{NULL, 0},
};

static uint32_t look_up(const struct word *words, const char *name)
{
	for (; words->name; words++)
		if (!strcmp(words->name, name))
			return words->value;
	return 0;
}

static const char *name_of(const struct word *words, uint32_t value)
{
	for (; words->name; words++)
		if (words->value == value)
			return words->name;
	return "?";
}

static int classes_of(char *list)
{
	uint32_t all = 0;
	char *save;

	for (char *w = strtok_r(list, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		uint32_t one = look_up(classes, w);

		if (!one)
			return 0;
		all |= one;
	}
	return (int)all;
}

static int number(uint32_t *out, const char *text, uint32_t least, uint32_t most)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno || end == text || *end || text[0] == '-' || v < least || v > most)
		return -EINVAL;
	*out = (uint32_t)v;
	return 0;
}

static int setting(struct sim_fault *f, const char *key, char *value)
{
	uint32_t v = 0;
	int err;

	if (!strcmp(key, "dir")) {
		f->dir = (uint8_t)look_up(dirs, value);
		return f->dir ? 0 : -EINVAL;
	}
	if (!strcmp(key, "class")) {
		f->class_mask = (uint8_t)classes_of(value);
		return f->class_mask ? 0 : -EINVAL;
	}
	if (!strcmp(key, "qpn"))
		return number(&f->qpn, value, 1, 0xffffff);
	if (!strcmp(key, "nth")) {
		err = number(&v, value, 1, UINT32_MAX);
		f->skip = v - 1;
		f->limit = 1;
		return err;
	}
	if (!strcmp(key, "skip"))
		return number(&f->skip, value, 0, UINT32_MAX);
	if (!strcmp(key, "every"))
		return number(&f->every, value, 1, UINT32_MAX);
	if (!strcmp(key, "ppm"))
		return number(&f->ppm, value, 1, 1000000);
	if (!strcmp(key, "limit"))
		return number(&f->limit, value, 1, UINT32_MAX);
	if (!strcmp(key, "us"))
		return number(&f->delay_us, value, 1, 60000000);
	return -ENOENT;
}

int fault_parse(struct sim_fault *f, char *text, char *why, size_t why_size)
{
	char *save, *word = strtok_r(text, " ", &save);
	uint32_t action = word ? look_up(actions, word) : 0;

	memset(f, 0, sizeof(*f));
	if (!action) {
		snprintf(why, why_size, "unknown action '%s'; see: sim fault --help",
			 word ? word : "");
		return -EINVAL;
	}
	f->dir = SIM_FAULT_TX;
	f->class_mask = SIM_CLASS_ANY;
	f->dev = 0xff;
	while ((word = strtok_r(NULL, " ", &save))) {
		char *value = strchr(word, '=');
		int err = -ENOENT;

		if (value) {
			*value++ = '\0';
			err = setting(f, word, value);
		}
		if (err == -ENOENT)
			snprintf(why, why_size, "unknown setting '%s'; see: sim fault --help",
				 word);
		else if (err)
			snprintf(why, why_size, "bad value of '%s'; see: sim fault --help", word);
		if (err)
			return -EINVAL;
	}
	if ((action == SIM_FAULT_DELAY) != (f->delay_us != 0)) {
		snprintf(why, why_size, "us=N goes with delay, and delay needs it");
		return -EINVAL;
	}
	atomic_store_explicit(&f->action, action, memory_order_relaxed);
	return 0;
}

static void format_classes(char *out, size_t size, uint8_t mask)
{
	size_t used = 0;

	if (mask == SIM_CLASS_ANY) {
		snprintf(out, size, "any");
		return;
	}
	out[0] = '\0';
	for (const struct word *w = classes; w->name && used < size; w++)
		if (w->value != SIM_CLASS_ANY && (mask & w->value))
			used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "," : "",
						 w->name);
}

int fault_format(char *out, size_t size, struct sim_fault *f)
{
	char list[64], qpn[32] = "", us[32] = "";

	format_classes(list, sizeof(list), f->class_mask);
	if (f->qpn)
		snprintf(qpn, sizeof(qpn), " qpn=%" PRIu32, f->qpn);
	if (f->delay_us)
		snprintf(us, sizeof(us), " us=%" PRIu32, f->delay_us);
	return snprintf(out, size,
			"%s%s dir=%s class=%s%s skip=%" PRIu32 " every=%" PRIu32 " ppm=%" PRIu32
			" limit=%" PRIu32 " seen=%" PRIu32 " hits=%" PRIu32,
			name_of(actions, atomic_load_explicit(&f->action, memory_order_relaxed)),
			us, name_of(dirs, f->dir), list, qpn, f->skip, f->every ? f->every : 1,
			f->ppm ? f->ppm : 1000000, f->limit,
			atomic_load_explicit(&f->seen, memory_order_relaxed),
			atomic_load_explicit(&f->hits, memory_order_relaxed));
}
