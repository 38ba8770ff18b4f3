// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Drives the double of gdrdrv through its ioctls and its mmap, inside a guest, and holds it to the ABI of gdrdrv 2.x.
 *
 * Every number, size and offset here is a literal: none comes from the module's own header. A request is a buffer of
 * bytes with guard bytes behind it, so that an answer that is too long, or at another place, is seen.
 *
 *     exercise all          what a freshly loaded double of 2.6 does, then what its parameters change
 *     exercise data TYPE    one mapping and its bytes; TYPE is 1 (write-combining) or 2 (caching)
 *
 * Exits with 1 if anything was otherwise than it should be, and says on standard error what.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

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

static const struct {
	unsigned int number;
	size_t bytes;
	unsigned int since;
} requests[] = {
	{ PIN, 40, 0x20000 },     { UNPIN, 8, 0x20000 }, { CB_FLAG, 16, 0x20000 },
	{ INFO, 48, 0x20000 },    { INFO_V2, 48, 0x20004 }, { ATTR, 8, 0x20005 },
	{ PIN_V2, 32, 0x20005 },  { REQ_TYPE, 16, 0x20005 }, { VERSION, 8, 0x20000 },
};
#define REQUESTS (sizeof(requests) / sizeof(requests[0]))

static unsigned int held, broken;

__attribute__((format(printf, 2, 3))) static void claim(int holds, const char *what, ...)
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

static void same(const char *what, uint64_t wanted, uint64_t got)
{
	claim(wanted == got, "%s: wanted %#llx, got %#llx", what, (unsigned long long)wanted, (unsigned long long)got);
}

static int node(void)
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

static void parameter(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/gdrdrv_double/parameters/%s", name);
	put(path, value);
}

/* A request and an answer: bytes, and what lies behind them. */
struct bytes {
	unsigned char at[64];
};

static struct bytes blank(void)
{
	struct bytes bytes;

	memset(bytes.at, 0xA5, sizeof(bytes.at));
	return bytes;
}

static void set32(struct bytes *bytes, size_t offset, uint32_t value)
{
	memcpy(bytes->at + offset, &value, 4);
}

static void set64(struct bytes *bytes, size_t offset, uint64_t value)
{
	memcpy(bytes->at + offset, &value, 8);
}

static uint64_t get64(const struct bytes *bytes, size_t offset)
{
	uint64_t value;

	memcpy(&value, bytes->at + offset, 8);
	return value;
}

/* 0 or errno. */
static int ask(int fd, unsigned int number, struct bytes *bytes)
{
	return ioctl(fd, number, bytes) ? errno : 0;
}

/* Asks, and wants exactly these bytes back, the guard among them. */
static void answers(int fd, unsigned int number, struct bytes asked, struct bytes wanted, const char *what)
{
	same(what, 0, ask(fd, number, &asked));
	for (size_t at = 0; at < sizeof(asked.at); at++)
		claim(asked.at[at] == wanted.at[at], "%s: byte %zu is %#x, not %#x", what, at, asked.at[at], wanted.at[at]);
}

static int pin_tokens(int fd, uint64_t address, uint64_t size, uint64_t token, uint32_t space, uint64_t *handle)
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

static int pin(int fd, uint64_t address, uint64_t size, uint64_t *handle)
{
	return pin_tokens(fd, address, size, 0, 0, handle);
}

static int pin_v2(int fd, uint64_t address, uint64_t size, uint32_t flags, uint64_t *handle)
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

static int by_handle(int fd, unsigned int number, uint64_t handle)
{
	struct bytes bytes = blank();

	set64(&bytes, 0, handle);
	return ask(fd, number, &bytes);
}

static int request_type(int fd, uint64_t handle, uint32_t type)
{
	struct bytes bytes = blank();

	set64(&bytes, 0, handle);
	set32(&bytes, 8, type);
	return ask(fd, REQ_TYPE, &bytes);
}

/* NULL with errno where it fails. */
static unsigned char *map(int fd, uint64_t handle, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(handle << 12));

	return at == MAP_FAILED ? NULL : at;
}

static int map_error(int fd, uint64_t handle, size_t size)
{
	errno = 0;
	return map(fd, handle, size) ? 0 : errno;
}

