// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A fake gdrdrv for tests in a virtual machine, under the module's own name, which udev's rule goes by: a major
 * number in /proc/devices and, as with the driver, no device of its own. What opens it is answered nothing; the fake
 * that speaks the driver's ABI is gdrdrv-fake.
 */
#include <linux/fs.h>
#include <linux/module.h>

MODULE_LICENSE("GPL");
MODULE_VERSION("2.5");
MODULE_DESCRIPTION("A fake gdrdrv's number");

static const struct file_operations operations = { .owner = THIS_MODULE };
static int major;

static int __init start(void)
{
	major = register_chrdev(0, "gdrdrv", &operations);
	return major < 0 ? major : 0;
}

static void __exit stop(void)
{
	unregister_chrdev(major, "gdrdrv");
}

module_init(start);
module_exit(stop);
