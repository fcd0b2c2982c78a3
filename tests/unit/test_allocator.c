/* The extent allocator: what it gives is free, what comes back is whole again, what it promises it
 * keeps. A model that marks every 4 KiB grain watches thousands of seeded steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "blob/volumes/allocator.h"

#define KIB   1024ull
#define MIB   (1024 * KIB)
#define START MIB

static uint64_t random_state;

static uint64_t random_below(uint64_t bound) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % bound;
}

static struct allocator *open_allocator(uint64_t grown, uint64_t limit) {
    struct allocator *allocator = NULL;
    assert_int_equal(allocator_create(START, grown, limit, &allocator), 0);
    return allocator;
}

static struct extent take(struct allocator *allocator, uint64_t want) {
    struct extent extent;
    uint64_t units = 0, grow_to = 0;
    assert_int_equal(allocator_take(allocator, want, &units, &extent, &grow_to), 0);
    return extent;
}

static int try_take(struct allocator *allocator, uint64_t want, struct extent *extent) {
    uint64_t units = 0, grow_to = 0;
    return allocator_take(allocator, want, &units, extent, &grow_to);
}

static struct allocator_stats stats_of(struct allocator *allocator) {
    struct allocator_stats stats;
    allocator_stats(allocator, &stats);
    return stats;
}

static void used_space_is_taken_before_fresh_space(void **state) {
    (void)state;
    struct allocator *allocator = open_allocator(64 * MIB, 64 * MIB);
    struct extent first = take(allocator, MIB), second = take(allocator, MIB);
    assert_int_equal(first.offset, START);
    assert_int_equal(second.offset, START + MIB);
    allocator_give(allocator, first);
    struct extent again = take(allocator, MIB);
    assert_int_equal(again.offset, first.offset);
    assert_int_equal(stats_of(allocator).fresh, START + 2 * MIB);

    /* Even where it takes two pieces, as long as each is a whole unit. */
    allocator_give(allocator, again);
    struct extent piece = take(allocator, 2 * MIB);
    assert_int_equal(piece.offset, first.offset);
    assert_int_equal(piece.length, MIB);
    allocator_destroy(&allocator);
}

static void the_shortest_extent_that_fits_is_taken(void **state) {
    (void)state;
    struct allocator *allocator = open_allocator(64 * MIB, 64 * MIB);
    uint64_t lengths[] = {512 * KIB, 36 * KIB, 2 * MIB, 32 * KIB, 40 * KIB};
    struct extent extents[5];
    for (int i = 0; i < 5; i++) {
        extents[i] = take(allocator, lengths[i]);
        take(allocator, 4 * KIB); /* keeps the neighbours apart */
    }
    for (int i = 0; i < 5; i++) allocator_give(allocator, extents[i]);
    assert_int_equal(stats_of(allocator).extents_free, 5);
    assert_int_equal(take(allocator, 36 * KIB).offset, extents[1].offset);
    assert_int_equal(take(allocator, 36 * KIB).offset, extents[4].offset);
    assert_int_equal(take(allocator, 300 * KIB).offset, extents[0].offset);
    allocator_destroy(&allocator);
}

static void neighbours_become_one_again(void **state) {
    (void)state;
    struct allocator *allocator = open_allocator(64 * MIB, 64 * MIB);
    struct extent a = take(allocator, MIB), b = take(allocator, MIB), c = take(allocator, MIB);
    allocator_give(allocator, a);
    allocator_give(allocator, c);
    assert_int_equal(stats_of(allocator).extents_free, 2);
    allocator_give(allocator, b);
    assert_int_equal(stats_of(allocator).extents_free, 1);
    assert_int_equal(take(allocator, 3 * MIB).length, 3 * MIB);
    allocator_destroy(&allocator);
}

static void a_device_is_asked_to_grow_only_when_it_must(void **state) {
    (void)state;
    struct allocator *allocator = open_allocator(2 * MIB, 8 * MIB);
    struct extent extent = take(allocator, MIB);
    uint64_t units = 0, grow_to = 0;
    assert_int_equal(allocator_take(allocator, 4 * MIB, &units, &extent, &grow_to), -EAGAIN);
    assert_int_equal(grow_to, 6 * MIB);
    allocator_grown(allocator, 6 * MIB);
    extent = take(allocator, 4 * MIB);
    assert_int_equal(extent.offset, 2 * MIB);

    /* It could not grow further: what is left is given in whole units, then it is full. */
    allocator_grown(allocator, 6 * MIB + 300 * KIB);
    allocator_set_limit(allocator, 0);
    assert_int_equal(take(allocator, 4 * MIB).length, 256 * KIB);
    assert_int_equal(try_take(allocator, 256 * KIB, &extent), ERR_STORAGE_FULL);
    allocator_destroy(&allocator);
}

