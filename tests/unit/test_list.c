/* Listings of objects, compared with a naive model that looks at every key: over seeded random sets
 * of keys, with and without delimiters, in pages of every size. */
#include "object_world.h"

#define KEYS_MAX 64

static struct {
    char *keys[KEYS_MAX];
    unsigned count;
} model;

static int compare_strings(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void model_add_await(const char *key) {
    for (unsigned i = 0; i < model.count; i++)
        if (!strcmp(model.keys[i], key)) return;
    require_result(put_await(key, model.count, model.count), 0);
    model.keys[model.count++] = strdup(key);
    qsort(model.keys, model.count, sizeof(char *), compare_strings);
}

static void model_forget(void) {
    for (unsigned i = 0; i < model.count; i++) free(model.keys[i]);
    model.count = 0;
}

/* The common prefix that stands for key, or key itself. */
static struct slice model_group(const char *key, const struct object_list_query *query) {
    size_t start = query->prefix.size;
    struct slice all = slice_of(key);
    for (size_t i = start; query->delimiter.size && i + query->delimiter.size <= all.size; i++)
        if (!memcmp(key + i, query->delimiter.data, query->delimiter.size))
            return (struct slice){key, i + query->delimiter.size};
    return all;
}

static bool is_shown(const char *key, const struct object_list_query *query) {
    struct slice all = slice_of(key), after = query->after;
    if (!slice_starts_with(all, query->prefix)) return false;
    if (after.size == 0) return true;
    if (slice_compare(all, after) <= 0) return false;
    /* An `after` that is a common prefix stands for all below it. */
    bool is_prefix = query->delimiter.size && after.size > query->prefix.size &&
                     slice_starts_with(all, after) && model_group(key, query).size == after.size;
    return !is_prefix;
}

/* All that is to be shown, as if max were endless. */
static unsigned model_list(const struct object_list_query *query, struct slice *entries) {
    unsigned count = 0;
    for (unsigned i = 0; i < model.count; i++) {
        if (!is_shown(model.keys[i], query)) continue;
        struct slice group = model_group(model.keys[i], query);
        if (count && slice_equal(entries[count - 1], group)) continue;
        entries[count++] = group;
    }
    return count;
}

static void check_entry(const struct object_list_entry *entry, struct slice expected,
                        const struct object_list_query *query) {
    require(slice_equal(entry->key, expected));
    bool grouped = query->delimiter.size &&
                   memmem(expected.data + query->prefix.size, expected.size - query->prefix.size,
                          query->delimiter.data, query->delimiter.size);
    require(entry->is_prefix == grouped);
    if (entry->is_prefix) return;
    char etag[32];
    snprintf(etag, sizeof(etag), "%llu", (unsigned long long)entry->size);
    require(slice_is(entry->etag, etag)); /* size and seed are the same number here */
    require(entry->modified_ms > 0);
}

/* Page through, and compare with the whole. */
static void check_pages_await(struct object_list_query query) {
    struct slice expected[KEYS_MAX];
    unsigned total = model_list(&query, expected), seen = 0;
    char after[OBJECT_KEY_MAX];
    for (;;) {
        struct object_list list;
        require_result(object_list_await(world.store, &world.bucket, &query, &list), 0);
        unsigned left = total - seen;
        require(list.count == (left < query.max ? left : query.max));
        require(list.truncated == (left > query.max));
        for (unsigned i = 0; i < list.count; i++)
            check_entry(&list.entries[i], expected[seen + i], &query);
        seen += list.count;
        bool more = list.truncated;
        if (more) {
            memcpy(after, list.next.data, list.next.size);
            query.after = (struct slice){after, list.next.size};
        }
        object_list_deinit(&list);
        if (!more) break;
    }
    require(seen == total);
}

static void check_every_page_size_await(struct object_list_query query) {
    struct slice expected[KEYS_MAX];
    unsigned total = model_list(&query, expected);
    for (query.max = 1; query.max <= total + 1; query.max++) check_pages_await(query);
}

/* ---- stories */

static void plain_tale(void) {
    const char *const keys[] = {"a", "a/", "a/1", "a/2", "a/b/3", "a0", "b", "b/1", "c/1", "c/2"};
    for (unsigned i = 0; i < 10; i++) model_add_await(keys[i]);
    struct object_list_query query = {.delimiter = slice_of("/"), .max = 1000};
    struct object_list list;
    require_result(object_list_await(world.store, &world.bucket, &query, &list), 0);
    const char *const top[] = {"a", "a/", "a0", "b", "b/", "c/"};
    require(list.count == 6 && !list.truncated);
    for (unsigned i = 0; i < 6; i++) require(slice_is(list.entries[i].key, top[i]));
    require(!list.entries[0].is_prefix && list.entries[1].is_prefix && list.entries[5].is_prefix);
    object_list_deinit(&list);

    query.after = slice_of("a/"); /* all below it is passed */
    query.max = 1;
    require_result(object_list_await(world.store, &world.bucket, &query, &list), 0);
    require(list.count == 1 && slice_is(list.entries[0].key, "a0") && list.truncated);
    require(slice_is(list.next, "a0"));
    object_list_deinit(&list);

    query.max = 0;
    require_result(object_list_await(world.store, &world.bucket, &query, &list), 0);
    require(list.count == 0 && !list.truncated);
    object_list_deinit(&list);

    query = (struct object_list_query){.prefix = slice_of("nothing"), .max = 10};
    require_result(object_list_await(world.store, &world.bucket, &query, &list), 0);
    require(list.count == 0 && !list.truncated);
    object_list_deinit(&list);
    model_forget();
}

static void keys_and_prefixes_are_merged_in_order(void **state) {
    (void)state;
    make_world();
    story(plain_tale);
    end_world();
}

static const char *const pieces[] = {"a", "b",        "/",    "//",   "--",
                                     "-", "\xc3\xa9", "\xff", "\x01", "z/"};

static void random_key(uint64_t *random, char *key) {
    unsigned count = 1 + next_random(random) % 5;
    key[0] = 0;
    for (unsigned i = 0; i < count; i++)
        strcat(key, pieces[next_random(random) % (sizeof(pieces) / sizeof(pieces[0]))]);
}

static void check_random_queries_await(uint64_t *random) {
    const char *const delimiters[] = {"", "/", "--", "\xc3\xa9", "\xff", "//"};
    for (unsigned i = 0; i < 30; i++) {
        char prefix[32] = "", after[32] = "";
        if (next_random(random) % 2) random_key(random, prefix);
        if (next_random(random) % 2) random_key(random, after);
        if (next_random(random) % 4 == 0) strcpy(after, prefix);
        const char *delimiter = delimiters[next_random(random) % 6];
        prefix[next_random(random) % 3] = 0;
        check_every_page_size_await((struct object_list_query){.prefix = slice_of(prefix),
                                                               .delimiter = slice_of(delimiter),
                                                               .after = slice_of(after)});
    }
}

static void random_tale(void) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        uint64_t random = seed;
        for (unsigned i = 0; i < 40; i++) {
            char key[32];
            random_key(&random, key);
            model_add_await(key);
        }
        check_random_queries_await(&random);
        for (unsigned i = 0; i < model.count; i++) require_result(delete_await(model.keys[i]), 0);
        model_forget();
    }
}

