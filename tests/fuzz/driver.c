/* Runs a fuzz target without a fuzzing engine: every file of its corpus, then seeded mutations of
 * them, so that plain gcc and the sanitizers find on every build what random bytes can find.
 *
 *   fuzz_x CORPUS_DIR [COUNT]   all files, then COUNT mutations
 *   fuzz_x FILE                 that input alone
 *
 * Input number N depends on the seed, N and the corpus only. FUZZ_SEED sets another seed, FUZZ_ONLY
 * runs one number and writes its input to stdout, for the corpus or a debugger. */
#include <assert.h>
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* The sanitizer's library looks for it by name. */
__attribute__((visibility("default"))) void __asan_on_error(void);

#define INPUT_MAX    (64u * 1024)
#define CORPUS_MAX   1024u
#define DEFAULT_SEED 20130524ull

struct input {
    char name[256];
    size_t size;
    uint8_t *data;
};

static struct input corpus[CORPUS_MAX];
static unsigned corpus_count;

/* ---- say which input it was */

static char current[300] = "nothing yet";

static void print_current(void) {
    static const char text[] = "\nfuzz: failed on ";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    ignored = write(STDERR_FILENO, current, strlen(current));
    ignored = write(STDERR_FILENO, "\n", 1);
    (void)ignored;
}

/* The address sanitizer calls it before it ends the process. */
void __asan_on_error(void) {
    print_current();
}

static void on_signal(int number) {
    print_current();
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- corpus */

static bool corpus_add(const char *directory, const char *name) {
    char path[4096];
    struct stat status;
    struct input *input = &corpus[corpus_count];
    snprintf(path, sizeof(path), "%s%s%s", directory, *directory ? "/" : "", name);
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode) ||
        corpus_count == CORPUS_MAX) {
        fclose(file);
        return false;
    }
    input->data = malloc(INPUT_MAX);
    if (!input->data) abort();
    input->size = fread(input->data, 1, INPUT_MAX, file);
    snprintf(input->name, sizeof(input->name), "%.255s", name);
    fclose(file);
    corpus_count++;
    return true;
}

