/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The ioctl ABI of gdrdrv 2.0 to 2.6 on 64-bit Linux: numbers, layouts, and first releases, written independently of the
 * driver's headers. Most numbers encode the size of a pointer (8), whatever the size of the structure.
 */
#ifndef GDRDRV_DOUBLE_ABI_H
#define GDRDRV_DOUBLE_ABI_H

#include <linux/build_bug.h>
#include <linux/ioctl.h>
#include <linux/stddef.h>
#include <linux/types.h>

#define GDRDRV_TYPE 0xDA

#define GDRDRV_PIN_BUFFER 0xC028DA01u
#define GDRDRV_UNPIN_BUFFER 0xC008DA02u
#define GDRDRV_GET_CB_FLAG 0xC008DA03u
#define GDRDRV_GET_INFO 0xC008DA04u
#define GDRDRV_GET_INFO_V2 0xC008DA05u
#define GDRDRV_GET_ATTR 0xC008DA06u
#define GDRDRV_PIN_BUFFER_V2 0xC020DA07u
#define GDRDRV_REQ_MAPPING_TYPE 0xC008DA08u
#define GDRDRV_GET_VERSION 0xC008DAFFu

/* A release is (major << 16) | minor. */
#define GDRDRV_2_0 0x00020000
#define GDRDRV_2_4 0x00020004
#define GDRDRV_2_5 0x00020005
#define GDRDRV_2_6 0x00020006

#define GPU_PAGE 65536ull

enum gpu_mapping { MAPPING_NONE, MAPPING_WC, MAPPING_CACHING, MAPPING_DEVICE, MAPPING_TYPES };
enum gdrdrv_attribute { ATTRIBUTE_PERSISTENT = 1, ATTRIBUTE_FORCE_PCIE = 2 };
#define PIN_FORCE_PCIE 1u

struct pin_buffer {
	__u64 addr;
	__u64 size;
	__u64 p2p_token;
	__u32 va_space;
	__u64 handle; /* out */
};
static_assert(sizeof(struct pin_buffer) == 40 && offsetof(struct pin_buffer, va_space) == 24);
static_assert(offsetof(struct pin_buffer, handle) == 32);
static_assert(_IOC_SIZE(GDRDRV_PIN_BUFFER) == sizeof(struct pin_buffer));

struct pin_buffer_v2 {
	__u64 addr;
	__u64 size;
	__u32 flags;
	__u32 pad;
	__u64 handle; /* out */
};
static_assert(sizeof(struct pin_buffer_v2) == 32 && offsetof(struct pin_buffer_v2, flags) == 16);
static_assert(offsetof(struct pin_buffer_v2, handle) == 24);
static_assert(_IOC_SIZE(GDRDRV_PIN_BUFFER_V2) == sizeof(struct pin_buffer_v2));

struct unpin_buffer {
	__u64 handle;
};
static_assert(sizeof(struct unpin_buffer) == 8);

struct cb_flag {
	__u64 handle;
	__u32 flag; /* out */
};
static_assert(sizeof(struct cb_flag) == 16 && offsetof(struct cb_flag, flag) == 8);

struct info {
	__u64 handle;
	__u64 va;
	__u64 mapped_size;
	__u32 page_size;
	__u32 tsc_khz;
	__u64 tm_cycles;
	__u32 mapped;
	__u32 wc_mapping;
};
static_assert(sizeof(struct info) == 48 && offsetof(struct info, page_size) == 24);
static_assert(offsetof(struct info, tm_cycles) == 32 && offsetof(struct info, wc_mapping) == 44);

struct info_v2 {
	__u64 handle;
	__u64 va;
	__u64 mapped_size;
	__u32 page_size;
	__u32 tsc_khz;
	__u64 tm_cycles;
	__u32 mapping_type;
};
static_assert(sizeof(struct info_v2) == 48 && offsetof(struct info_v2, mapping_type) == 40);

struct attr {
	__u32 attr;
	__u32 val; /* out */
};
static_assert(sizeof(struct attr) == 8 && offsetof(struct attr, val) == 4);

struct mapping_request {
	__u64 handle;
	__u32 mapping_type;
};
static_assert(sizeof(struct mapping_request) == 16 && offsetof(struct mapping_request, mapping_type) == 8);

struct versions {
	__u32 gdrdrv_version;
	__u32 minimum_gdr_api_version;
};
static_assert(sizeof(struct versions) == 8 && offsetof(struct versions, minimum_gdr_api_version) == 4);

#endif
