// Loaded before the C library (LD_PRELOAD): makes one call of one kind fail as a full disk, a bad sector or short
// memory would. NARROW_FAULT="kind n" fails the nth call of that kind (see `kinds`), "kind n+" that and all after it.
// NARROW_FAULT_COUNTS=FILE: when the program ends, how often each kind was called, in one line each.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

enum Kind {
  k_open,
  k_stat,
  k_mmap,
  k_read,
  k_write,
  k_close,
  k_link,
  k_rename,
  k_sync,
  k_malloc,
  k_thread,
  k_socket,
  kind_count
};
constexpr const char* kinds[kind_count] = {"open", "stat",   "mmap", "read",   "write",  "close",
                                           "link", "rename", "sync", "malloc", "thread", "socket"};

constinit std::atomic<long> calls[kind_count] = {};
int failing = -1;
long which = 0;
bool and_on = false;
char counts_file[4096];

__attribute__((constructor(101))) void read_request() {
  if (const char* request = getenv("NARROW_FAULT")) {
    for (int k = 0; k < kind_count; ++k) {
      const size_t length = strlen(kinds[k]);
      if (strncmp(request, kinds[k], length) != 0 || request[length] != ' ') continue;
      char* end = nullptr;
      which = strtol(request + length, &end, 10);
      and_on = *end == '+';
      failing = k;
    }
  }
  if (const char* file = getenv("NARROW_FAULT_COUNTS")) strncpy(counts_file, file, sizeof counts_file - 1);
  // What this program starts has faults of its own.
  unsetenv("LD_PRELOAD");
}

__attribute__((destructor(101))) void write_counts() {
  if (counts_file[0] == '\0') return;
  const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, counts_file, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  char line[64];
  for (int k = 0; k < kind_count; ++k) {
    const int length = snprintf(line, sizeof line, "%s %ld\n", kinds[k], calls[k].load());
    if (syscall(SYS_write, file, line, length) < 0) break;
  }
  syscall(SYS_close, file);
}

bool fails(Kind kind, int reason) {
  const long n = ++calls[kind];
  if (failing != kind || (and_on ? n < which : n != which)) return false;
  errno = reason;
  return true;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// The call fails instead, or goes on to the C library.
#define PASS(kind, reason, failure, result, name, parameters, arguments) \
  result name parameters {                                               \
    if (fails(kind, reason)) return failure;                             \
    static const auto real = next<result(*) parameters>(#name);          \
    return real arguments;                                               \
  }

#define OPEN(name, parameters, folder)                                                       \
  int name parameters {                                                                      \
    va_list list;                                                                            \
    va_start(list, flags);                                                                   \
    const unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, unsigned) : 0; \
    va_end(list);                                                                            \
    if (fails(k_open, EMFILE)) return -1;                                                    \
    return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));                 \
  }

