/* The name under which libmp installs mp/comm.h too. */
#include <mp/comm.h>
