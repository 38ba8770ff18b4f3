// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Requests to the fake and checks of their results. The numbers, sizes and offsets of the ABI here and in ask.c are
 * literals, not taken from the module's header.
 */
#ifndef EXERCISE_ASK_H
#define EXERCISE_ASK_H

#include <stddef.h>
#include <stdint.h>

#define BASE 0x7f0000000000ull
#define SIZE (16ull << 20)

enum {
	PIN = 0xC028DA01,
	PIN_1_X = 0xC020DA01,
	UNPIN = 0xC008DA02,
	CB_FLAG = 0xC008DA03,
	INFO = 0xC008DA04,
	INFO_V2 = 0xC008DA05,
	ATTR = 0xC008DA06,
	PIN_V2 = 0xC020DA07,
	REQ_TYPE = 0xC008DA08,
	VERSION = 0xC008DAFF,
};

/* Each request, the size of its structure, and its first release. */
struct request {
	unsigned int number;
	size_t bytes;
	unsigned int since;
};
#define REQUESTS 9
extern const struct request requests[REQUESTS];

/* Checks so far. */
extern unsigned int held, broken;

/* Request and result bytes, with guard bytes after them. */
struct bytes {
	unsigned char at[64];
};

__attribute__((format(printf, 2, 3))) void claim(int holds, const char *what, ...);
void same(const char *what, uint64_t wanted, uint64_t got);
/* Opens the device; exits if there is none. */
int node(void);
/* Sets a parameter of the loaded module. */
void parameter(const char *name, const char *value);

struct bytes blank(void);
void set32(struct bytes *bytes, size_t offset, uint32_t value);
void set64(struct bytes *bytes, size_t offset, uint64_t value);
uint64_t get64(const struct bytes *bytes, size_t offset);

/* These return 0 or errno. */
int ask(int fd, unsigned int number, struct bytes *bytes);
int pin_tokens(int fd, uint64_t address, uint64_t size, uint64_t token, uint32_t space, uint64_t *handle);
int pin(int fd, uint64_t address, uint64_t size, uint64_t *handle);
int pin_v2(int fd, uint64_t address, uint64_t size, uint32_t flags, uint64_t *handle);
int by_handle(int fd, unsigned int number, uint64_t handle);
int request_type(int fd, uint64_t handle, uint32_t type);
int map_error(int fd, uint64_t handle, size_t size);
/* Simulates freeing the memory of these pins, through /proc/gdrdrv-fake/revoke. */
int lose(const char *words);
/* NULL with errno on failure. */
unsigned char *map(int fd, uint64_t handle, size_t size);

/* Checks that a request returns exactly these bytes and leaves the guard alone. */
void answers(int fd, unsigned int number, struct bytes asked, struct bytes wanted, const char *what);
/* Both forms of pin information, byte for byte. */
void describes(int fd, uint64_t handle, uint64_t va, uint64_t size, uint32_t type, const char *what);
void flag_is(int fd, uint64_t handle, uint32_t flag, const char *what);
void attribute_is(int fd, uint32_t attribute, uint32_t value, const char *what);

/* 0, or the signal raised by reading this byte. */
int touch(const volatile unsigned char *at);
/* Number of lines in the fake's list of pins; no other process has pins. */
unsigned int live_pins(void);

#endif
