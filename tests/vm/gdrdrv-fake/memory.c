// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Simulated GPU memory: a range of device addresses backed by kernel pages or by BAR 2 of an ivshmem device. Mapped
 * write-combining, unless the module was loaded with cached=1.
 */
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <asm/set_memory.h>

#include "abi.h"
#include "fake.h"

#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110
#define IVSHMEM_BAR 2

/* Pages in a GPU page, and their order. */
#define CHUNK (GPU_PAGE / PAGE_SIZE)
#define CHUNK_ORDER (16 - PAGE_SHIFT)

static unsigned long long base = 0x7f0000000000ull;
module_param(base, ullong, 0444);
MODULE_PARM_DESC(base, "device address where the memory begins");
static unsigned long long size = 16ull << 20;
module_param(size, ullong, 0444);
MODULE_PARM_DESC(size, "bytes of memory, a multiple of 65536");
static bool bar;
module_param(bar, bool, 0444);
MODULE_PARM_DESC(bar, "the memory is BAR 2 of an ivshmem device");
static bool cached;
module_param(cached, bool, 0444);
MODULE_PARM_DESC(cached, "the memory is mapped cached, as on platforms that are coherent with their GPUs");

static struct page **pages;
static unsigned long allocated;
static struct pci_dev *device;
static void __iomem *window;

static void stop_pages(void)
{
	unsigned long page;

	if (!cached && allocated)
		set_pages_array_wb(pages, allocated);
	for (page = 0; page < allocated; page += CHUNK)
		__free_pages(pages[page], CHUNK_ORDER);
	vfree(pages);
}

static int start_pages(void)
{
	unsigned long wanted = size >> PAGE_SHIFT, within;
	int failed;

	pages = vcalloc(wanted, sizeof(*pages));
	if (!pages)
		return -ENOMEM;
	while (allocated < wanted) {
		struct page *chunk = alloc_pages(GFP_KERNEL | __GFP_ZERO, CHUNK_ORDER);

		if (!chunk) {
			stop_pages();
			return -ENOMEM;
		}
		for (within = 0; within < CHUNK; within++)
			pages[allocated++] = chunk + within;
	}
	/* Changes the kernel's mapping too: two mappings of a page with different types are undefined on x86. */
	failed = cached ? 0 : set_pages_array_wc(pages, allocated);
	if (failed)
		stop_pages();
	return failed;
}

static int start_bar(void)
{
	int failed;

	device = pci_get_device(IVSHMEM_VENDOR, IVSHMEM_DEVICE, NULL);
	if (!device) {
		pr_err("gdrdrv-fake: bar=1, but there is no ivshmem device (1af4:1110)\n");
		return -ENODEV;
	}
	failed = pci_enable_device(device);
	if (failed)
		goto put;
	failed = -EINVAL;
	if (pci_resource_len(device, IVSHMEM_BAR) < size) {
		pr_err("gdrdrv-fake: BAR 2 of %s is smaller than size=%llu\n", pci_name(device), size);
		goto disable;
	}
	failed = pci_request_region(device, IVSHMEM_BAR, "gdrdrv-fake");
	if (failed)
		goto disable;
	window = ioremap_wc(pci_resource_start(device, IVSHMEM_BAR), size);
	if (window)
		return 0;
	failed = -ENOMEM;
	pci_release_region(device, IVSHMEM_BAR);
disable:
	pci_disable_device(device);
put:
	pci_dev_put(device);
	return failed;
}

int memory_start(void)
{
	if (!size || size % GPU_PAGE || base % GPU_PAGE || base + size < base || (bar && cached)) {
		pr_err("gdrdrv-fake: base and size are multiples of 65536, and a BAR is not cached\n");
		return -EINVAL;
	}
	return bar ? start_bar() : start_pages();
}

void memory_stop(void)
{
	if (!bar) {
		stop_pages();
		return;
	}
	iounmap(window);
	pci_release_region(device, IVSHMEM_BAR);
	pci_disable_device(device);
	pci_dev_put(device);
}

bool memory_has(u64 address, u64 length)
{
	return address >= base && length <= size && address - base <= size - length;
}

u64 memory_size(void)
{
	return size;
}

u32 memory_mapping(void)
{
	return cached ? MAPPING_CACHING : MAPPING_WC;
}

int memory_map(struct vm_area_struct *vma, u64 address)
{
	u64 length = vma->vm_end - vma->vm_start, done, run;
	int failed = 0;

	if (!cached)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	if (bar)
		return io_remap_pfn_range(vma, vma->vm_start,
					  (pci_resource_start(device, IVSHMEM_BAR) + address - base) >> PAGE_SHIFT,
					  length, vma->vm_page_prot);
	/* Two chunks may not be contiguous. Pages mapped before a failure are unmapped with the vma. */
	for (done = 0; done < length && !failed; done += run) {
		run = min(length - done, GPU_PAGE);
		failed = remap_pfn_range(vma, vma->vm_start + done,
					 page_to_pfn(pages[(address - base + done) >> PAGE_SHIFT]), run,
					 vma->vm_page_prot);
	}
	return failed;
}

/* Copies at most a page between user and device memory, through a buffer, because a BAR is I/O memory. */
static ssize_t copy(char __user *to, const char __user *from, size_t count, loff_t *at)
{
	size_t within = *at & ~PAGE_MASK, length = min_t(u64, min(count, PAGE_SIZE - within), size - *at);
	ssize_t result = -EFAULT;
	void *buffer = kmalloc(PAGE_SIZE, GFP_KERNEL), *page;

	if (!buffer)
		return -ENOMEM;
	if (from && copy_from_user(buffer, from, length))
		goto out;
	if (bar && from) {
		memcpy_toio(window + *at, buffer, length);
	} else if (bar) {
		memcpy_fromio(buffer, window + *at, length);
	} else {
		page = page_address(pages[*at >> PAGE_SHIFT]) + within;
		memcpy(from ? page : buffer, from ? buffer : page, length);
	}
	/* A fence makes write-combining stores visible to other mappings. */
	wmb();
	if (to && copy_to_user(to, buffer, length))
		goto out;
	*at += length;
	result = length;
out:
	kfree(buffer);
	return result;
}

ssize_t memory_read(char __user *to, size_t count, loff_t *at)
{
	return *at >= size || !count ? 0 : copy(to, NULL, count, at);
}

ssize_t memory_write(const char __user *from, size_t count, loff_t *at)
{
	if (*at >= size)
		return -ENOSPC;
	return count ? copy(NULL, from, count, at) : 0;
}
