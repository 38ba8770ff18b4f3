// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A fake NVIDIA gdrdrv kernel driver, for tests in a virtual machine: the character device and its
 * mmap over simulated GPU memory. Written from the ABI (abi.h), not from the driver.
 *
 * Declared as GPL, because the kernel exports some functions used here (write-combining, process ids) only to GPL
 * modules. Never shipped, and never loaded outside a test's virtual machine.
 *
 * Unlike the driver it always rejects an unknown handle with EINVAL.
 */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "abi.h"
#include "fake.h"

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A fake gdrdrv");

static unsigned long first_handle;
module_param(first_handle, ulong, 0644);
MODULE_PARM_DESC(first_handle, "the first handle of files opened from now on");

DEFINE_MUTEX(fake_lock);
LIST_HEAD(fake_openers);
static int major;

static void pin_free(struct kref *refs)
{
	kfree(container_of(refs, struct pin, refs));
}

struct pin *pin_of(struct opener *opener, u64 handle)
{
	struct pin *pin;

	list_for_each_entry(pin, &opener->pins, link)
		if (pin->handle == handle)
			return pin;
	return NULL;
}

void zap(struct opener *opener, struct pin *pin)
{
	/* Regardless of the pin's state: a part of a split mapping may remain. */
	unmap_mapping_range(&opener->mapping, pin->handle << PAGE_SHIFT, pin->mapped_size, 1);
}

void unpin(struct opener *opener, struct pin *pin)
{
	zap(opener, pin);
	list_del(&pin->link);
	kref_put(&pin->refs, pin_free);
}

/* A part of a split mapping. */
static void mapping_open(struct vm_area_struct *vma)
{
	struct pin *pin = vma->vm_private_data;

	kref_get(&pin->refs);
}

/* As in the driver, unmapping a part counts as unmapping all. */
static void mapping_close(struct vm_area_struct *vma)
{
	struct pin *pin = vma->vm_private_data;

	mutex_lock(&fake_lock);
	pin->mapping = MAPPING_NONE;
	mutex_unlock(&fake_lock);
	kref_put(&pin->refs, pin_free);
}

static const struct vm_operations_struct mapping_operations = {
	.open = mapping_open,
	.close = mapping_close,
};

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct opener *opener = file->private_data;
	struct pin *pin;
	int failed = -EINVAL;

	if (task_tgid(current) != opener->owner)
		return -EACCES;
	mutex_lock(&fake_lock);
	pin = pin_of(opener, vma->vm_pgoff);
	if (!pin || pin->address != pin->va || pin->mapping || pin->revoked ||
	    vma->vm_end - vma->vm_start > pin->mapped_size)
		goto out;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, VM_DONTCOPY);
#else
	vma->vm_flags |= VM_DONTCOPY;
#endif
	failed = memory_map(vma, pin->va);
	if (failed)
		goto out;
	pin->mapping = pin->requested ? pin->requested : memory_mapping();
	kref_get(&pin->refs);
	vma->vm_private_data = pin;
	vma->vm_ops = &mapping_operations;
out:
	mutex_unlock(&fake_lock);
	return failed;
}

static int device_open(struct inode *inode, struct file *file)
{
	struct opener *opener;

	if (iminor(inode))
		return -ENXIO;
	opener = kzalloc(sizeof(*opener), GFP_KERNEL);
	if (!opener)
		return -ENOMEM;
	INIT_LIST_HEAD(&opener->pins);
	opener->owner = get_pid(task_tgid(current));
	opener->next_handle = first_handle;
	address_space_init_once(&opener->mapping);
	opener->mapping.host = inode;
	opener->mapping.a_ops = inode->i_mapping->a_ops;
	file->f_mapping = &opener->mapping;
	file->private_data = opener;
	mutex_lock(&fake_lock);
	list_add_tail(&opener->link, &fake_openers);
	mutex_unlock(&fake_lock);
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	struct opener *opener = file->private_data;
	struct pin *pin, *next;

	mutex_lock(&fake_lock);
	list_del(&opener->link);
	list_for_each_entry_safe(pin, next, &opener->pins, link)
		unpin(opener, pin);
	mutex_unlock(&fake_lock);
	file->f_mapping = inode->i_mapping;
	put_pid(opener->owner);
	kfree(opener);
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
	.mmap = device_mmap,
};

static int __init start(void)
{
	int failed = memory_start();

	if (failed)
		return failed;
	failed = proc_start();
	if (failed)
		goto memory;
	/* No node is created: gdrdrv also leaves that to a script. */
	major = register_chrdev(0, "gdrdrv", &operations);
	if (major > 0)
		return 0;
	failed = major;
	proc_stop();
memory:
	memory_stop();
	return failed;
}

static void __exit stop(void)
{
	unregister_chrdev(major, "gdrdrv");
	proc_stop();
	memory_stop();
}

module_init(start);
module_exit(stop);
