/*
 * Opens and closes a session, and fails if libcuda was loaded: gdr_open must be safe before fork(), in programs that
 * initialise CUDA in the child. Prints the result of gdr_open. Linked with the shipped library.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gdrapi.h"

static int loaded(const char *library)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        found |= strstr(line, library) != NULL;
    if (maps != NULL)
        fclose(maps);
    return found;
}

int main(void)
{
    if (!loaded("libgdrapi"))
        return 2;
    for (int i = 0; i < 3; ++i) {
        errno = 0;
        gdr_t g = gdr_open();
        printf("%s %d\n", g != NULL ? "open" : "refused", g != NULL ? 0 : errno);
        if (g != NULL && gdr_close(g) != 0)
            return 3;
    }
    return loaded("libcuda") || loaded("libnvidia") ? 1 : 0;
}