static void a_promise_keeps_room_from_others(void **state) {
    (void)state;
    struct allocator *allocator = open_allocator(4 * MIB, 4 * MIB); /* three free */
    uint64_t mine = 0, theirs = 0;
    struct extent extent;
    assert_int_equal(allocator_reserve(allocator, 2 * MIB, &mine), 0);
    assert_int_equal(mine, 8);
    assert_int_equal(allocator_reserve(allocator, 2 * MIB, &theirs), ERR_STORAGE_FULL);
    assert_int_equal(theirs, 0);
    assert_int_equal(take(allocator, 4 * MIB).length, MIB); /* what was not promised */
    assert_int_equal(try_take(allocator, 4 * KIB, &extent), ERR_STORAGE_FULL);
    uint64_t grow_to;
    assert_int_equal(allocator_take(allocator, 1536 * KIB, &mine, &extent, &grow_to), 0);
    assert_int_equal(mine, 2);
    allocator_unreserve(allocator, &mine);
    assert_int_equal(mine, 0);
    assert_int_equal(take(allocator, 512 * KIB).length, 512 * KIB);
    assert_int_equal(stats_of(allocator).free_bytes, 0);
    allocator_destroy(&allocator);
}

static void scraps_serve_what_is_short_when_nothing_else_is_left(void **state) {
    (void)state;
    struct allocator *allocator = open_allocator(2 * MIB, 2 * MIB);
    struct extent scrap = take(allocator, 20 * KIB), extent;
    while (try_take(allocator, 4 * KIB, &extent) == 0) {
    }
    allocator_give(allocator, scrap);
    uint64_t units;
    assert_int_equal(allocator_reserve(allocator, 4 * KIB, &units), ERR_STORAGE_FULL);
    assert_int_equal(try_take(allocator, 24 * KIB, &extent), ERR_STORAGE_FULL);
    assert_int_equal(take(allocator, 16 * KIB).offset, scrap.offset);
    allocator_destroy(&allocator);
}

static void what_is_stored_says_what_is_free(void **state) {
    (void)state;
    struct extent used[] = {{2 * MIB, MIB}, {3 * MIB, 4 * KIB}, {5 * MIB, MIB}};
    size_t bad;
    struct allocator *allocator = open_allocator(16 * MIB, 32 * MIB);
    assert_int_equal(allocator_load(allocator, used, 3, &bad), 0);
    struct allocator_stats stats = stats_of(allocator);
    assert_int_equal(stats.extents_free, 2);
    assert_int_equal(stats.fresh, 6 * MIB);
    assert_int_equal(stats.free_bytes, 31 * MIB - 2 * MIB - 4 * KIB);
    assert_int_equal(take(allocator, MIB).offset, START);
    allocator_destroy(&allocator);
}

static void stored_extents_that_cannot_be_are_refused(void **state) {
    (void)state;
    struct extent broken[][2] = {
        {{2 * MIB, MIB}, {3 * MIB - 4 * KIB, MIB}}, /* overlap */
        {{2 * MIB, MIB}, {2 * MIB, MIB}},           /* twice */
        {{2 * MIB, MIB}, {16 * MIB, 4 * KIB}},      /* beyond the device */
        {{2 * MIB, MIB}, {15 * MIB, UINT64_MAX}},   /* absurd length */
        {{2 * MIB, MIB}, {4 * MIB, 100}},           /* not whole grains */
        {{2 * MIB, MIB}, {4 * MIB, 0}},             /* nothing */
    };
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct allocator *allocator = open_allocator(16 * MIB, 16 * MIB);
        size_t bad = 0;
        assert_int_equal(allocator_load(allocator, broken[i], 2, &bad), ERR_STORE_CORRUPT);
        assert_int_equal(bad, 1);
        allocator_destroy(&allocator);
    }
    struct extent in_superblock = {0, MIB};
    struct allocator *allocator = open_allocator(16 * MIB, 16 * MIB);
    size_t bad;
    assert_int_equal(allocator_load(allocator, &in_superblock, 1, &bad), ERR_STORE_CORRUPT);
    allocator_destroy(&allocator);
}

/* ---- the model */

#define VOLUME   (96 * MIB)
#define GRAINS   (VOLUME / ALLOCATOR_GRAIN)
#define HELD_MAX 4096

struct model {
    struct allocator *allocator;
    uint8_t taken[GRAINS];
    struct extent held[HELD_MAX];
    unsigned count;
    uint64_t bytes;
};

