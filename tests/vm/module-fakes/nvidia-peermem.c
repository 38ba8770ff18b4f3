// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A fake nvidia-peermem for tests in a virtual machine: a client of the kernel's real RDMA core, and a user of the fake
 * driver. Debian's RDMA core has no peer memory, so it is only registered as a client of every device.
 */
#include <linux/module.h>
#include <rdma/ib_verbs.h>

MODULE_LICENSE("GPL");
MODULE_VERSION("580.159.04");
MODULE_DESCRIPTION("A fake of nvidia-peermem");

int nvidia_fake(void);

static int add(struct ib_device *device)
{
	return -EOPNOTSUPP;
}

static struct ib_client client = { .name = "nvidia_peermem_fake", .add = add };

static int __init start(void)
{
	return nvidia_fake() ?: ib_register_client(&client);
}

static void __exit stop(void)
{
	ib_unregister_client(&client);
}

module_init(start);
module_exit(stop);