/* Both forms of information, to the byte. */
static void describes(int fd, uint64_t handle, uint64_t va, uint64_t size, uint32_t type, const char *what)
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
	/* The second form ends with one number; the last four bytes are padding. */
	set32(&wanted, 40, type);
	memcpy(wanted.at + 44, asked.at + 44, 4);
	answers(fd, INFO_V2, asked, wanted, what);
}

static void flag_is(int fd, uint64_t handle, uint32_t flag, const char *what)
{
	struct bytes asked = blank(), wanted;

	set64(&asked, 0, handle);
	wanted = asked;
	set32(&wanted, 8, flag);
	answers(fd, CB_FLAG, asked, wanted, what);
}

static void attribute_is(int fd, uint32_t attribute, uint32_t value, const char *what)
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

/* 0, or the signal that reading this byte brings. */
static int touch(const volatile unsigned char *at)
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

/* Lines of the double's list of pins: those of this process alone, as the test runs alone. */
static unsigned int live_pins(void)
{
	FILE *list = fopen("/proc/gdrdrv-double/pins", "r");
	unsigned int lines = 0;
	int byte;

	while (list && (byte = fgetc(list)) != EOF)
		lines += byte == '\n';
	if (list)
		fclose(list);
	return lines;
}

static int lose(const char *words)
{
	int fd = open("/proc/gdrdrv-double/revoke", O_WRONLY), error;

	error = write(fd, words, strlen(words)) < 0 ? errno : 0;
	close(fd);
	return error;
}

static void numbers(void)
{
	struct bytes asked = blank(), wanted = blank();
	dev_t third;
	struct stat status;
	int fd = node();

	set32(&wanted, 0, 0x20006);
	set32(&wanted, 4, 0x20000);
	answers(fd, VERSION, asked, wanted, "versions");
	attribute_is(fd, 1, 1, "persistent");
	attribute_is(fd, 2, 0, "force pcie");
	set32(&asked, 0, 3);
	same("a third attribute", EINVAL, ask(fd, ATTR, &asked));

	same("another type byte", EINVAL, ask(fd, 0xC008DB02, &asked));
	same("PIN_BUFFER of 1.x", ENOTTY, ask(fd, PIN_1_X, &asked));
	same("number 9", ENOTTY, ask(fd, 0xC008DA09, &asked));
	same("UNPIN_BUFFER of another size", ENOTTY, ask(fd, 0xC010DA02, &asked));
	for (size_t at = 0; at < REQUESTS; at++) {
		/* The structure straddles the end of memory: it is as long as is said, and no longer. */
		unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		unsigned char *end = page + 4096;

		munmap(end, 4096);
		same("no memory", EFAULT, ioctl(fd, requests[at].number, NULL) ? errno : 0);
		same("a byte too few", EFAULT, ioctl(fd, requests[at].number, end - requests[at].bytes + 1) ? errno : 0);
		claim(!ioctl(fd, requests[at].number, end - requests[at].bytes) || errno != EFAULT,
		      "%#x takes more than %zu bytes", requests[at].number, requests[at].bytes);
		munmap(page, 4096);
	}
	stat("/dev/gdrdrv", &status);
	third = makedev(major(status.st_rdev), 1);
	same("a node of minor 1", 0, mknod("/tmp/gdrdrv1", S_IFCHR | 0600, third));
	same("minor 1 opens", ENXIO, open("/tmp/gdrdrv1", O_RDWR) < 0 ? errno : 0);
	unlink("/tmp/gdrdrv1");
	close(fd);
}

