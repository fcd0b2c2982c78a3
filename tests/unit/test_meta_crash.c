/* The metadata store after it was closed, refused by the drive, cut off from power, or killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meta_fixture.h"

/* ---- closing and opening again */

static void put_some(void *arg) {
    struct fixture *f = arg;
    char key[32];
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "key-%u", i);
        must(put_await(f, i % META_SPACES, key, key) == 0);
    }
}

static void get_some(void *arg) {
    struct fixture *f = arg;
    char key[32];
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "key-%u", i);
        must(holds_await(f, i % META_SPACES, key, key));
    }
}

static void test_a_store_opened_again_has_everything(void **state) {
    struct fixture *f = *state;
    in_fiber(f, put_some);
    close_store(f);
    assert_null(f->meta);
    open_store(f);
    in_fiber(f, get_some);
    struct meta *twice = NULL;
    log_set_level(LOG_ERROR);
    assert_int_equal(meta_rocksdb_open(f->directory, 0, &twice), -EBUSY);
}

static const char small_object[4096] = "the bytes of a small object";

static void put_small_object(void *arg) {
    struct fixture *f = arg;
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, META_INLINE, SLICE_LITERAL("small"),
                   (struct slice){small_object, sizeof(small_object)});
    must(commit_await(f, batch) == 0);
}

static void get_small_object(void *arg) {
    struct fixture *f = arg;
    struct meta_value *value = NULL;
    must(meta_get_await(f->meta, META_INLINE, SLICE_LITERAL("small"), &value) == 0);
    must(value->size == sizeof(small_object));
    must(memcmp(value->data, small_object, sizeof(small_object)) == 0);
    meta_value_unref(&value);
}

/* What is not in memory is read by a worker, once; then it is. */
static void test_only_what_is_not_in_memory_goes_to_a_worker(void **state) {
    struct fixture *f = *state;
    in_fiber(f, put_some);
    in_fiber(f, put_small_object);
    close_store(f);
    open_store(f);
    struct meta_stats cold, warm;
    in_fiber(f, get_some);
    in_fiber(f, get_small_object);
    meta_stats(f->meta, &cold);
    in_fiber(f, get_some);
    in_fiber(f, get_small_object);
    meta_stats(f->meta, &warm);
    assert_true(cold.worker_gets >= META_SPACES);
    assert_int_equal(warm.worker_gets, cold.worker_gets);
    assert_true(warm.engine_gets > cold.engine_gets);
}

/* ---- failures */

/* Files can grow no further: writes of the engine fail, in the middle of its log. */
static void commit_until_refused(void *arg) {
    struct fixture *f = arg;
    static const char value[64 * 1024];
    char key[32];
    for (unsigned i = 0;; i++) {
        must(i < 1000);
        snprintf(key, sizeof(key), "key-%u", i);
        struct meta_batch *batch = new_batch();
        meta_batch_put(batch, META_INLINE, slice_of(key), (struct slice){value, sizeof(value)});
        meta_batch_put(batch, META_OBJECTS, slice_of(key), slice_of(key));
        int err = commit_await(f, batch);
        must(err == 0 || err == -EIO);
        must(holds_await(f, META_OBJECTS, key, err ? NULL : key));
        if (err) return;
    }
}

static void still_refuses(void *arg) {
    struct fixture *f = arg;
    must(put_await(f, META_OBJECTS, "more", "1") == -EIO);
    must(holds_await(f, META_OBJECTS, "key-0", "key-0"));
}

static void starts_afresh(void *arg) {
    struct fixture *f = arg;
    must(holds_await(f, META_OBJECTS, "key-0", "key-0"));
    must(put_await(f, META_OBJECTS, "more", "1") == 0);
}

static void test_after_a_failed_write_the_store_only_reads(void **state) {
    struct fixture *f = *state;
    struct rlimit old, limit = {.rlim_cur = 2 * MIB};
    getrlimit(RLIMIT_FSIZE, &old);
    limit.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    in_fiber(f, commit_until_refused);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    in_fiber(f, still_refuses);
    close_store(f);
    open_store(f);
    in_fiber(f, starts_afresh);
}

/* ---- a power cut. A copy of the files of an open store is what a cut would leave; the end of its
 * log is then damaged in the ways that it may be. */

struct damage {
    const char *what;
    off_t cut;          /* bytes off the end */
    const char *append; /* a byte to append 300 times */
    bool flip;          /* the last byte */
    bool last_survives;
};

static int is_log(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot && !strcmp(dot, ".log");
}

static int open_newest_log(const char *directory) {
    struct dirent **logs;
    int count = scandir(directory, &logs, is_log, alphasort);
    must(count > 0);
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", directory, logs[count - 1]->d_name);
    for (int i = 0; i < count; i++) free(logs[i]);
    free(logs);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    must(fd >= 0);
    return fd;
}

static void damage_log(const char *directory, const struct damage *damage) {
    int fd = open_newest_log(directory);
    off_t size = lseek(fd, 0, SEEK_END);
    must(size > damage->cut);
    must(ftruncate(fd, size - damage->cut) == 0);
    for (unsigned i = 0; damage->append && i < 300; i++) must(write(fd, damage->append, 1) == 1);
    if (damage->flip) {
        char byte;
        must(pread(fd, &byte, 1, size - 1) == 1);
        byte ^= 1;
        must(pwrite(fd, &byte, 1, size - 1) == 1);
    }
    close(fd);
}

static int has_key(struct meta_cursor *cursor, void *arg) {
    meta_cursor_seek(cursor, slice_of(arg));
    return meta_cursor_valid(cursor) && slice_is(meta_cursor_key(cursor), arg) ? 0 : ERR_NOT_FOUND;
}

