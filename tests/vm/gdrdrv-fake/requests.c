// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The ioctls of gdrdrv, as the emulated release implements them.
 */
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "abi.h"
#include "fake.h"

/* Can be changed at run time in /sys/module/gdrdrv_fake/parameters. */
static unsigned int version = GDRDRV_2_6;
module_param(version, uint, 0644);
MODULE_PARM_DESC(version, "the release played, (major << 16) | minor; younger ioctls answer ENOTTY");
static unsigned int minimum_api_version = GDRDRV_2_0;
module_param(minimum_api_version, uint, 0644);
MODULE_PARM_DESC(minimum_api_version, "the oldest library release that GET_VERSION welcomes");
static int persistent = -1;
module_param(persistent, int, 0644);
MODULE_PARM_DESC(persistent, "1: pins are persistent, 0: freeing revokes them, -1: as the release has it (1 from 2.5)");
static bool force_pcie;
module_param(force_pcie, bool, 0644);
MODULE_PARM_DESC(force_pcie, "the FORCE_PCIE pin flag is supported");
static unsigned int eagain;
module_param(eagain, uint, 0644);
MODULE_PARM_DESC(eagain, "so many answers of GET_INFO and GET_INFO_V2 call a mapped pin not mapped");
/* Value of the two deprecated clocks of every pin. */
#define TSC_KHZ 2100000
#define TM_CYCLES 0x1122334455667788ull

static bool is_persistent(void)
{
	return persistent < 0 ? version >= GDRDRV_2_5 : persistent;
}

static int pin_range(struct opener *opener, u64 address, u64 size, u64 *handle)
{
	u64 start = round_down(address, GPU_PAGE), end = round_up(address + size, GPU_PAGE);
	struct pin *pin;
	int failed = 0;

	if (!address || !size || address + size < address || end < start || !memory_has(start, end - start))
		return -EINVAL;
	pin = kzalloc(sizeof(*pin), GFP_KERNEL);
	if (!pin)
		return -ENOMEM;
	kref_init(&pin->refs);
	pin->address = address;
	pin->size = size;
	pin->va = start;
	pin->mapped_size = end - start;
	pin->persistent = is_persistent();

	mutex_lock(&fake_lock);
	/* Handles are page numbers in the file: the range's last byte must have a valid offset. */
	if (opener->next_handle > (U64_MAX >> PAGE_SHIFT) - (pin->mapped_size >> PAGE_SHIFT)) {
		failed = -ENOMEM;
		kfree(pin);
	} else {
		*handle = pin->handle = opener->next_handle;
		opener->next_handle += pin->mapped_size >> PAGE_SHIFT;
		list_add_tail(&pin->link, &opener->pins);
	}
	mutex_unlock(&fake_lock);
	return failed;
}

/* The caller did not receive its handle. */
static long unpin_unheard(struct opener *opener, u64 handle)
{
	struct pin *pin;

	mutex_lock(&fake_lock);
	pin = pin_of(opener, handle);
	if (pin)
		unpin(opener, pin);
	mutex_unlock(&fake_lock);
	return -EFAULT;
}

static long pin_buffer(struct opener *opener, void __user *at)
{
	struct pin_buffer asked;
	int failed;

	if (copy_from_user(&asked, at, sizeof(asked)))
		return -EFAULT;
	if (is_persistent() && (asked.p2p_token || asked.va_space))
		return -EINVAL;
	failed = pin_range(opener, asked.addr, asked.size, &asked.handle);
	if (failed)
		return failed;
	return copy_to_user(at, &asked, sizeof(asked)) ? unpin_unheard(opener, asked.handle) : 0;
}

static long pin_buffer_v2(struct opener *opener, void __user *at)
{
	struct pin_buffer_v2 asked;
	int failed;

	if (copy_from_user(&asked, at, sizeof(asked)))
		return -EFAULT;
	if (asked.flags & ~PIN_FORCE_PCIE || (asked.flags && !(force_pcie && is_persistent())))
		return -EINVAL;
	failed = pin_range(opener, asked.addr, asked.size, &asked.handle);
	if (failed)
		return failed;
	return copy_to_user(at, &asked, sizeof(asked)) ? unpin_unheard(opener, asked.handle) : 0;
}

static long unpin_buffer(struct opener *opener, void __user *at)
{
	struct unpin_buffer asked;
	struct pin *pin;

	if (copy_from_user(&asked, at, sizeof(asked)))
		return -EFAULT;
	mutex_lock(&fake_lock);
	pin = pin_of(opener, asked.handle);
	if (pin)
		unpin(opener, pin);
	mutex_unlock(&fake_lock);
	return pin ? 0 : -EINVAL;
}

static long get_cb_flag(struct opener *opener, void __user *at)
{
	struct cb_flag asked;
	struct pin *pin;

	if (copy_from_user(&asked, at, sizeof(asked)))
		return -EFAULT;
	mutex_lock(&fake_lock);
	pin = pin_of(opener, asked.handle);
	if (pin)
		asked.flag = pin->revoked;
	mutex_unlock(&fake_lock);
	if (!pin)
		return -EINVAL;
	return copy_to_user(at, &asked, sizeof(asked)) ? -EFAULT : 0;
}