static void every_listing_is_what_the_model_says(void **state) {
    (void)state;
    make_world();
    story(random_tale);
    end_world();
}

static void neighbour_tale(void) {
    require_result(put_await("mine", 1, 1), 0);
    struct bucket mine = world.bucket;
    require_result(bucket_create_await(world.store, slice_of("neighbour"), NULL), 0);
    require_result(bucket_get_await(world.store, slice_of("neighbour"), &world.bucket), 0);
    require_result(put_await("\x01theirs", 2, 2), 0);
    struct object_list_query query = {.max = 10};
    struct object_list list;
    require_result(object_list_await(world.store, &mine, &query, &list), 0);
    require(list.count == 1 && !list.truncated && slice_is(list.entries[0].key, "mine"));
    object_list_deinit(&list);
    query.after = slice_of("\xff\xff");
    require_result(object_list_await(world.store, &mine, &query, &list), 0);
    require(list.count == 0 && !list.truncated);
    object_list_deinit(&list);
}

static void a_listing_ends_with_its_bucket(void **state) {
    (void)state;
    make_world();
    story(neighbour_tale);
    end_world();
}

static void long_tale(void) {
    char key[2 * OBJECT_KEY_MAX];
    memset(key, 'k', sizeof(key));
    key[OBJECT_KEY_MAX] = 0;
    require_result(put_await(key, 1, 1), 0);
    struct object_list_query query = {.max = 10, .after = {key, OBJECT_KEY_MAX}};
    struct object_list list;
    key[OBJECT_KEY_MAX] = 'k';
    require_result(object_list_await(world.store, &world.bucket, &query, &list), 0);
    require(list.count == 0);
    object_list_deinit(&list);
    query.after.size = sizeof(key);
    require_result(object_list_await(world.store, &world.bucket, &query, &list), 0);
    require(list.count == 0);
    object_list_deinit(&list);
    query = (struct object_list_query){.max = 10, .prefix = {key, sizeof(key)}};
    require_result(object_list_await(world.store, &world.bucket, &query, &list), 0);
    require(list.count == 0);
    object_list_deinit(&list);
}

static void markers_and_prefixes_may_be_longer_than_keys(void **state) {
    (void)state;
    make_world();
    story(long_tale);
    end_world();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_prefixes_are_merged_in_order),
        cmocka_unit_test(every_listing_is_what_the_model_says),
        cmocka_unit_test(a_listing_ends_with_its_bucket),
        cmocka_unit_test(markers_and_prefixes_may_be_longer_than_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