static void put_blocking(struct meta *meta, const char *key) {
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, META_OBJECTS, slice_of(key), slice_of(key));
    assert_int_equal(meta_commit_blocking(meta, batch), 0);
    meta_batch_destroy(&batch);
}

static void open_after_power_cut(const char *directory, const struct damage *damage) {
    char copy[80], command[256];
    snprintf(copy, sizeof(copy), "%s/copy", directory);
    snprintf(command, sizeof(command), "mkdir %s && cp %s/[0-9CIMO]* %s", copy, directory, copy);
    assert_int_equal(system(command), 0);
    damage_log(copy, damage);
    struct meta *meta = NULL;
    assert_int_equal(meta_rocksdb_open(copy, MIB, &meta), 0);
    int last = damage->last_survives ? 0 : ERR_NOT_FOUND;
    assert_int_equal(meta_scan_blocking(meta, META_OBJECTS, has_key, "first"), 0);
    assert_int_equal(meta_scan_blocking(meta, META_OBJECTS, has_key, "last"), last);
    put_blocking(meta, "next");
    meta_close(&meta);
    nftw(copy, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void test_a_torn_end_of_the_log_costs_only_what_was_torn(void **state) {
    struct fixture *f = *state;
    put_blocking(f->meta, "first");
    put_blocking(f->meta, "last");
    const struct damage damages[] = {
        {.what = "nothing", .last_survives = true},
        {.what = "cut short", .cut = 7},
        {.what = "whole in length, wrong in content", .flip = true},
        {.what = "grown, not written", .append = "", .last_survives = true},
        {.what = "old bytes of the drive", .append = "\xa5", .last_survives = true},
    };
    for (unsigned i = 0; i < 5; i++) {
        print_message("  the end of the log: %s\n", damages[i].what);
        open_after_power_cut(f->directory, &damages[i]);
    }
}

/* ---- the death of the process. The writer is this program, run again with a directory. */

#define WRITERS     16
#define KILL_AFTER  400
#define RECORD_SIZE 16

static void write_for_ever(struct fixture *f, unsigned index, void *arg) {
    static const char value[3000];
    for (unsigned i = 0;; i++) {
        char key[RECORD_SIZE] = {0};
        snprintf(key, sizeof(key), "%u-%u", index, i);
        struct meta_batch *batch = new_batch();
        meta_batch_put(batch, META_INLINE, slice_of(key), (struct slice){value, sizeof(value)});
        meta_batch_put(batch, META_OBJECTS, slice_of(key), slice_of(key));
        must(meta_commit_await(f->meta, batch, i % 2 ? META_CRASH : META_DURABLE) == 0);
        meta_batch_destroy(&batch);
        must(write(STDOUT_FILENO, key, sizeof(key)) == sizeof(key));
    }
}

static int run_writer(const char *directory) {
    struct fixture f = {.cache_bytes = MIB};
    snprintf(f.directory, sizeof(f.directory), "%s", directory);
    open_store(&f);
    in_crowd(&f, WRITERS, write_for_ever, NULL);
    return 0;
}

static pid_t start_writer(const char *directory, int *acknowledged) {
    int pipe_fds[2];
    must(pipe2(pipe_fds, O_CLOEXEC) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        execl("/proc/self/exe", "writer", directory, (char *)NULL);
        _exit(127);
    }
    close(pipe_fds[1]);
    *acknowledged = pipe_fds[0];
    return pid;
}

struct survivors {
    char (*keys)[RECORD_SIZE];
    unsigned count;
};

static int find_all(struct meta_cursor *cursor, void *arg) {
    const struct survivors *survivors = arg;
    for (unsigned i = 0; i < survivors->count; i++) {
        struct slice key = slice_of(survivors->keys[i]);
        meta_cursor_seek(cursor, key);
        if (!meta_cursor_valid(cursor) || !slice_equal(meta_cursor_key(cursor), key)) {
            fprintf(stderr, "acknowledged, then lost: %s\n", survivors->keys[i]);
            return ERR_NOT_FOUND;
        }
    }
    return 0;
}

static void test_a_killed_process_loses_no_acknowledged_commit(void **state) {
    struct fixture *f = *state;
    close_store(f);
    for (unsigned round = 0; round < 2; round++) {
        int acknowledged;
        pid_t pid = start_writer(f->directory, &acknowledged);
        struct survivors survivors = {.keys = calloc(1 << 16, RECORD_SIZE)};
        must(survivors.keys);
        while (read(acknowledged, survivors.keys[survivors.count], RECORD_SIZE) == RECORD_SIZE) {
            if (++survivors.count == KILL_AFTER) kill(pid, SIGKILL);
            must(survivors.count < 1 << 16);
        }
        close(acknowledged);
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_true(survivors.count >= KILL_AFTER);

        open_store(f);
        assert_int_equal(meta_scan_blocking(f->meta, META_OBJECTS, find_all, &survivors), 0);
        assert_int_equal(meta_scan_blocking(f->meta, META_INLINE, find_all, &survivors), 0);
        if (round == 0) close_store(f);
        free(survivors.keys);
    }
}

int main(int argc, char **argv) {
    if (argc == 2) return run_writer(argv[1]);
    const struct CMUnitTest tests[] = {
        TEST(test_a_store_opened_again_has_everything),
        TEST(test_only_what_is_not_in_memory_goes_to_a_worker),
        TEST(test_after_a_failed_write_the_store_only_reads),
        TEST(test_a_torn_end_of_the_log_costs_only_what_was_torn),
        TEST(test_a_killed_process_loses_no_acknowledged_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
