/* The guard around a copy: a jump buffer for each thread, and a handler that jumps only when the
 * faulting address lies in the mapping that this very thread is copying to or from. Every other
 * fault is passed on as if this file did not exist (a stack overflow, a bug, a sanitizer). */
#include "transfer/guarded_copy.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transfer/stream_copy.h"

struct guard {
    sigjmp_buf jump;
    uintptr_t begin, end;
    volatile sig_atomic_t armed;
};
static _Thread_local struct guard guard;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int install_error;
static struct sigaction previous_bus, previous_segv;

static void pass_on(int number, siginfo_t *info, void *context) {
    const struct sigaction *previous = number == SIGBUS ? &previous_bus : &previous_segv;
    if (previous->sa_flags & SA_SIGINFO)
        previous->sa_sigaction(number, info, context);
    else if (previous->sa_handler != SIG_DFL && previous->sa_handler != SIG_IGN)
        previous->sa_handler(number);
    else
        signal(number, SIG_DFL); /* the instruction runs again and ends the process */
}

/* Only async-signal-safe work happens here. The jump leaves memcpy in the middle, which holds no
 * lock and no state; SA_NODEFER keeps the signal unblocked after it. */
static void on_fault(int number, siginfo_t *info, void *context) {
    uintptr_t address = (uintptr_t)info->si_addr;
    bool ours = guard.armed && info->si_code > 0 && address >= guard.begin && address < guard.end;
    if (!ours) {
        pass_on(number, info, context);
        return;
    }
    guard.armed = 0;
    siglongjmp(guard.jump, 1);
}

static void install(void) {
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, &previous_bus) || sigaction(SIGSEGV, &action, &previous_segv))
        install_error = -errno;
}

int guarded_copy_install(void) {
    pthread_once(&once, install);
    return install_error;
}

int guarded_copy(void *to, const void *from, size_t size, const struct guarded_mapping *mapping) {
    assert(!guard.armed);
    guard.begin = (uintptr_t)mapping->base;
    guard.end = guard.begin + mapping->size;
    if (sigsetjmp(guard.jump, 0)) return -EFAULT;
    guard.armed = 1;
    atomic_signal_fence(memory_order_seq_cst);
    stream_copy(to, from, size);
    atomic_signal_fence(memory_order_seq_cst);
    guard.armed = 0;
    return 0;
}
