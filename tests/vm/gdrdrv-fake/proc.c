// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Access for tests, in /proc/gdrdrv-fake:
 *   pins    one line per live pin of any process, to detect leaks
 *   revoke  takes "all", "address 0x…" or "handle N" and revokes those pins as freeing their memory would
 *   memory  the GPU memory from its first byte, read and written without a mapping
 */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "abi.h"
#include "fake.h"

static struct proc_dir_entry *directory;

static int pins_show(struct seq_file *file, void *unused)
{
	struct opener *opener;
	struct pin *pin;

	mutex_lock(&fake_lock);
	list_for_each_entry(opener, &fake_openers, link)
		list_for_each_entry(pin, &opener->pins, link)
			seq_printf(file,
				   "pid=%d handle=%llu address=0x%llx size=%llu va=0x%llx mapped_size=%llu mapping=%u persistent=%d revoked=%d\n",
				   pid_vnr(opener->owner), pin->handle, pin->address, pin->size, pin->va,
				   pin->mapped_size, pin->mapping, pin->persistent, pin->revoked);
	mutex_unlock(&fake_lock);
	return 0;
}

/* Selects pins: all, by device address, or by handle. */
struct target {
	bool all;
	bool by_handle;
	u64 number;
};

static bool meant(const struct target *target, const struct pin *pin)
{
	if (target->all)
		return true;
	if (target->by_handle)
		return pin->handle == target->number;
	return target->number >= pin->va && target->number - pin->va < pin->mapped_size;
}

/* ENOENT if no pin matches; EOPNOTSUPP if one is persistent, which freeing does not revoke. */
static int revoke(const struct target *target)
{
	int result = -ENOENT;
	struct opener *opener;
	struct pin *pin;

	mutex_lock(&fake_lock);
	list_for_each_entry(opener, &fake_openers, link) {
		list_for_each_entry(pin, &opener->pins, link) {
			if (!meant(target, pin))
				continue;
			if (pin->persistent) {
				result = result == -ENOENT ? -EOPNOTSUPP : result;
				continue;
			}
			pin->revoked = true;
			zap(opener, pin);
			result = 0;
		}
	}
	mutex_unlock(&fake_lock);
	return result;
}

static ssize_t revoke_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	struct target target = {};
	char words[64] = "";
	int failed;

	if (count >= sizeof(words))
		return -EINVAL;
	if (copy_from_user(words, from, count))
		return -EFAULT;
	if (sysfs_streq(words, "all"))
		target.all = true;
	else if (sscanf(words, "handle %llu", &target.number) == 1)
		target.by_handle = true;
	else if (sscanf(words, "address %llx", &target.number) != 1)
		return -EINVAL;
	failed = revoke(&target);
	return failed ? failed : count;
}

static ssize_t memory_file_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	return memory_read(to, count, at);
}

static ssize_t memory_file_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	return memory_write(from, count, at);
}

static loff_t memory_file_seek(struct file *file, loff_t offset, int whence)
{
	return fixed_size_llseek(file, offset, whence, memory_size());
}

static const struct proc_ops revoke_file = {
	.proc_write = revoke_write,
	.proc_lseek = noop_llseek,
};

static const struct proc_ops memory_file = {
	.proc_read = memory_file_read,
	.proc_write = memory_file_write,
	.proc_lseek = memory_file_seek,
};

int proc_start(void)
{
	directory = proc_mkdir("gdrdrv-fake", NULL);
	if (directory && proc_create_single("pins", 0444, directory, pins_show) &&
	    proc_create("revoke", 0200, directory, &revoke_file) &&
	    proc_create("memory", 0600, directory, &memory_file))
		return 0;
	proc_stop();
	return -ENOMEM;
}

void proc_stop(void)
{
	proc_remove(directory);
}
