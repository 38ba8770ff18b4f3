// SPDX-License-Identifier: MIT OR Apache-2.0
/* Requests of the exercise and comparison of their results. */
#define _GNU_SOURCE
#include "ask.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

const struct request requests[REQUESTS] = {
	{ PIN, 40, 0x20000 },     { UNPIN, 8, 0x20000 }, { CB_FLAG, 16, 0x20000 },
	{ INFO, 48, 0x20000 },    { INFO_V2, 48, 0x20004 }, { ATTR, 8, 0x20005 },
	{ PIN_V2, 32, 0x20005 },  { REQ_TYPE, 16, 0x20005 }, { VERSION, 8, 0x20000 },
};

unsigned int held, broken;

void claim(int holds, const char *what, ...)
{
	va_list arguments;

	if (holds) {
		held++;
		return;
	}
	broken++;
	fputs("FAIL: ", stderr);
	va_start(arguments, what);
	vfprintf(stderr, what, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

void same(const char *what, uint64_t wanted, uint64_t got)
{
	claim(wanted == got, "%s: wanted %#llx, got %#llx", what, (unsigned long long)wanted, (unsigned long long)got);
}

int node(void)
{
	int fd = open("/dev/gdrdrv", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		perror("/dev/gdrdrv");
		exit(2);
	}
	return fd;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
		perror(path);
		exit(2);
	}
	close(fd);
}

void parameter(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/gdrdrv_fake/parameters/%s", name);
	put(path, value);
}

struct bytes blank(void)
{
	struct bytes bytes;

	memset(bytes.at, 0xA5, sizeof(bytes.at));
	return bytes;
}

void set32(struct bytes *bytes, size_t offset, uint32_t value)
{
	memcpy(bytes->at + offset, &value, 4);
}

void set64(struct bytes *bytes, size_t offset, uint64_t value)
{
	memcpy(bytes->at + offset, &value, 8);
}

uint64_t get64(const struct bytes *bytes, size_t offset)
{
	uint64_t value;

	memcpy(&value, bytes->at + offset, 8);
	return value;
}

int ask(int fd, unsigned int number, struct bytes *bytes)
{
	return ioctl(fd, number, bytes) ? errno : 0;
}

void answers(int fd, unsigned int number, struct bytes asked, struct bytes wanted, const char *what)
{
	same(what, 0, ask(fd, number, &asked));
	for (size_t at = 0; at < sizeof(asked.at); at++)
		claim(asked.at[at] == wanted.at[at], "%s: byte %zu is %#x, not %#x", what, at, asked.at[at], wanted.at[at]);
}

int pin_tokens(int fd, uint64_t address, uint64_t size, uint64_t token, uint32_t space, uint64_t *handle)
{
	struct bytes bytes = blank();
	int error;

	set64(&bytes, 0, address);
	set64(&bytes, 8, size);
	set64(&bytes, 16, token);
	set32(&bytes, 24, space);
	error = ask(fd, PIN, &bytes);
	*handle = get64(&bytes, 32);
	return error;
}

int pin(int fd, uint64_t address, uint64_t size, uint64_t *handle)
{
	return pin_tokens(fd, address, size, 0, 0, handle);
}

int pin_v2(int fd, uint64_t address, uint64_t size, uint32_t flags, uint64_t *handle)
{
	struct bytes bytes = blank();
	int error;

	set64(&bytes, 0, address);
	set64(&bytes, 8, size);
	set32(&bytes, 16, flags);
	error = ask(fd, PIN_V2, &bytes);
	*handle = get64(&bytes, 24);
	return error;
}

int by_handle(int fd, unsigned int number, uint64_t handle)
{
	struct bytes bytes = blank();

	set64(&bytes, 0, handle);
	return ask(fd, number, &bytes);
}

int request_type(int fd, uint64_t handle, uint32_t type)
{
	struct bytes bytes = blank();

	set64(&bytes, 0, handle);
	set32(&bytes, 8, type);
	return ask(fd, REQ_TYPE, &bytes);
}

unsigned char *map(int fd, uint64_t handle, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(handle << 12));

	return at == MAP_FAILED ? NULL : at;
}

int map_error(int fd, uint64_t handle, size_t size)
{
	errno = 0;
	return map(fd, handle, size) ? 0 : errno;
}

void describes(int fd, uint64_t handle, uint64_t va, uint64_t size, uint32_t type, const char *what)
{
	struct bytes asked = blank(), wanted = blank();

	set64(&asked, 0, handle);
	set64(&wanted, 0, handle);
	set64(&wanted, 8, va);
	set64(&wanted, 16, size);
	set32(&wanted, 24, 65536);
	set32(&wanted, 28, 2100000);
	set64(&wanted, 32, 0x1122334455667788);
	set32(&wanted, 40, type != 0);
	set32(&wanted, 44, type == 1);
	answers(fd, INFO, asked, wanted, what);
	/* The second form ends with a number and four bytes of padding. */
	set32(&wanted, 40, type);
	memcpy(wanted.at + 44, asked.at + 44, 4);
	answers(fd, INFO_V2, asked, wanted, what);
}

void flag_is(int fd, uint64_t handle, uint32_t flag, const char *what)
{
	struct bytes asked = blank(), wanted;

	set64(&asked, 0, handle);
	wanted = asked;
	set32(&wanted, 8, flag);
	answers(fd, CB_FLAG, asked, wanted, what);
}

void attribute_is(int fd, uint32_t attribute, uint32_t value, const char *what)
{
	struct bytes asked = blank(), wanted;

	set32(&asked, 0, attribute);
	wanted = asked;
	set32(&wanted, 4, value);
	answers(fd, ATTR, asked, wanted, what);
}

static sigjmp_buf landing;

static void land(int signal)
{
	siglongjmp(landing, signal);
}

int touch(const volatile unsigned char *at)
{
	struct sigaction action = { .sa_handler = land }, bus, segment;
	int signal;

	sigaction(SIGBUS, &action, &bus);
	sigaction(SIGSEGV, &action, &segment);
	signal = sigsetjmp(landing, 1);
	if (!signal)
		(void)*at;
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segment, NULL);
	return signal;
}

unsigned int live_pins(void)
{
	FILE *list = fopen("/proc/gdrdrv-fake/pins", "r");
	unsigned int lines = 0;
	int byte;

	while (list && (byte = fgetc(list)) != EOF)
		lines += byte == '\n';
	if (list)
		fclose(list);
	return lines;
}

int lose(const char *words)
{
	int fd = open("/proc/gdrdrv-fake/revoke", O_WRONLY), error;

	error = write(fd, words, strlen(words)) < 0 ? errno : 0;
	close(fd);
	return error;
}
