/* What newer versions of glibc have and the wheel's level has not, for our own code and for the parts of libstdc++
   that are linked statically. Everything here is hidden in the wheel. Where the system has the function after all, it
   is used. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* libstdc++ reads it (2.32): never count references without atomics. */
char __libc_single_threaded = 0;

/* 2.25, where manylinux2014 has 2.17. */
int getentropy(void* buffer, size_t length) {
  return syscall(SYS_getrandom, buffer, length, 0) == (long)length ? 0 : -1;
}

/* 2.30. */
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

/* 2.36: std::random_device. */
uint32_t arc4random(void) {
  uint32_t value = 0;
  while (getentropy(&value, sizeof value) != 0) {
  }
  return value;
}

/* 2.33 made functions of these; before, headers called the ones with a version of the structure. */
struct stat;
int __xstat(int version, const char* path, struct stat* out);
int __lxstat(int version, const char* path, struct stat* out);
int __fxstat(int version, int fd, struct stat* out);
int __fxstatat(int version, int folder, const char* path, struct stat* out, int flags);
enum { kStatVersion = 1 };
int stat(const char* path, struct stat* out) { return __xstat(kStatVersion, path, out); }
int lstat(const char* path, struct stat* out) { return __lxstat(kStatVersion, path, out); }
int fstat(int fd, struct stat* out) { return __fxstat(kStatVersion, fd, out); }
int fstatat(int folder, const char* path, struct stat* out, int flags) {
  return __fxstatat(kStatVersion, folder, path, out, flags);
}

/* 2.28, where manylinux2014 has 2.17: Python's headers ask for offsets of 64 bits, with which newer headers of glibc
   rename `fcntl`. Both are one function on processors of 64 bits. */
int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return fcntl(fd, command, argument);
}

/* 2.30: std::condition_variable with a steady clock. Without it the deadline is moved to the system's clock, which
   is what libstdc++ itself does there. */
typedef int (*CondClockWait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  static CondClockWait found;
  static int is_known;
  if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) {
    CondClockWait here = (CondClockWait)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
    __atomic_store_n(&found, here, __ATOMIC_RELAXED);
    __atomic_store_n(&is_known, 1, __ATOMIC_RELEASE);
  }
  CondClockWait wait = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (wait != NULL) return wait(cond, mutex, clock, until);
  struct timespec now, moved;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &moved);
  moved.tv_sec += until->tv_sec - now.tv_sec;
  moved.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (moved.tv_nsec < 0) {
    moved.tv_nsec += 1000000000L;
    --moved.tv_sec;
  } else if (moved.tv_nsec >= 1000000000L) {
    moved.tv_nsec -= 1000000000L;
    ++moved.tv_sec;
  }
  return pthread_cond_timedwait(cond, mutex, &moved);
}
