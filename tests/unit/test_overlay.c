/* The overlay: what a group of batches will have changed, before it is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "meta/overlay.h"

static struct meta_batch *make_batch(void) {
    struct meta_batch *batch = NULL;
    assert_int_equal(meta_batch_create(&batch), 0);
    return batch;
}

static bool holds(const struct overlay *overlay, const char *key, const char *value) {
    const struct batch_op *op = overlay_find(overlay, META_OBJECTS, slice_of(key));
    if (!op || !op->value) return false;
    return slice_is(meta_value_slice(op->value), value);
}

static void test_the_last_operation_on_a_key_is_found(void **state) {
    struct overlay overlay;
    overlay_init(&overlay);
    struct meta_batch *first = make_batch(), *second = make_batch();
    meta_batch_put(first, META_OBJECTS, SLICE_LITERAL("a"), SLICE_LITERAL("1"));
    meta_batch_put(first, META_OBJECTS, SLICE_LITERAL("b"), SLICE_LITERAL("1"));
    meta_batch_put(second, META_OBJECTS, SLICE_LITERAL("a"), SLICE_LITERAL("2"));
    meta_batch_delete(second, META_OBJECTS, SLICE_LITERAL("b"));

    assert_null(overlay_find(&overlay, META_OBJECTS, SLICE_LITERAL("a")));
    assert_int_equal(overlay_add(&overlay, first), 0);
    assert_true(holds(&overlay, "a", "1"));
    assert_true(holds(&overlay, "b", "1"));
    assert_null(overlay_find(&overlay, META_PARTS, SLICE_LITERAL("a")));
    assert_int_equal(overlay_add(&overlay, second), 0);
    assert_true(holds(&overlay, "a", "2"));
    assert_null(overlay_find(&overlay, META_OBJECTS, SLICE_LITERAL("b"))->value);

    overlay_deinit(&overlay);
    meta_batch_destroy(&first);
    meta_batch_destroy(&second);
}

static void test_a_range_has_what_was_put_and_not_deleted(void **state) {
    struct overlay overlay;
    overlay_init(&overlay);
    struct meta_batch *batch = make_batch();
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("b"), SLICE_LITERAL("1"));
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("d"), SLICE_LITERAL("1"));
    meta_batch_delete(batch, META_OBJECTS, SLICE_LITERAL("d"));
    assert_int_equal(overlay_add(&overlay, batch), 0);
    assert_true(overlay_has_put_in(&overlay, META_OBJECTS, SLICE_LITERAL("b"), SLICE_LITERAL("c")));
    assert_false(
        overlay_has_put_in(&overlay, META_OBJECTS, SLICE_LITERAL("a"), SLICE_LITERAL("b")));
    assert_false(
        overlay_has_put_in(&overlay, META_OBJECTS, SLICE_LITERAL("c"), SLICE_LITERAL("z")));
    assert_false(overlay_has_put_in(&overlay, META_PARTS, SLICE_LITERAL("a"), SLICE_LITERAL("z")));
    overlay_deinit(&overlay);
    meta_batch_destroy(&batch);
}

static void test_it_grows_and_is_empty_after_a_clear(void **state) {
    struct overlay overlay;
    overlay_init(&overlay);
    char key[32];
    /* Large and small rounds, so that both ways of clearing are taken. */
    for (unsigned round = 0; round < 6; round++) {
        unsigned count = round % 2 ? 20 : 3000;
        struct meta_batch *batch = make_batch();
        for (unsigned i = 0; i < count; i++) {
            snprintf(key, sizeof(key), "%u-%u", round, i);
            meta_batch_put(batch, META_OBJECTS, slice_of(key), slice_of(key));
        }
        assert_int_equal(overlay_add(&overlay, batch), 0);
        assert_int_equal(overlay.count, count);
        for (unsigned i = 0; i < count; i++) {
            snprintf(key, sizeof(key), "%u-%u", round, i);
            assert_true(holds(&overlay, key, key));
        }
        overlay_clear(&overlay);
        assert_null(overlay_find(&overlay, META_OBJECTS, slice_of(key)));
        for (size_t i = 0; i < overlay.slot_count; i++) assert_int_equal(overlay.slots[i], 0);
        meta_batch_destroy(&batch);
    }
    overlay_deinit(&overlay);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_operation_on_a_key_is_found),
        cmocka_unit_test(test_a_range_has_what_was_put_and_not_deleted),
        cmocka_unit_test(test_it_grows_and_is_empty_after_a_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
