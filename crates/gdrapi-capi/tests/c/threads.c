/*
 * Eight threads on shared and separate sessions: concurrent pins and mappings of one buffer, random sizes, verified
 * copies, and races for one handle that exactly one thread wins.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

#define THREADS 8
#define PAGES 16

static int rounds;
static gdr_t shared;
static unsigned long buffer;
static pthread_barrier_t barrier;
static gdr_mh_t contested;
static _Atomic int mapped_by, unmapped_by, unpinned_by;
static void *_Atomic contested_va;

static unsigned next(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Pins, maps and copies the thread's memory once. */
static void cycle(gdr_t g, unsigned long own, unsigned *random)
{
    size_t first = next(random) % PAGES, bytes = 1 + next(random) % ((PAGES - first) * GPU_PAGE_SIZE);
    unsigned long address = own + first * GPU_PAGE_SIZE;
    gdr_mh_t handle, again;
    gdr_info_v2_t info;
    void *va;
    EQUALS(0, gdr_pin_buffer(g, address, bytes, 0, 0, &handle));
    EQUALS(0, gdr_pin_buffer_v2(g, address, bytes, 0, &again));
    CHECK(handle.h != again.h);
    EQUALS(0, gdr_map(g, handle, &va, bytes));
    EQUALS(0, gdr_get_info_v2(g, handle, &info));
    CHECK(info.va == address && info.mapped);
    size_t offset = next(random) % bytes, length = 1 + next(random) % (bytes - offset);
    if (length > 20000)
        length = 20000;
    unsigned char out[20000], in[20000], there[20000];
    for (size_t i = 0; i < length; ++i)
        out[i] = (unsigned char)next(random);
    EQUALS(0, gdr_copy_to_mapping(handle, (char *)va + offset, out, length));
    EQUALS(0, gdr_copy_from_mapping(handle, in, (char *)va + offset, length));
    CHECK(memcmp(out, in, length) == 0);
    EQUALS(0, gdr_sim_read(address + offset, there, length));
    CHECK(memcmp(out, there, length) == 0);
    EQUALS(0, gdr_unpin_buffer(g, again));
    if (next(random) % 2)
        EQUALS(0, gdr_unmap(g, handle, va, bytes));
    EQUALS(0, gdr_unpin_buffer(g, handle));
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, va, out, 1));
}

/* All threads map, unmap and unpin one handle: exactly one succeeds. */
static void contest(int number)
{
    if (number == 0) {
        mapped_by = unmapped_by = unpinned_by = 0;
        EQUALS(0, gdr_pin_buffer(shared, buffer, GPU_PAGE_SIZE, 0, 0, &contested));
    }
    pthread_barrier_wait(&barrier);
    void *va = NULL;
    int answer = gdr_map(shared, contested, &va, GPU_PAGE_SIZE);
    if (answer == 0) {
        contested_va = va;
        ++mapped_by;
    } else {
        EQUALS(EAGAIN, answer);
    }
    pthread_barrier_wait(&barrier);
    EQUALS(1, mapped_by);
    answer = gdr_unmap(shared, contested, contested_va, GPU_PAGE_SIZE);
    CHECK(answer == 0 || answer == EINVAL);
    unmapped_by += answer == 0;
    answer = gdr_unpin_buffer(shared, contested);
    CHECK(answer == 0 || answer == EINVAL);
    unpinned_by += answer == 0;
    pthread_barrier_wait(&barrier);
    CHECK(unmapped_by <= 1);
    EQUALS(1, unpinned_by);
    pthread_barrier_wait(&barrier);
}

static void *work(void *argument)
{
    int number = (int)(long)argument;
    unsigned random = 0x9e3779b9u * (unsigned)(number + 1);
    unsigned long memory = gdr_sim_allocate((PAGES + 1) * GPU_PAGE_SIZE);
    unsigned long own = (memory + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    for (int round = 0; round < rounds; ++round) {
        cycle(shared, own, &random);
        contest(number);
        if (round % 4 == number % 4) {
            gdr_t mine = gdr_open();
            CHECK(mine != NULL && mine != shared);
            cycle(mine, own, &random);
            EQUALS(0, gdr_close(mine));
            EQUALS(EINVAL, gdr_close(mine));
        }
    }
    gdr_sim_free(memory);
    return NULL;
}

static long lines(const char *path)
{
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    long count = 0;
    for (int c; (c = fgetc(file)) != EOF;)
        count += c == '\n';
    fclose(file);
    return count;
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? atoi(argv[1]) : 100;
    unsigned long memory = gdr_sim_allocate(2 * GPU_PAGE_SIZE);
    buffer = (memory + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    shared = gdr_open();
    CHECK(shared != NULL);
    pthread_barrier_init(&barrier, NULL, THREADS);
    long before = 0;
    /* The first run fills caches and arenas, the second must leak no mapping. */
    for (int time = 0; time < 2; ++time) {
        pthread_t threads[THREADS];
        for (long i = 0; i < THREADS; ++i)
            EQUALS(0, pthread_create(&threads[i], NULL, work, (void *)i));
        for (int i = 0; i < THREADS; ++i)
            pthread_join(threads[i], NULL);
        if (time == 0)
            before = lines("/proc/self/maps");
    }
    long after = lines("/proc/self/maps");
    if (after > before + 40) {
        fprintf(stderr, "mappings: %ld before, %ld after\n", before, after);
        return 1;
    }
    EQUALS(0, gdr_close(shared));
    gdr_sim_free(memory);
    puts("threads: passed");
    return 0;
}