static void model_mark(struct model *model, struct extent extent, uint8_t taken) {
    assert_true(extent.length > 0 && extent.length % ALLOCATOR_GRAIN == 0);
    assert_true(extent.offset >= START && extent.offset + extent.length <= VOLUME);
    for (uint64_t at = extent.offset; at < extent.offset + extent.length; at += ALLOCATOR_GRAIN) {
        assert_int_not_equal(model->taken[at / ALLOCATOR_GRAIN], taken);
        model->taken[at / ALLOCATOR_GRAIN] = taken;
    }
    if (taken)
        model->bytes += extent.length;
    else
        model->bytes -= extent.length;
    assert_int_equal(stats_of(model->allocator).free_bytes, VOLUME - START - model->bytes);
}

/* Mostly small, sometimes up to a whole segment, as objects are. */
static uint64_t random_length(void) {
    uint64_t bound = random_below(3) ? 64 : ALLOCATOR_EXTENT_MAX / ALLOCATOR_GRAIN;
    return (1 + random_below(bound)) * ALLOCATOR_GRAIN;
}

static void model_take(struct model *model) {
    struct extent extent;
    uint64_t want = random_length();
    if (model->count == HELD_MAX || try_take(model->allocator, want, &extent)) return;
    assert_true(extent.length == want ||
                (extent.length < want && extent.length % ALLOCATOR_UNIT == 0));
    model_mark(model, extent, 1);
    model->held[model->count++] = extent;
}

/* A blob with a size: all that was promised must come, however the free space is cut up. */
static void model_take_promised(struct model *model) {
    uint64_t left = random_length() * (1 + random_below(4)), units;
    if (model->count + left / ALLOCATOR_UNIT + 1 > HELD_MAX) return;
    if (allocator_reserve(model->allocator, left, &units)) return;
    while (left) {
        struct extent extent;
        uint64_t grow_to;
        assert_int_equal(allocator_take(model->allocator, left, &units, &extent, &grow_to), 0);
        model_mark(model, extent, 1);
        model->held[model->count++] = extent;
        left -= extent.length;
        if (random_below(64) == 0) break; /* the client went away */
    }
    allocator_unreserve(model->allocator, &units);
}

static void model_give(struct model *model) {
    if (!model->count) return;
    unsigned i = (unsigned)random_below(model->count);
    struct extent *held = &model->held[i], part = *held;
    if (part.length > ALLOCATOR_GRAIN && random_below(4) == 0) { /* the unused end only */
        part.length = (1 + random_below(held->length / ALLOCATOR_GRAIN - 1)) * ALLOCATOR_GRAIN;
        part.offset += held->length - part.length;
        held->length -= part.length;
    } else {
        *held = model->held[--model->count];
    }
    allocator_give(model->allocator, part);
    model_mark(model, part, 0);
}

static uint64_t model_runs_below(const struct model *model, uint64_t end) {
    uint64_t runs = 0;
    for (uint64_t i = START / ALLOCATOR_GRAIN; i < end / ALLOCATOR_GRAIN; i++)
        runs += !model->taken[i] && (i == START / ALLOCATOR_GRAIN || model->taken[i - 1]);
    return runs;
}

/* give_out_of_8: how often a step gives back; the volume runs full with few, empty with many. */
static void model_run(struct model *model, unsigned steps, unsigned give_out_of_8) {
    for (unsigned i = 0; i < steps; i++) {
        if (random_below(8) < give_out_of_8)
            model_give(model);
        else if (random_below(4))
            model_take(model);
        else
            model_take_promised(model);
        if (i % 512) continue;
        struct allocator_stats stats = stats_of(model->allocator);
        assert_int_equal(stats.extents_free, model_runs_below(model, stats.fresh));
        assert_int_equal(stats.reserved_units, 0);
    }
}

static void random_use_never_overlaps_and_loses_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        random_state = seed * 0x9e3779b97f4a7c15ull;
        struct model *model = calloc(1, sizeof(*model));
        assert_non_null(model);
        model->allocator = open_allocator(VOLUME, VOLUME);
        model_run(model, 4000, 3);
        model_run(model, 4000, 5);
        model_run(model, 4000, 4);
        while (model->count) model_give(model);
        struct allocator_stats stats = stats_of(model->allocator);
        assert_int_equal(stats.extents_free, 1);
        assert_int_equal(stats.free_bytes, VOLUME - START);
        allocator_destroy(&model->allocator);
        free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(used_space_is_taken_before_fresh_space),
        cmocka_unit_test(the_shortest_extent_that_fits_is_taken),
        cmocka_unit_test(neighbours_become_one_again),
        cmocka_unit_test(a_device_is_asked_to_grow_only_when_it_must),
        cmocka_unit_test(a_promise_keeps_room_from_others),
        cmocka_unit_test(scraps_serve_what_is_short_when_nothing_else_is_left),
        cmocka_unit_test(what_is_stored_says_what_is_free),
        cmocka_unit_test(stored_extents_that_cannot_be_are_refused),
        cmocka_unit_test(random_use_never_overlaps_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