extern "C" {

OPEN(open, (const char* path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char* path, int flags, ...), AT_FDCWD)
OPEN(openat, (int folder, const char* path, int flags, ...), folder)
OPEN(openat64, (int folder, const char* path, int flags, ...), folder)
PASS(k_open, EMFILE, nullptr, FILE*, fopen, (const char* path, const char* mode), (path, mode))
PASS(k_open, EMFILE, nullptr, FILE*, fopen64, (const char* path, const char* mode), (path, mode))
PASS(k_stat, EIO, -1, int, fstat, (int file, struct stat* about), (file, about))
PASS(k_stat, EIO, -1, int, fstat64, (int file, struct stat64* about), (file, about))
PASS(k_stat, EIO, -1, int, stat, (const char* path, struct stat* about), (path, about))
PASS(k_stat, EIO, -1, int, stat64, (const char* path, struct stat64* about), (path, about))
PASS(k_stat, EIO, -1, int, lstat, (const char* path, struct stat* about), (path, about))
PASS(k_stat, EIO, -1, int, lstat64, (const char* path, struct stat64* about), (path, about))
PASS(k_mmap, ENOMEM, MAP_FAILED, void*, mmap, (void* at, size_t size, int access, int flags, int file, off_t from),
     (at, size, access, flags, file, from))
PASS(k_mmap, ENOMEM, MAP_FAILED, void*, mmap64, (void* at, size_t size, int access, int flags, int file, off64_t from),
     (at, size, access, flags, file, from))
PASS(k_read, EIO, -1, ssize_t, read, (int file, void* to, size_t size), (file, to, size))
PASS(k_read, EIO, -1, ssize_t, pread, (int file, void* to, size_t size, off_t from), (file, to, size, from))
PASS(k_read, EIO, -1, ssize_t, pread64, (int file, void* to, size_t size, off64_t from), (file, to, size, from))
PASS(k_write, ENOSPC, -1, ssize_t, write, (int file, const void* from, size_t size), (file, from, size))
PASS(k_write, ENOSPC, -1, ssize_t, pwrite, (int file, const void* from, size_t size, off_t to), (file, from, size, to))
PASS(k_write, ENOSPC, -1, ssize_t, pwrite64, (int file, const void* from, size_t size, off64_t to),
     (file, from, size, to))
PASS(k_write, ENOSPC, -1, int, ftruncate, (int file, off_t size), (file, size))
PASS(k_write, ENOSPC, -1, int, ftruncate64, (int file, off64_t size), (file, size))
PASS(k_write, ENOSPC, -1, int, mkdir, (const char* path, mode_t mode), (path, mode))
PASS(k_link, EIO, -1, int, linkat, (int a, const char* from, int b, const char* to, int flags), (a, from, b, to, flags))
PASS(k_rename, EIO, -1, int, rename, (const char* from, const char* to), (from, to))
PASS(k_sync, EIO, -1, int, fsync, (int file), (file))
PASS(k_sync, EIO, -1, int, fdatasync, (int file), (file))
PASS(k_thread, EAGAIN, EAGAIN, int, pthread_create,
     (pthread_t * thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument),
     (thread, attributes, start, argument))
PASS(k_socket, EMFILE, -1, int, socket, (int family, int type, int protocol), (family, type, protocol))
PASS(k_socket, ENOBUFS, -1, int, setsockopt, (int file, int level, int name, const void* value, socklen_t size),
     (file, level, name, value, size))
PASS(k_socket, EADDRINUSE, -1, int, bind, (int file, const sockaddr* address, socklen_t size), (file, address, size))
PASS(k_socket, EADDRINUSE, -1, int, listen, (int file, int length), (file, length))
PASS(k_socket, ENOBUFS, -1, int, getsockname, (int file, sockaddr* address, socklen_t* size), (file, address, size))
PASS(k_socket, EMFILE, -1, int, accept, (int file, sockaddr* address, socklen_t* size), (file, address, size))
PASS(k_socket, ENOMEM, -1, int, poll, (pollfd * files, nfds_t count, int wait), (files, count, wait))
PASS(k_socket, ECONNRESET, -1, ssize_t, recv, (int file, void* to, size_t size, int flags), (file, to, size, flags))
PASS(k_socket, ENOBUFS, -1, ssize_t, send, (int file, const void* from, size_t size, int flags),
     (file, from, size, flags))

int close(int file) {  // the file is closed all the same
  const bool bad = fails(k_close, EIO);
  const int result = static_cast<int>(syscall(SYS_close, file));
  if (bad) errno = EIO;
  return bad ? -1 : result;
}

void* malloc(size_t size) { return fails(k_malloc, ENOMEM) ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails(k_malloc, ENOMEM) ? nullptr : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return fails(k_malloc, ENOMEM) ? nullptr : __libc_realloc(old, size); }
void* memalign(size_t step, size_t size) { return fails(k_malloc, ENOMEM) ? nullptr : __libc_memalign(step, size); }
void* aligned_alloc(size_t step, size_t size) { return memalign(step, size); }
int posix_memalign(void** result, size_t step, size_t size) {
  *result = memalign(step, size);
  return *result == nullptr ? ENOMEM : 0;
}

}  // extern "C"