static void pins(void)
{
	uint64_t handle, unused;
	struct bytes asked, wanted;
	int fd = node();

	same("pin nothing", EINVAL, pin(fd, 0, 65536, &unused));
	same("pin no bytes", EINVAL, pin(fd, BASE, 0, &unused));
	same("pin before the memory", EINVAL, pin(fd, BASE - 65536, 65536, &unused));
	same("pin beyond the memory", EINVAL, pin(fd, BASE + SIZE - 65536, 65537, &unused));
	same("pin around the end of addresses", EINVAL, pin(fd, BASE, UINT64_MAX - BASE + 2, &unused));
	same("a token, persistent", EINVAL, pin_tokens(fd, BASE, 65536, 1, 0, &unused));
	same("a space, persistent", EINVAL, pin_tokens(fd, BASE, 65536, 0, 1, &unused));
	same("force pcie", EINVAL, pin_v2(fd, BASE, 65536, 1, &unused));
	same("another flag", EINVAL, pin_v2(fd, BASE, 65536, 2, &unused));

	/* Handles count pages of 4096 bytes, of the ranges as rounded to 65536. */
	asked = blank();
	set64(&asked, 0, BASE);
	set64(&asked, 8, 65536);
	set64(&asked, 16, 0);
	set32(&asked, 24, 0);
	wanted = asked;
	set64(&wanted, 32, 0);
	answers(fd, PIN, asked, wanted, "first pin");
	describes(fd, 0, BASE, 65536, 0, "first pin");
	asked = blank();
	set64(&asked, 0, BASE);
	set64(&asked, 8, 320 << 10);
	set32(&asked, 16, 0);
	wanted = asked;
	set64(&wanted, 24, 16);
	answers(fd, PIN_V2, asked, wanted, "second pin");
	describes(fd, 16, BASE, 320 << 10, 0, "second pin");
	same("pin across two GPU pages", 0, pin(fd, BASE + 65536 - 8, 16, &handle));
	same("its handle", 96, handle);
	describes(fd, 96, BASE, 131072, 0, "pin across two GPU pages");
	same("pin the last bytes", 0, pin_v2(fd, BASE + SIZE - 8, 8, 0, &handle));
	same("its handle", 128, handle);
	describes(fd, 128, BASE + SIZE - 65536, 65536, 0, "pin of the last bytes");
	flag_is(fd, 128, 0, "callback flag");
	same("pins alive", 4, live_pins());

	same("unpin a stranger", EINVAL, by_handle(fd, UNPIN, 7));
	same("flag of a stranger", EINVAL, by_handle(fd, CB_FLAG, 7));
	same("info of a stranger", EINVAL, by_handle(fd, INFO, 7));
	same("second info of a stranger", EINVAL, by_handle(fd, INFO_V2, 7));
	same("type of a stranger", EINVAL, request_type(fd, 7, 1));
	same("unpin", 0, by_handle(fd, UNPIN, 16));
	same("unpin twice", EINVAL, by_handle(fd, UNPIN, 16));
	same("pins alive", 3, live_pins());
	same("pin after unpin", 0, pin(fd, BASE, 65536, &handle));
	same("handles do not come back", 144, handle);
	close(fd);
	same("pins after the file was closed", 0, live_pins());
}

/* One mapping of this type, its bytes seen from the other side, and back. */
static void data(uint32_t type)
{
	unsigned char *at, seen[4096], told[4096];
	int fd = node(), memory = open("/proc/gdrdrv-double/memory", O_RDWR);
	uint64_t handle;

	same("pin", 0, pin(fd, BASE + 3 * 65536, 2 * 65536, &handle));
	at = map(fd, handle, 2 * 65536);
	claim(at != NULL, "mmap: %s", strerror(errno));
	if (!at)
		return;
	describes(fd, handle, BASE + 3 * 65536, 2 * 65536, type, "mapped");
	for (size_t byte = 0; byte < sizeof(told); byte++)
		told[byte] = (unsigned char)(byte * 7 + 1);
	/* Around the border of two GPU pages, whose memory need not be in one piece. */
	memcpy(at + 65536 - 2048, told, sizeof(told));
	__builtin_ia32_sfence();
	same("read", sizeof(seen), pread(memory, seen, 2048, 4 * 65536 - 2048) + pread(memory, seen + 2048, 2048, 4 * 65536));
	claim(!memcmp(seen, told, sizeof(seen)), "what the mapping wrote is not what the memory holds");
	memset(told, 0x3C, sizeof(told));
	same("write", sizeof(told), pwrite(memory, told, sizeof(told), 3 * 65536 + 4096));
	claim(!memcmp(at + 4096, told, sizeof(told)), "what the memory was given is not what the mapping shows");
	same("unmap", 0, munmap(at, 2 * 65536));
	describes(fd, handle, BASE + 3 * 65536, 2 * 65536, 0, "unmapped");
	close(memory);
	close(fd);
}

