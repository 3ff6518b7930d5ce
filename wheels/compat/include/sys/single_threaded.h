/* glibc before 2.32 does not tell whether a process has one thread: assume that it has more. */
#ifndef HAMI_WHEELS_SINGLE_THREADED_H
#define HAMI_WHEELS_SINGLE_THREADED_H

static const char __libc_single_threaded = 0;

#endif
