// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Tests the fake gdrdrv against the ABI of gdrdrv 2.x, through ioctl and mmap, in a guest.
 *
 * All numbers, sizes and offsets are literals, not taken from the module's header. Request buffers end with guard bytes,
 * so that a result that is too long or misplaced is detected.
 *
 *     exercise all          behaviour of a freshly loaded fake of 2.6, then of its parameters
 *     exercise data TYPE    one mapping and its bytes; TYPE is 1 (write-combining) or 2 (caching)
 *
 * Exits with 1 and a message on standard error if any check fails.
 */
#define _GNU_SOURCE
#include "ask.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void numbers(void)
{
	struct bytes asked = blank(), wanted = blank();
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
		/* The structure ends at the end of memory: the module must not access more. */
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
	same("a node of minor 1", 0, mknod("/tmp/gdrdrv1", S_IFCHR | 0600, makedev(major(status.st_rdev), 1)));
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

/* One mapping of this type, compared with the memory in both directions. */
static void data(uint32_t type)
{
	unsigned char *at, seen[4096], told[4096];
	int fd = node(), memory = open("/proc/gdrdrv-fake/memory", O_RDWR);
	uint64_t handle;

	same("pin", 0, pin(fd, BASE + 3 * 65536, 2 * 65536, &handle));
	at = map(fd, handle, 2 * 65536);
	claim(at != NULL, "mmap: %s", strerror(errno));
	if (!at)
		return;
	describes(fd, handle, BASE + 3 * 65536, 2 * 65536, type, "mapped");
	for (size_t byte = 0; byte < sizeof(told); byte++)
		told[byte] = (unsigned char)(byte * 7 + 1);
	/* Across the boundary of two GPU pages, whose memory may not be contiguous. */
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
	/* A mapping may cover only the start of the pin. */
	at = map(fd, whole, 4096);
	claim(at != NULL, "map a page: %s", strerror(errno));
	describes(fd, whole, BASE + 65536, 2 * 65536, 1, "a page of it mapped");
	same("map twice", EINVAL, map_error(fd, whole, 4096));
	same("request while mapped", EBUSY, request_type(fd, whole, 1));
	munmap(at, 4096);
	at = map(fd, whole, 2 * 65536);
	claim(at != NULL, "map after unmap: %s", strerror(errno));
	/* A partial unmap counts as unmapped; the rest works until the pin is released. */
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

	/* Offsets beyond 4 GiB, then beyond the range of a file offset. */
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
