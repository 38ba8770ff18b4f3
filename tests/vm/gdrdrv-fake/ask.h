// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What the exercise asks of the fake and how it judges the answers: the literal numbers, sizes and offsets of the
 * ABI are here and in ask.c, and none comes from the module's own header.
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

/* Each request, the bytes of its structure, and the release it came with. */
struct request {
	unsigned int number;
	size_t bytes;
	unsigned int since;
};
#define REQUESTS 9
extern const struct request requests[REQUESTS];

/* Claims so far. */
extern unsigned int held, broken;

/* A request and an answer: bytes, and what lies behind them. */
struct bytes {
	unsigned char at[64];
};

__attribute__((format(printf, 2, 3))) void claim(int holds, const char *what, ...);
void same(const char *what, uint64_t wanted, uint64_t got);
/* The open device; ends the program where there is none. */
int node(void);
/* Sets a parameter of the loaded module. */
void parameter(const char *name, const char *value);

struct bytes blank(void);
void set32(struct bytes *bytes, size_t offset, uint32_t value);
void set64(struct bytes *bytes, size_t offset, uint64_t value);
uint64_t get64(const struct bytes *bytes, size_t offset);

/* These give 0 or errno. */
int ask(int fd, unsigned int number, struct bytes *bytes);
int pin_tokens(int fd, uint64_t address, uint64_t size, uint64_t token, uint32_t space, uint64_t *handle);
int pin(int fd, uint64_t address, uint64_t size, uint64_t *handle);
int pin_v2(int fd, uint64_t address, uint64_t size, uint32_t flags, uint64_t *handle);
int by_handle(int fd, unsigned int number, uint64_t handle);
int request_type(int fd, uint64_t handle, uint32_t type);
int map_error(int fd, uint64_t handle, size_t size);
/* What freeing the memory of these pins does: the words of /proc/gdrdrv-fake/revoke. */
int lose(const char *words);
/* NULL with errno where it fails. */
unsigned char *map(int fd, uint64_t handle, size_t size);

/* Asks, and wants exactly these bytes back, the guard among them. */
void answers(int fd, unsigned int number, struct bytes asked, struct bytes wanted, const char *what);
/* Both forms of information, to the byte. */
void describes(int fd, uint64_t handle, uint64_t va, uint64_t size, uint32_t type, const char *what);
void flag_is(int fd, uint64_t handle, uint32_t flag, const char *what);
void attribute_is(int fd, uint32_t attribute, uint32_t value, const char *what);

/* 0, or the signal that reading this byte brings. */
int touch(const volatile unsigned char *at);
/* Lines of the fake's list of pins: those of this process alone, as the test runs alone. */
unsigned int live_pins(void);

#endif
