/* A fake of the kernel's SIOCETHTOOL, for LD_PRELOAD: the statistics of interfaces that the file FAKE_ETHTOOL names, one line each:
 * interface, name, value. Other requests go to the kernel. Written from linux/ethtool.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64

struct statistic {
	char name[ETH_GSTRING_LEN];
	unsigned long long value;
};

/* The interface's statistics, in the order of the file. */
static int read_statistics(const char *interface, struct statistic *found)
{
	const char *path = getenv("FAKE_ETHTOOL");
	FILE *file = path ? fopen(path, "r") : NULL;
	char of[IFNAMSIZ], name[ETH_GSTRING_LEN];
	unsigned long long value;
	int count = 0;

	if (!file)
		return 0;
	while (count < MOST && fscanf(file, "%15s %31s %llu", of, name, &value) == 3)
		if (!strcmp(of, interface)) {
			strncpy(found[count].name, name, ETH_GSTRING_LEN);
			found[count++].value = value;
		}
	fclose(file);
	return count;
}

static int answer(const struct ifreq *request)
{
	struct statistic found[MOST] = { 0 };
	int count = read_statistics(request->ifr_name, found);
	void *data = request->ifr_data;

	if (!count) {
		errno = EOPNOTSUPP;
		return -1;
	}
	switch (*(__u32 *)data) {
	case ETHTOOL_GSSET_INFO: {
		struct ethtool_sset_info *info = data;

		info->sset_mask &= 1ULL << ETH_SS_STATS;
		if (info->sset_mask)
			info->data[0] = count;
		return 0;
	}
	case ETHTOOL_GSTRINGS: {
		struct ethtool_gstrings *strings = data;

		strings->len = count;
		for (int i = 0; i < count; i++)
			memcpy(strings->data + i * ETH_GSTRING_LEN, found[i].name, ETH_GSTRING_LEN);
		return 0;
	}
	case ETHTOOL_GSTATS: {
		struct ethtool_stats *values = data;

		values->n_stats = count;
		for (int i = 0; i < count; i++)
			values->data[i] = found[i].value;
		return 0;
	}
	}
	errno = EOPNOTSUPP;
	return -1;
}

int ioctl(int fd, unsigned long request, ...)
{
	static int (*real)(int, unsigned long, void *);
	va_list list;
	void *data;

	va_start(list, request);
	data = va_arg(list, void *);
	va_end(list);
	if (request == SIOCETHTOOL)
		return answer(data);
	if (!real)
		real = (int (*)(int, unsigned long, void *))dlsym(RTLD_NEXT, "ioctl");
	return real(fd, request, data);
}
