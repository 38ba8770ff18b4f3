/*
 * Checks for the C programs of crates/gdrapi-capi/tests and crates/gdsync-capi/tests: one that fails says where, and ends the program.
 */
#ifndef SUPPORT_CHECK_H
#define SUPPORT_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                        \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

#define EQUALS(expected, actual)                                                                                           \
    do {                                                                                                                   \
        long long expected_ = (long long)(expected), actual_ = (long long)(actual);                                        \
        if (expected_ != actual_) {                                                                                        \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, actual_, expected_);             \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

#endif