static void mappings(void)
{
	uint64_t whole, unaligned;
	unsigned char *at, *again;
	int fd = node();

	same("pin", 0, pin(fd, BASE + 65536, 2 * 65536, &whole));
	same("unaligned pin", 0, pin(fd, BASE + 8, 8, &unaligned));
	same("map an unaligned pin", EINVAL, map_error(fd, unaligned, 4096));
	same("map a stranger", EINVAL, map_error(fd, 7, 4096));
	same("map within a pin", EINVAL, map_error(fd, whole + 16, 4096));
	same("map too much", EINVAL, map_error(fd, whole, 2 * 65536 + 4096));
	same("map caching", EOPNOTSUPP, request_type(fd, whole, 2));
	same("map as device", EOPNOTSUPP, request_type(fd, whole, 3));
	same("map as a fourth type", EINVAL, request_type(fd, whole, 4));
	same("map by default", 0, request_type(fd, whole, 0));
	same("map write-combining", 0, request_type(fd, whole, 1));
	/* Less than the pin may be mapped, from its beginning. */
	at = map(fd, whole, 4096);
	claim(at != NULL, "map a page: %s", strerror(errno));
	describes(fd, whole, BASE + 65536, 2 * 65536, 1, "a page of it mapped");
	same("map twice", EINVAL, map_error(fd, whole, 4096));
	same("request while mapped", EBUSY, request_type(fd, whole, 1));
	munmap(at, 4096);
	at = map(fd, whole, 2 * 65536);
	claim(at != NULL, "map after unmap: %s", strerror(errno));
	/* A mapping that loses a part counts as unmapped, and what is left of it works until the pin goes. */
	munmap(at, 65536);
	describes(fd, whole, BASE + 65536, 2 * 65536, 0, "cut mapping");
	same("touch what is left", 0, touch(at + 65536));
	again = map(fd, whole, 65536);
	claim(again != NULL, "map after a cut: %s", strerror(errno));
	same("unpin while mapped", 0, by_handle(fd, UNPIN, whole));
	same("touch after unpin", SIGBUS, touch(again));
	same("touch what was left, after unpin", SIGBUS, touch(at + 65536));
	same("unmap after unpin", 0, munmap(again, 65536) | munmap(at + 65536, 65536));
	close(fd);
}

static void other_processes(void)
{
	uint64_t handle;
	struct bytes bytes = blank();
	unsigned char *at;
	int fd = node(), status = -1;
	pid_t child;

	same("pin", 0, pin(fd, BASE, 65536, &handle));
	at = map(fd, handle, 65536);
	child = fork();
	if (!child) {
		unsigned int before = broken;

		for (size_t number = 0; number < REQUESTS; number++)
			same("request of a child", EACCES, ask(fd, requests[number].number, &bytes));
		same("unknown request of a child", EACCES, ask(fd, PIN_1_X, &bytes));
		same("mmap of a child", EACCES, map_error(fd, handle, 65536));
		same("mapping in a child", SIGSEGV, touch(at));
		_exit(broken != before);
	}
	waitpid(child, &status, 0);
	same("child", 0, (uint64_t)status);
	same("mapping after the child", 0, touch(at));
	munmap(at, 65536);
	close(fd);
}

