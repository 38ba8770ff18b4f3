/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Interfaces between device.c (openers, pins, mappings), requests.c (ioctls), memory.c (GPU memory) and
 * proc.c (access for tests). */
#ifndef GDRDRV_DOUBLE_H
#define GDRDRV_DOUBLE_H

#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pid.h>

/* A process that opened the node. */
struct opener {
	struct list_head link;
	struct list_head pins;
	struct pid *owner;
	u64 next_handle;
	/* Per opener, because handles of two openers are the same file offsets. */
	struct address_space mapping;
};

/* A pinned range. A mapping can outlive its pin, so each holds a reference. */
struct pin {
	struct list_head link;
	struct kref refs;
	u64 handle;
	u64 address;
	u64 size;
	u64 va;
	u64 mapped_size;
	u32 requested;
	u32 mapping;
	bool persistent;
	bool revoked;
};

/* Protects all openers and pins; taken under mmap_lock, so user memory must not be accessed while it is held. */
extern struct mutex fake_lock;
extern struct list_head fake_openers;

/* Called with fake_lock held. After a zap the next access to a mapping raises SIGBUS. */
struct pin *pin_of(struct opener *opener, u64 handle);
void unpin(struct opener *opener, struct pin *pin);
void zap(struct opener *opener, struct pin *pin);

long device_ioctl(struct file *file, unsigned int number, unsigned long argument);

int memory_start(void);
void memory_stop(void);
/* True if [address, address + size) is simulated GPU memory. */
bool memory_has(u64 address, u64 size);
u32 memory_mapping(void);
int memory_map(struct vm_area_struct *vma, u64 address);
ssize_t memory_read(char __user *to, size_t count, loff_t *at);
ssize_t memory_write(const char __user *from, size_t count, loff_t *at);
u64 memory_size(void);

int proc_start(void);
void proc_stop(void);

#endif
