// Loaded before the C library (LD_PRELOAD): makes disk syncs slow or failing, and moves the clock. Each call reads its
// parameters from a page that the test shares (HOSTILE_SHIM_PAGE):
//
//     int64  seconds added to the time of day
//     int32  1: fsync and fdatasync fail with EIO
//     int32  ms that fsync and fdatasync take in addition

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
    int64_t clock_seconds;
    int32_t sync_fails;
    int32_t sync_delay_ms;
};

static const volatile struct page *page;

__attribute__((constructor)) static void open_page(void) {
    const char *name = getenv("HOSTILE_SHIM_PAGE");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) page = mapped;
    close(file);
}

static int synchronise(long call, int file) {
    if (page && page->sync_delay_ms > 0) {
        struct timespec pause = {page->sync_delay_ms / 1000, page->sync_delay_ms % 1000 * 1000000L};
        nanosleep(&pause, NULL);
    }
    if (page && page->sync_fails) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(call, file);
}

int fsync(int file) { return synchronise(SYS_fsync, file); }
int fdatasync(int file) { return synchronise(SYS_fdatasync, file); }

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    if (result == 0 && page && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += page->clock_seconds;
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    if (time) *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
