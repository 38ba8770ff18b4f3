/*
 * Opens a file in a process that was started without descriptors 0 to 2, and lets the library log: the file gets the number
 * of standard error and must keep its contents. Argument: the file. Linked with the shipped library.
 */
#include <fcntl.h>
#include <unistd.h>

#include "gdrapi.h"

int main(int argc, char **argv)
{
    int file = -1;
    if (argc != 2)
        return 2;
    for (int i = 0; i < 3; ++i)
        file = open(argv[1], O_RDWR);
    if (file != STDERR_FILENO)
        return 3;
    /* An error of the library: no session has this address. */
    gdr_close((gdr_t)0x1);
    return lseek(file, 0, SEEK_END) == 9 ? 0 : 1;
}
