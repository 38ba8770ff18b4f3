// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A fake NVIDIA driver for tests in a virtual machine: its name, version, three parameters, and the proc files that show
 * its parameters. It drives no device.
 *
 * It identifies itself as a fake in all output, and is never loaded outside a test's virtual machine.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#define VERSION "580.159.04"

MODULE_LICENSE("GPL");
MODULE_VERSION(VERSION);
MODULE_DESCRIPTION("A fake of the NVIDIA driver");

static char *NVreg_RegistryDwords;
module_param(NVreg_RegistryDwords, charp, 0);
static char *NVreg_RegistryDwordsPerDevice;
module_param(NVreg_RegistryDwordsPerDevice, charp, 0);
static int NVreg_EnableStreamMemOPs;
module_param(NVreg_EnableStreamMemOPs, int, 0);

static struct proc_dir_entry *directory;

/* Called by dependent modules, so that the kernel counts them as users. */
int nvidia_fake(void)
{
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_fake);

/* Not the open kernel modules: no dma-buf. */
static int version_show(struct seq_file *file, void *unused)
{
	seq_puts(file, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " VERSION "  Fake of gdr\n");
	return 0;
}

static int params_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "EnableStreamMemOPs: %d\n", NVreg_EnableStreamMemOPs);
	seq_printf(file, "RegistryDwords: \"%s\"\n", NVreg_RegistryDwords ?: "");
	seq_printf(file, "RegistryDwordsPerDevice: \"%s\"\n", NVreg_RegistryDwordsPerDevice ?: "");
	return 0;
}

static int __init start(void)
{
	directory = proc_mkdir("driver/nvidia", NULL);
	if (directory && proc_create_single("version", 0444, directory, version_show) &&
	    proc_create_single("params", 0444, directory, params_show))
		return 0;
	proc_remove(directory);
	return -ENOMEM;
}

static void __exit stop(void)
{
	proc_remove(directory);
}

module_init(start);
module_exit(stop);