static void revocation(void)
{
	uint64_t kept, lost;
	unsigned char *first, *second;
	int fd = node();

	same("pin", 0, pin(fd, BASE, 65536, &kept));
	first = map(fd, kept, 65536);
	same("revoke persistent pins", EOPNOTSUPP, lose("all"));
	same("persistent mapping after its memory is gone", 0, touch(first));
	flag_is(fd, kept, 0, "persistent flag");
	munmap(first, 65536);
	close(fd);

	parameter("persistent", "0");
	fd = node();
	attribute_is(fd, 1, 0, "persistent");
	same("tokens, not persistent", 0, pin_tokens(fd, BASE, 65536, 5, 6, &kept));
	same("pin", 0, pin_v2(fd, BASE + 65536, 65536, 0, &lost));
	first = map(fd, kept, 65536);
	second = map(fd, lost, 65536);
	same("revoke nobody's memory", ENOENT, lose("address 0x1000"));
	same("revoke nonsense", EINVAL, lose("nonsense"));
	same("revoke", 0, lose("address 0x7f0000010010\n"));
	flag_is(fd, kept, 0, "flag of the other");
	flag_is(fd, lost, 1, "flag of the revoked");
	same("touch the other", 0, touch(first));
	same("touch the revoked", SIGBUS, touch(second));
	munmap(second, 65536);
	same("map the revoked", EINVAL, map_error(fd, lost, 65536));
	same("unpin the revoked", 0, by_handle(fd, UNPIN, lost));
	same("revoke by handle", 0, lose("handle 0"));
	same("touch", SIGBUS, touch(first));
	same("revoke all", 0, lose("all"));
	munmap(first, 65536);
	close(fd);
	parameter("persistent", "-1");
}

static void releases(void)
{
	static const struct {
		const char *name;
		unsigned int number;
	} played[] = { { "0x10003", 0x10003 }, { "0x20000", 0x20000 }, { "0x20004", 0x20004 }, { "0x20005", 0x20005 } };
	struct bytes bytes = blank(), wanted = blank();
	uint64_t handle;
	int fd = node();

	for (size_t at = 0; at < sizeof(played) / sizeof(played[0]); at++) {
		parameter("version", played[at].name);
		for (size_t number = 0; number < REQUESTS; number++) {
			bytes = blank();
			claim((ask(fd, requests[number].number, &bytes) == ENOTTY) == (requests[number].since > played[at].number),
			      "%#x in release %s", requests[number].number, played[at].name);
		}
	}
	/* Before 2.5 pins were not persistent. */
	parameter("version", "0x20004");
	same("tokens in 2.4", 0, pin_tokens(fd, BASE, 65536, 5, 6, &handle));
	parameter("minimum_api_version", "0x20007");
	set32(&wanted, 0, 0x20004);
	set32(&wanted, 4, 0x20007);
	answers(fd, VERSION, blank(), wanted, "versions");
	parameter("version", "0x20006");
	parameter("minimum_api_version", "0x20000");
	close(fd);
}

static void parameters(void)
{
	uint64_t handle;
	unsigned char *at;
	int fd = node();

	same("pin", 0, pin(fd, BASE, 65536, &handle));
	at = map(fd, handle, 65536);
	parameter("eagain", "2");
	describes(fd, handle, BASE, 65536, 0, "not mapped, it says");
	describes(fd, handle, BASE, 65536, 1, "mapped after all");
	munmap(at, 65536);
	parameter("force_pcie", "1");
	attribute_is(fd, 2, 1, "force pcie");
	same("force pcie", 0, pin_v2(fd, BASE, 65536, 1, &handle));
	parameter("force_pcie", "0");
	close(fd);

	/* Offsets beyond 4 GiB, then beyond what a file offset can say. */
	parameter("first_handle", "0x1234567890");
	fd = node();
	same("pin", 0, pin(fd, BASE, 65536, &handle));
	same("high handle", 0x1234567890, handle);
	at = map(fd, handle, 65536);
	claim(at && !touch(at), "mmap at a high offset: %s", strerror(errno));
	munmap(at, 65536);
	close(fd);
	parameter("first_handle", "0xfffffffffffff");
	fd = node();
	same("no handle is left", ENOMEM, pin(fd, BASE, 65536, &handle));
	close(fd);
	parameter("first_handle", "0");
}

int main(int count, char **words)
{
	if (count == 3 && !strcmp(words[1], "data")) {
		data((uint32_t)atoi(words[2]));
	} else if (count == 2 && !strcmp(words[1], "all")) {
		numbers();
		pins();
		data(1);
		mappings();
		other_processes();
		revocation();
		releases();
		parameters();
		same("pins in the end", 0, live_pins());
	} else {
		fputs("usage: exercise all | exercise data TYPE\n", stderr);
		return 2;
	}
	printf("%u claims held, %u did not\n", held, broken);
	return broken != 0;
}