/* Fills in everything except the handle, which is an input. */
static int describe(struct opener *opener, struct info_v2 *info)
{
	struct pin *pin;

	mutex_lock(&fake_lock);
	pin = pin_of(opener, info->handle);
	if (pin) {
		info->va = pin->va;
		info->mapped_size = pin->mapped_size;
		info->page_size = GPU_PAGE;
		info->tsc_khz = TSC_KHZ;
		info->tm_cycles = TM_CYCLES;
		info->mapping_type = pin->mapping;
		if (pin->mapping && eagain) {
			eagain--;
			info->mapping_type = MAPPING_NONE;
		}
	}
	mutex_unlock(&fake_lock);
	return pin ? 0 : -EINVAL;
}

static long get_info(struct opener *opener, void __user *at)
{
	struct info_v2 described = {};
	struct info asked;
	int failed;

	if (copy_from_user(&asked, at, sizeof(asked)))
		return -EFAULT;
	described.handle = asked.handle;
	failed = describe(opener, &described);
	if (failed)
		return failed;
	asked = (struct info){
		.handle = described.handle,
		.va = described.va,
		.mapped_size = described.mapped_size,
		.page_size = described.page_size,
		.tsc_khz = described.tsc_khz,
		.tm_cycles = described.tm_cycles,
		.mapped = described.mapping_type != MAPPING_NONE,
		.wc_mapping = described.mapping_type == MAPPING_WC,
	};
	return copy_to_user(at, &asked, sizeof(asked)) ? -EFAULT : 0;
}

static long get_info_v2(struct opener *opener, void __user *at)
{
	struct info_v2 asked;
	int failed;

	if (copy_from_user(&asked, at, sizeof(asked)))
		return -EFAULT;
	failed = describe(opener, &asked);
	if (failed)
		return failed;
	return copy_to_user(at, &asked, sizeof(asked)) ? -EFAULT : 0;
}

static long get_attr(struct opener *opener, void __user *at)
{
	struct attr asked;

	if (copy_from_user(&asked, at, sizeof(asked)))
		return -EFAULT;
	if (asked.attr == ATTRIBUTE_PERSISTENT)
		asked.val = is_persistent();
	else if (asked.attr == ATTRIBUTE_FORCE_PCIE)
		asked.val = force_pcie && is_persistent();
	else
		return -EINVAL;
	return copy_to_user(at, &asked, sizeof(asked)) ? -EFAULT : 0;
}

static long req_mapping_type(struct opener *opener, void __user *at)
{
	struct mapping_request asked;
	struct pin *pin;
	long failed = 0;

	if (copy_from_user(&asked, at, sizeof(asked)))
		return -EFAULT;
	mutex_lock(&fake_lock);
	pin = pin_of(opener, asked.handle);
	if (!pin || asked.mapping_type >= MAPPING_TYPES)
		failed = -EINVAL;
	else if (pin->mapping)
		failed = -EBUSY;
	else if (asked.mapping_type != MAPPING_NONE && asked.mapping_type != memory_mapping())
		failed = -EOPNOTSUPP;
	else
		pin->requested = asked.mapping_type;
	mutex_unlock(&fake_lock);
	return failed;
}

static long get_version(struct opener *opener, void __user *at)
{
	struct versions said = { .gdrdrv_version = version, .minimum_gdr_api_version = minimum_api_version };

	return copy_to_user(at, &said, sizeof(said)) ? -EFAULT : 0;
}

static const struct {
	unsigned int number;
	u32 since;
	long (*answer)(struct opener *opener, void __user *at);
} requests[] = {
	{ GDRDRV_PIN_BUFFER, GDRDRV_2_0, pin_buffer },
	{ GDRDRV_UNPIN_BUFFER, GDRDRV_2_0, unpin_buffer },
	{ GDRDRV_GET_CB_FLAG, GDRDRV_2_0, get_cb_flag },
	{ GDRDRV_GET_INFO, GDRDRV_2_0, get_info },
	{ GDRDRV_GET_INFO_V2, GDRDRV_2_4, get_info_v2 },
	{ GDRDRV_GET_ATTR, GDRDRV_2_5, get_attr },
	{ GDRDRV_PIN_BUFFER_V2, GDRDRV_2_5, pin_buffer_v2 },
	{ GDRDRV_REQ_MAPPING_TYPE, GDRDRV_2_5, req_mapping_type },
	{ GDRDRV_GET_VERSION, GDRDRV_2_0, get_version },
};

long device_ioctl(struct file *file, unsigned int number, unsigned long argument)
{
	struct opener *opener = file->private_data;
	size_t at;

	if (_IOC_TYPE(number) != GDRDRV_TYPE)
		return -EINVAL;
	if (task_tgid(current) != opener->owner)
		return -EACCES;
	for (at = 0; at < ARRAY_SIZE(requests); at++)
		if (requests[at].number == number && requests[at].since <= version)
			return requests[at].answer(opener, (void __user *)argument);
	return -ENOTTY;
}
