/* Fails chosen system calls on files below one folder: loaded before libc, told what to fail by the test. */
#include "../../tools/libc_calls.h"

static char root[PATH_MAX];
static long countdown = -1; /* calls until the first failure; -1 never */
static long left = 0;       /* failures still to come */
static long seen = 0;       /* calls on files below the root */
static int code = 0;

void failing_set(const char *folder, long at, long times, int number) {
    strncpy(root, folder, sizeof root - 1);
    countdown = at; left = times; code = number; seen = 0;
}
long failing_seen(void) { return seen; }

static int fails(void) {
    seen++;
    if (countdown < 0) return 0;
    if (countdown > 0) { countdown--; return 0; }
    if (left <= 0) return 0;
    left--;
    errno = code;
    return 1;
}
static int below(const char *path) { return root[0] && path && strncmp(path, root, strlen(root)) == 0; }
static int descriptor_below(int fd) {
    char path[PATH_MAX];
    return root[0] && path_of(fd, path) && below(path);
}

int open(const char *path, int flags, ...) { REAL(open); MODE if (below(path) && fails()) return -1; return real(path, flags, mode); }
int open64(const char *path, int flags, ...) { REAL(open64); MODE if (below(path) && fails()) return -1; return real(path, flags, mode); }
ssize_t read(int fd, void *to, size_t n) { REAL(read); if (descriptor_below(fd) && fails()) return -1; return real(fd, to, n); }
ssize_t write(int fd, const void *from, size_t n) { REAL(write); if (descriptor_below(fd) && fails()) return -1; return real(fd, from, n); }
int fsync(int fd) { REAL(fsync); if (descriptor_below(fd) && fails()) return -1; return real(fd); }
int rename(const char *a, const char *b) { REAL(rename); if (below(a) && fails()) return -1; return real(a, b); }
int unlink(const char *path) { REAL(unlink); if (below(path) && fails()) return -1; return real(path); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); if (below(path) && fails()) return -1; return real(path, mode); }
int stat64(const char *path, struct stat64 *to) { REAL(stat64); if (below(path) && fails()) return -1; return real(path, to); }
int stat(const char *path, struct stat *to) { REAL(stat); if (below(path) && fails()) return -1; return real(path, to); }
int fstat64(int fd, struct stat64 *to) { REAL(fstat64); if (descriptor_below(fd) && fails()) return -1; return real(fd, to); }
void *mmap64(void *at, size_t n, int p, int f, int fd, off64_t o) { REAL(mmap64); if (fd >= 0 && descriptor_below(fd) && fails()) return MAP_FAILED; return real(at, n, p, f, fd, o); }
