/* A disk whose every flush takes SLOW_FLUSH_US microseconds, whatever is below it.
   Preloaded into the processes of a measurement, so that it can be repeated: on a
   virtual machine a flush takes now 40 and now 4,000. Nothing is flushed in truth. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static int wait_for_the_disk(void)
{
    const char *text = getenv("SLOW_FLUSH_US");
    long us = text ? atol(text) : 0;
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
    return 0;
}

int fsync(int file) { return wait_for_the_disk(); }
int fdatasync(int file) { return wait_for_the_disk(); }
