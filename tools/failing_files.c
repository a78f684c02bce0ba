/* Faults of the machine, for tools/run_faults.py: loaded before libc, described by environment variables.

   FAULT_FILES  patterns of paths, separated by ':'; system calls on matching files fail
   FAULT_ERRNO  the number of their error
   FAULT_CLOCK  seconds that are added to the wall clock ...
   FAULT_AFTER  ... after so many readings of it
   FAULT_MARK   a file that is created when one of them takes effect */
#include "libc_calls.h"
#include <fnmatch.h>
#include <time.h>

static void mark(void) {
    const char *path = getenv("FAULT_MARK");
    if (path) close(creat(path, 0600));
}
static int matches(const char *path) {
    const char *patterns = getenv("FAULT_FILES"), *number = getenv("FAULT_ERRNO");
    if (!patterns || !number || !path || strlen(patterns) >= PATH_MAX) return 0;
    char copy[PATH_MAX], *rest = NULL;
    strcpy(copy, patterns);
    for (char *each = strtok_r(copy, ":", &rest); each; each = strtok_r(NULL, ":", &rest))
        if (fnmatch(each, path, 0) == 0) { mark(); errno = atoi(number); return 1; }
    return 0;
}
static int opened(int fd) {
    char path[PATH_MAX];
    return getenv("FAULT_FILES") && path_of(fd, path) && matches(path);
}

int open(const char *path, int flags, ...) { REAL(open); MODE if (matches(path)) return -1; return real(path, flags, mode); }
int open64(const char *path, int flags, ...) { REAL(open64); MODE if (matches(path)) return -1; return real(path, flags, mode); }
FILE *fopen(const char *path, const char *how) { REAL(fopen); if (matches(path)) return NULL; return real(path, how); }
FILE *fopen64(const char *path, const char *how) { REAL(fopen64); if (matches(path)) return NULL; return real(path, how); }
ssize_t read(int fd, void *to, size_t n) { REAL(read); if (opened(fd)) return -1; return real(fd, to, n); }
ssize_t write(int fd, const void *from, size_t n) { REAL(write); if (opened(fd)) return -1; return real(fd, from, n); }
ssize_t pread64(int fd, void *to, size_t n, off64_t at) { REAL(pread64); if (opened(fd)) return -1; return real(fd, to, n, at); }
ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at) { REAL(pwrite64); if (opened(fd)) return -1; return real(fd, from, n, at); }
int fsync(int fd) { REAL(fsync); if (opened(fd)) return -1; return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); if (opened(fd)) return -1; return real(fd); }
int rename(const char *a, const char *b) { REAL(rename); if (matches(a) || matches(b)) return -1; return real(a, b); }
int link(const char *a, const char *b) { REAL(link); if (matches(a) || matches(b)) return -1; return real(a, b); }
int unlink(const char *path) { REAL(unlink); if (matches(path)) return -1; return real(path); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); if (matches(path)) return -1; return real(path, mode); }
int stat(const char *path, struct stat *to) { REAL(stat); if (matches(path)) return -1; return real(path, to); }
int stat64(const char *path, struct stat64 *to) { REAL(stat64); if (matches(path)) return -1; return real(path, to); }
void *mmap64(void *at, size_t n, int p, int f, int fd, off64_t o) { REAL(mmap64); if (fd >= 0 && opened(fd)) return MAP_FAILED; return real(at, n, p, f, fd, o); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    static long readings = 0;
    int code = real(clock, now);
    const char *seconds = getenv("FAULT_CLOCK"), *after = getenv("FAULT_AFTER");
    if (clock == CLOCK_REALTIME && seconds && readings++ >= (after ? atol(after) : 0)) {
        static int marked = 0;
        if (!marked++) mark();
        now->tv_sec += atol(seconds);
    }
    return code;
}