static int input_order(const void *a, const void *b) {
    const struct input *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* In the order of their names: that of a directory differs between file systems. */
static bool corpus_load(const char *path) {
    DIR *directory = opendir(path);
    if (!directory) return corpus_add("", path);
    for (struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.') corpus_add(path, entry->d_name);
    closedir(directory);
    qsort(corpus, corpus_count, sizeof(*corpus), input_order);
    return corpus_count > 0;
}

/* ---- mutation */

static uint64_t random_state;

static uint64_t random_next(void) { /* splitmix64 */
    uint64_t z = (random_state += 0x9E3779B97F4A7C15ull);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

static size_t random_below(size_t limit) {
    return limit ? (size_t)(random_next() % limit) : 0;
}

static size_t insert_gap(uint8_t *data, size_t size, size_t at, size_t gap) {
    if (gap > INPUT_MAX - size) gap = INPUT_MAX - size;
    memmove(data + at + gap, data + at, size - at);
    return gap;
}

/* Bytes that mean something to parsers come more often than others. */
static uint8_t random_byte(void) {
    static const char special[] = "\0\xff\r\n:;,=&%/+?#\"<> 0-";
    if (random_below(2)) return (uint8_t)special[random_below(sizeof(special) - 1)];
    return (uint8_t)random_next();
}

/* A run of another input, in place of a run of this one. */
static size_t splice(uint8_t *data, size_t size) {
    const struct input *other = &corpus[random_below(corpus_count)];
    if (other->size == 0) return size;
    size_t from = random_below(other->size), run = 1 + random_below(other->size - from);
    size_t at = random_below(size + 1), dropped = random_below(size - at + 1);
    memmove(data + at, data + at + dropped, size - at - dropped);
    size -= dropped;
    run = insert_gap(data, size, at, run);
    memcpy(data + at, other->data + from, run);
    return size + run;
}

/* A run of this input once more, somewhere. */
static size_t repeat(uint8_t *data, size_t size) {
    uint8_t copy[256];
    if (size == 0) return size;
    size_t from = random_below(size), run = 1 + random_below(sizeof(copy) - 1);
    if (run > size - from) run = size - from;
    memcpy(copy, data + from, run);
    size_t at = random_below(size + 1);
    run = insert_gap(data, size, at, run);
    memcpy(data + at, copy, run);
    return size + run;
}

static size_t mutate(uint8_t *data, size_t size) {
    size_t at = random_below(size);
    switch (random_below(7)) {
    case 0: /* flip a bit */
        if (size) data[at] ^= (uint8_t)(1u << random_below(8));
        return size;
    case 1: /* set a byte */
        if (size) data[at] = random_byte();
        return size;
    case 2: /* cut the end off */ return random_below(8) ? size : at;
    case 3: /* drop a run */ {
        size_t run = random_below(1 + random_below(32));
        if (run > size - at) run = size - at;
        memmove(data + at, data + at + run, size - at - run);
        return size - run;
    }
    case 4: /* insert bytes */ {
        size_t run = insert_gap(data, size, at, 1 + random_below(8));
        for (size_t i = 0; i < run; i++) data[at + i] = random_byte();
        return size + run;
    }
    case 5: return splice(data, size);
    default: return repeat(data, size);
    }
}

/* Each input lies in memory of exactly its size, so that a sanitizer sees a read past it. */
static void run_input(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) abort();
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static size_t make_input(uint64_t seed, unsigned long number, uint8_t *data) {
    random_state = seed ^ (number + 1) * 0xD6E8FEB86659FD93ull;
    const struct input *base = &corpus[random_below(corpus_count)];
    size_t size = base->size;
    memcpy(data, base->data, size);
    for (size_t steps = 1 + random_below(8); steps > 0; steps--) size = mutate(data, size);
    assert(size <= INPUT_MAX);
    return size;
}

static void run_mutations(uint64_t seed, unsigned long count) {
    static uint8_t data[INPUT_MAX];
    for (unsigned long number = 0; number < count; number++) {
        size_t size = make_input(seed, number, data);
        snprintf(current, sizeof(current), "FUZZ_SEED=%llu FUZZ_ONLY=%lu", (unsigned long long)seed,
                 number);
        run_input(data, size);
    }
}

static void run_only(uint64_t seed, unsigned long number) {
    static uint8_t data[INPUT_MAX];
    size_t size = make_input(seed, number, data);
    fwrite(data, 1, size, stdout);
    fflush(stdout);
    run_input(data, size);
}

int main(int argc, char **argv) {
    const char *seed_text = getenv("FUZZ_SEED"), *only = getenv("FUZZ_ONLY");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 0) : DEFAULT_SEED;
    if (argc < 2 || !corpus_load(argv[1])) {
        fprintf(stderr, "usage: %s CORPUS_DIR [COUNT] | FILE\n", argv[0]);
        return 2;
    }
    signal(SIGABRT, on_signal);
    signal(SIGSEGV, on_signal);
    signal(SIGBUS, on_signal);
    signal(SIGFPE, on_signal);

    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
    if (only) {
        run_only(seed, strtoul(only, NULL, 0));
    } else {
        fprintf(stderr, "fuzz: %u files, then %lu mutations with FUZZ_SEED=%llu\n", corpus_count,
                count, (unsigned long long)seed);
        for (unsigned i = 0; i < corpus_count; i++) {
            snprintf(current, sizeof(current), "%.255s", corpus[i].name);
            run_input(corpus[i].data, corpus[i].size);
        }
        run_mutations(seed, count);
    }
    for (unsigned i = 0; i < corpus_count; i++) free(corpus[i].data);
    return 0;
}
