/* Stacks of fibers: where they come from, and what happens when one is too small.
 *
 * One mapping holds a guard that cannot be touched, the stack, and at the top the struct fiber. A
 * SIGSEGV inside the guard of the running fiber is reported in one line before the process dies;
 * every other SIGSEGV takes the course it had before. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/internal.h"

#define PAGE_BYTES 4096u
/* Four pages, so that a function with a large frame does not step over the guard. */
#define GUARD_BYTES (4 * PAGE_BYTES)

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define STACK_BYTES (4 * FIBER_STACK_SIZE) /* red zones make every frame larger */
#else
#define STACK_BYTES FIBER_STACK_SIZE
#endif
#define MAPPING_BYTES (GUARD_BYTES + STACK_BYTES + PAGE_BYTES)

/* Successive fibers lie at different offsets in their top page: at equal ones, the busiest lines of
 * thousands of stacks would compete for the same few cache sets. */
#define COLOUR_STEP 128u
#define COLOURS     16u
static_assert(COLOUR_STEP * COLOURS + sizeof(struct fiber) < PAGE_BYTES,
              "the top page holds the fiber at every colour");

static _Thread_local unsigned next_colour;

static char *mapping_of(struct fiber *fiber) {
    uintptr_t top_page = (uintptr_t)fiber & ~(uintptr_t)(PAGE_BYTES - 1);
    return (char *)(top_page - STACK_BYTES - GUARD_BYTES);
}

struct fiber *stack_create(void **bottom, void **top) {
    char *mapping = mmap(NULL, MAPPING_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED) return NULL;
    if (mprotect(mapping, GUARD_BYTES, PROT_NONE)) {
        munmap(mapping, MAPPING_BYTES);
        return NULL;
    }
    size_t room = (sizeof(struct fiber) + 63) & ~(size_t)63;
    size_t offset = PAGE_BYTES - room - COLOUR_STEP * (next_colour++ % COLOURS);
    struct fiber *fiber = (struct fiber *)(mapping + GUARD_BYTES + STACK_BYTES + offset);
    *bottom = mapping + GUARD_BYTES;
    *top = fiber;
    return fiber;
}

void stack_bounds(struct fiber *fiber, const void **bottom, size_t *size) {
    char *low = mapping_of(fiber) + GUARD_BYTES;
    *bottom = low;
    *size = (size_t)((char *)fiber - low);
}

void stack_forget(struct fiber *fiber) {
#ifdef __SANITIZE_ADDRESS__
    const void *bottom;
    size_t size;
    stack_bounds(fiber, &bottom, &size);
    __asan_unpoison_memory_region(bottom, size);
#else
    (void)fiber;
#endif
}

void stack_destroy(struct fiber *fiber) {
    stack_forget(fiber);
    munmap(mapping_of(fiber), MAPPING_BYTES);
}

#ifdef __SANITIZE_ADDRESS__

/* ASan has a handler and alternate stacks of its own, and names the overflow itself. */
int stack_guard_begin(struct reactor *reactor) {
    (void)reactor;
    return 0;
}

void stack_guard_end(struct reactor *reactor) {
    (void)reactor;
}

#else

static struct sigaction previous_action;

/* stdio is not for signal handlers: the line is put together by hand. */
static void report_overflow(const struct fiber *fiber) {
    static const char before[] = "penstock: fiber '";
    static const char middle[] = "' overflowed its ";
    static const char after[] = "-byte stack\n";
    char digits[12], *digit = digits + sizeof digits;
    for (unsigned n = FIBER_STACK_SIZE; n; n /= 10) *--digit = (char)('0' + n % 10);

    char line[256], *end = line;
    end = mempcpy(end, before, sizeof before - 1);
    end = mempcpy(end, fiber->name, strnlen(fiber->name, 128));
    end = mempcpy(end, middle, sizeof middle - 1);
    end = mempcpy(end, digit, (size_t)(digits + sizeof digits - digit));
    end = mempcpy(end, after, sizeof after - 1);
    ssize_t written = write(STDERR_FILENO, line, (size_t)(end - line));
    (void)written; /* the process is dying: there is nobody left to tell */
}

static void on_segv(int number, siginfo_t *info, void *context) {
    (void)context;
    struct reactor *reactor = reactor_self();
    struct fiber *fiber = reactor ? reactor->running : NULL;
    if (fiber && info->si_code > 0) {
        const char *guard = mapping_of(fiber);
        const char *touched = info->si_addr;
        if (touched >= guard && touched < guard + GUARD_BYTES) report_overflow(fiber);
    }
    /* Returning runs the faulting instruction again, under the action that was there before us. A
     * signal that someone sent has no such instruction and is sent again. */
    sigaction(number, &previous_action, NULL);
    if (info->si_code <= 0) raise(number);
}

static void install_handler(void) {
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_action);
}

int stack_guard_begin(struct reactor *reactor) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_handler);
    reactor->alternate_stack = malloc(ALTERNATE_STACK_SIZE);
    if (!reactor->alternate_stack) return -ENOMEM;
    stack_t stack = {.ss_sp = reactor->alternate_stack, .ss_size = ALTERNATE_STACK_SIZE};
    return sigaltstack(&stack, NULL) ? -errno : 0;
}

void stack_guard_end(struct reactor *reactor) {
    stack_t stack = {.ss_flags = SS_DISABLE};
    sigaltstack(&stack, NULL);
    free(reactor->alternate_stack);
    reactor->alternate_stack = NULL;
}

#endif
