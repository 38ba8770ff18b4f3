// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A fake gdrdrv for tests in a virtual machine, with the real module's name, which udev's rule matches: it has a major
 * number in /proc/devices and, like the driver, no device. It implements no ioctl; gdrdrv-fake implements the ABI.
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
