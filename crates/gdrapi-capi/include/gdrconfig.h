/*
 * gdrconfig.h: names the processor architecture the compiler builds for.
 *
 * One of GDRAPI_X86, GDRAPI_ARM64 and GDRAPI_POWER is defined, as programs written for gdrcopy expect. This library
 * itself is built for x86_64 and aarch64.
 */
#ifndef GDRCONFIG_H
#define GDRCONFIG_H

#ifndef __GNUC__
#error "gdrconfig.h knows GCC and compilers that follow it (__GNUC__)"
#endif

#if defined(__x86_64__) || defined(__i386__)
#define GDRAPI_X86
#elif defined(__aarch64__)
#define GDRAPI_ARM64
#elif defined(__powerpc__)
#define GDRAPI_POWER
#else
#error "gdrconfig.h knows x86, arm64 and power"
#endif

#endif /* GDRCONFIG_H */
