/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions: registration, and the check that every access of the HCA passes. */
#include "hca.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Since Linux 5.14; the numbers are from the kernel's <asm-generic/mman-common.h>. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define ACCESS_SUPPORTED                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_MW_BIND |             \
	 IBV_ACCESS_HUGETLB)

/* Fault all pages in, as pinning does, and learn whether they are there and, for @write, writable.
 */
static int pin(uint64_t start, uint64_t len, bool write)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t from = start & ~(page - 1), to = (start + len + page - 1) & ~(page - 1);

	if (!len)
		return 0;
	if (to <= from)
		return -EFAULT;
	if (!madvise((void *)(uintptr_t)from, to - from,
		     write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	/* EINVAL: an older kernel or a mapping without the right to write; then at least it must be
	 * mapped. */
	if (errno == EINVAL && !write && !msync((void *)(uintptr_t)from, to - from, MS_ASYNC))
		return 0;
	return -EFAULT;
}

static int check_access(uint32_t access)
{
	if (access & ~(uint32_t)ACCESS_SUPPORTED)
		return -EOPNOTSUPP;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

static int key_alloc(struct hca *h, struct mr *mr)
{
	uint32_t i, n;

	for (i = 0; i < h->regions.n; i++) {
		uint32_t k = (h->regions.next + i) % h->regions.n;

		if (!h->regions.by_key[k]) {
			i = k;
			goto found;
		}
	}
	n = h->regions.n ? h->regions.n * 2 : 256;
	h->regions.by_key = reallocarray(h->regions.by_key, n, sizeof(*h->regions.by_key));
	if (!h->regions.by_key) {
		h->regions.n = 0;
		return -ENOMEM;
	}
	i = h->regions.n;
	for (uint32_t k = i; k < n; k++)
		h->regions.by_key[k] = NULL;
	h->regions.n = n;
found:
	h->regions.by_key[i] = mr;
	h->regions.next = i + 1;
	mr->key = (h->regions.base + i) << 8 | h->regions.variant++;
	return 0;
}

/** mr_find() - the region with that key, or NULL. */
struct mr *mr_find(struct hca *h, uint32_t key)
{
	uint32_t i = (key >> 8) - h->regions.base;
	struct mr *mr = i < h->regions.n ? h->regions.by_key[i] : NULL;

	return mr && mr->key == key ? mr : NULL;
}

/* Memory at @start that is there as long as the region is. */
static int region_new(struct pd *pd, uint64_t start, uint64_t len, uint64_t iova, uint32_t access, struct mr **ret)
{
	struct hca *h = pd->obj.uc->hca;
	struct mr *mr;
	int err;

	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	err = key_alloc(h, mr);
	if (!err)
		err = obj_add(pd->obj.uc, &mr->obj, OBJ_MR);
	if (err) {
		if (mr->key)
			h->regions.by_key[(mr->key >> 8) - h->regions.base] = NULL;
		free(mr);
		return err;
	}
	mr->pd = pd;
	pd->obj.users++;
	mr->iova = iova;
	mr->addr = (uint8_t *)(uintptr_t)start;
	mr->len = len;
	mr->access = access;
	*ret = mr;
	return 0;
}

/**
 * mr_create() - register @len bytes at @start, which work requests will call @iova.
 *
 * Return: 0; -EFAULT if the memory is not there or not writable as @access asks; -EINVAL or
 * -EOPNOTSUPP for a combination of access flags that the kernel refuses or this HCA does not have;
 * -ENOMEM.
 */
int mr_create(struct pd *pd, uint64_t start, uint64_t len, uint64_t iova, uint32_t access,
	      struct mr **ret)
{
	int err;

	access &= ~(uint32_t)IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_RELAXED_ORDERING;
	err = check_access(access);
	if (!err && (iova - start) % (uint64_t)sysconf(_SC_PAGESIZE))
		err = -EINVAL;
	if (!err)
		err = pin(start, len, access & IBV_ACCESS_LOCAL_WRITE);
	return err ? err : region_new(pd, start, len, iova, access, ret);
}

/**
 * mr_create_dmabuf() - register @len bytes of the file behind @fd, from @offset on. @offset and @iova agree modulo the
 * page. The program may close the descriptor afterwards.
 *
 * Return: 0; -EBADF: @fd is not open; -EINVAL: @len is 0, or the file is shorter; -EOPNOTSUPP: the file cannot be mapped,
 * and a kernel without peer-to-peer access to the memory says the same; otherwise as mr_create().
 */
int mr_create_dmabuf(struct pd *pd, int fd, uint64_t offset, uint64_t len, uint64_t iova, uint32_t access,
		     struct mr **ret)
{
	bool write = access & IBV_ACCESS_LOCAL_WRITE;
	uint64_t before = offset % (uint64_t)sysconf(_SC_PAGESIZE), end;
	struct stat st;
	void *p;
	int err;

	err = check_access(access);
	if (err)
		return err;
	if (__builtin_add_overflow(offset, len, &end))
		return -EINVAL;
	if (fstat(fd, &st))
		return -EBADF;
	if (!len || end > (uint64_t)st.st_size)
		return -EINVAL;
	p = mmap(NULL, before + len, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd, (off_t)(offset - before));
	if (p == MAP_FAILED)
		return errno == ENOMEM ? -ENOMEM : -EOPNOTSUPP;
	/* A child of fork() does not keep a device's references. */
	madvise(p, before + len, MADV_DONTFORK);
	/* EINVAL: an older kernel, or pages without a struct page, as many exporters have. */
	if (madvise(p, before + len, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) && errno != EINVAL)
		err = -EOPNOTSUPP;
	if (!err)
		err = region_new(pd, (uintptr_t)p + before, len, iova, access, ret);
	if (err) {
		munmap(p, before + len);
		return err;
	}
	(*ret)->mapping = p;
	(*ret)->mapping_len = before + len;
	return 0;
}

/**
 * mr_change() - re-register.
 * @flags: IBV_REREG_MR_CHANGE_*; only what they name is taken from the other arguments. The key
 * stays.
 */
int mr_change(struct mr *mr, uint32_t flags, struct pd *pd, uint64_t start, uint64_t len,
	      uint64_t iova, uint32_t access)
{
	uint32_t new_access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : mr->access;
	int err;

	err = check_access(new_access);
	if (!err && flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		err = pin(start, len, new_access & IBV_ACCESS_LOCAL_WRITE);
	else if (!err)
		err = pin((uintptr_t)mr->addr, mr->len, new_access & IBV_ACCESS_LOCAL_WRITE);
	if (err)
		return err;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = (uint8_t *)(uintptr_t)start;
		mr->len = len;
		mr->iova = iova;
	}
	mr->access = new_access;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		mr->pd->obj.users--;
		mr->pd = pd;
		pd->obj.users++;
	}
	return 0;
}

void mr_destroy(struct mr *mr)
{
	struct hca *h = mr->obj.uc->hca;

	late_forget(h, mr->addr, mr->len);
	h->regions.by_key[(mr->key >> 8) - h->regions.base] = NULL;
	mr->pd->obj.users--;
	obj_del(&mr->obj);
	if (mr->mapping)
		munmap(mr->mapping, mr->mapping_len);
	free(mr);
}

/** mr_dmabuf() - the region of a dma-buf that the byte is in, or NULL. Looks at all regions: for quirks. */
const struct mr *mr_dmabuf(const struct hca *h, const uint8_t *at)
{
	for (uint32_t i = 0; i < h->regions.n; i++) {
		const struct mr *mr = h->regions.by_key[i];

		if (mr && mr->mapping && at >= mr->addr && at < mr->addr + mr->len)
			return mr;
	}
	return NULL;
}

static uint8_t *translate(struct mr *mr, uint64_t addr, uint64_t len)
{
	if (addr < mr->iova || len > mr->len || addr - mr->iova > mr->len - len)
		return NULL;
	return mr->addr + (addr - mr->iova);
}

/* Read as zeros, and nothing that is written there stays. Return: NULL: larger than programs of tests need */
static uint8_t *null_region(struct hca *h, uint64_t len, bool write)
{
	uint8_t **region = &h->regions.null_region[write];

	if (len > NULL_MR_BYTES)
		return NULL;
	if (!*region)
		*region = mmap(NULL, NULL_MR_BYTES, write ? PROT_READ | PROT_WRITE : PROT_READ,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (*region == MAP_FAILED)
		*region = NULL;
	return *region;
}

/** mr_local() - where @len bytes at @addr under a local key are, or NULL if the key does not allow
 * it. */
uint8_t *mr_local(struct hca *h, struct pd *pd, uint32_t lkey, uint64_t addr, uint64_t len,
		  bool write)
{
	struct mr *mr = mr_find(h, lkey);

	if (lkey == NULL_MR_KEY)
		return null_region(h, len, write);
	if (!mr || mr->pd != pd || (write && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return NULL;
	return translate(mr, addr, len);
}

/**
 * mr_remote() - the same for a remote key that a peer of @qp sent.
 * @access: the one IBV_ACCESS_REMOTE_* that is needed, of the region and of the queue pair.
 */
uint8_t *mr_remote(struct qp *qp, uint32_t rkey, uint64_t addr, uint64_t len, uint32_t access)
{
	struct mr *mr = mr_find(qp->obj.uc->hca, rkey);

	if (!mr || mr->pd != qp->pd || !(mr->access & access) || !(qp->attr.access & access))
		return NULL;
	return translate(mr, addr, len);
}
