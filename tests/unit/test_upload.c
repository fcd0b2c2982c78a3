/* Multipart uploads: parts become one object in one step or not at all, and nothing is left over
 * whatever way an upload ends. */
#include "base/encode.h"
#include "object_world.h"

#define PART OBJECT_PART_MIN

/* ---- steps */

struct upload_options {
    enum digest_kind kind;
    bool composite;
};

static struct upload *begin_await(const char *key, struct upload_options options) {
    const struct object_header header = {SLICE_LITERAL("content-type"), SLICE_LITERAL("x/y")};
    struct upload_info info = {.key = slice_of(key),
                               .checksum_kind = options.kind,
                               .checksum_composite = options.composite,
                               .headers = &header,
                               .header_count = 1};
    require_result(upload_create_await(world.store, &world.bucket, &info), 0);
    require(strlen(info.id) == UPLOAD_ID_SIZE && info.created_ms > 0);
    struct upload *upload = NULL;
    require_result(
        upload_open_await(world.store, &world.bucket, info.key, slice_of(info.id), &upload), 0);
    require(slice_is(upload_info(upload)->key, key));
    require(upload_info(upload)->checksum_kind == options.kind);
    require(upload_info(upload)->header_count == 1);
    return upload;
}

/* A part with the MD5 of its bytes as ETag, and the checksum that the upload declared. */
static struct part_info put_part_await(struct upload *upload, unsigned number, uint64_t seed,
                                       uint64_t size) {
    enum digest_kind kind = upload_info(upload)->checksum_kind;
    struct part_info part = {.number = number, .checksum = {.kind = kind}};
    struct digest *digest = NULL;
    require_result(digest_create(DIGEST_MD5 | kind, &digest), 0);
    struct blob_writer *writer = write_bytes_await(seed, size, digest);
    uint8_t md5[DIGEST_MAX_SIZE];
    digest_final(digest, DIGEST_MD5, md5);
    hex_encode(md5, MD5_SIZE, part.etag);
    if (kind) digest_final(digest, kind, part.checksum.value);
    digest_destroy(&digest);
    require_result(upload_put_part_await(world.store, upload, &part, &writer), 0);
    require(writer == NULL && part.size == size && part.modified_ms > 0);
    return part;
}

struct result {
    char etag[OBJECT_ETAG_MAX + 1];
    struct object_checksum checksum;
};

static int complete_await(struct upload *upload, const struct part_info *parts, size_t count,
                          struct result *result) {
    return upload_complete_await(world.store, &world.bucket, upload, parts, count, NULL, NULL,
                                 result->etag, &result->checksum);
}

static int reopen_await(const char *key, const char *id) {
    struct upload *upload = NULL;
    int err = upload_open_await(world.store, &world.bucket, slice_of(key), slice_of(id), &upload);
    upload_close(&upload);
    return err;
}

/* Parts 0.. of the object have these seeds and, but for the last, the least size. */
static uint8_t expect_parts(const void *seeds, uint64_t position) {
    return byte_at(((const uint64_t *)seeds)[position / PART], position % PART);
}

static void check_multipart_await(const char *key, const uint64_t *seeds, unsigned count,
                                  uint64_t last) {
    struct object *object = open_await(key);
    uint64_t size = (count - 1) * PART + last;
    require(object_info(object)->size == size);
    require(object_info(object)->part_count == count);
    require(object_info(object)->header_count == 1);
    require(slice_is(object_info(object)->headers[0].value, "x/y"));
    check_range_await(object, 0, size, expect_parts, seeds);
    if (count > 1) check_range_await(object, PART - 10, 20, expect_parts, seeds);
    for (unsigned number = 1; number <= count; number++) {
        uint64_t offset, length;
        require_result(object_part_range(object, number, &offset, &length), 0);
        require(offset == (number - 1) * PART);
        require(length == (number == count ? last : PART));
        check_range_await(object, offset, length, expect_parts, seeds);
    }
    uint64_t offset, length;
    require_result(object_part_range(object, 0, &offset, &length), ERR_INVALID_PART);
    require_result(object_part_range(object, count + 1, &offset, &length), ERR_INVALID_PART);
    object_close(&object);
}

/* ---- stories */

static void whole_tale(void) {
    require_result(put_await("film", 99, 3 * MIB), 0);
    uint64_t before = used_bytes();
    struct upload *upload = begin_await("film", (struct upload_options){0});
    struct part_info parts[3];
    /* In any order, with holes in the numbers, and one of them twice. */
    parts[1] = put_part_await(upload, 5, 2, PART);
    parts[2] = put_part_await(upload, 9, 3, 1000);
    parts[0] = put_part_await(upload, 2, 77, PART);
    uint64_t used = used_bytes();
    parts[0] = put_part_await(upload, 2, 1, PART);
    require(used_bytes() == used);
    put_part_await(upload, 7, 4, PART); /* will not be named */
    check_object_await("film", 99, 3 * MIB);

    struct result result;
    require_result(complete_await(upload, parts, 3, &result), 0);
    const uint64_t seeds[] = {1, 2, 3};
    check_multipart_await("film", seeds, 3, 1000);
    require(used_bytes() < before + 2 * PART); /* the old object and the unused part are gone */
    uint8_t md5s[3 * MD5_SIZE], md5[DIGEST_MAX_SIZE];
    for (unsigned i = 0; i < 3; i++)
        hex_decode(slice_of(parts[i].etag), md5s + i * MD5_SIZE, MD5_SIZE);
    struct digest *digest = NULL;
    require_result(digest_create(DIGEST_MD5, &digest), 0);
    digest_update(digest, md5s, sizeof(md5s));
    digest_final(digest, DIGEST_MD5, md5);
    digest_destroy(&digest);
    char etag[2 * MD5_SIZE + 3];
    hex_encode(md5, MD5_SIZE, etag);
    strcat(etag, "-3");
    require(!strcmp(result.etag, etag));
    require(reopen_await("film", upload_info(upload)->id) == ERR_NO_SUCH_UPLOAD);
    upload_close(&upload);
    require_result(delete_await("film"), 0);
}

static void parts_become_one_object(void **state) {
    (void)state;
    make_world();
    uint64_t empty = used_bytes();
    story(whole_tale);
    assert_int_equal(used_bytes(), empty);
    end_world();
}

static void refusal_tale(void) {
    struct upload *upload = begin_await("no", (struct upload_options){.kind = DIGEST_CRC32});
    struct part_info small = put_part_await(upload, 1, 1, 100);
    struct part_info big = put_part_await(upload, 2, 2, PART);
    struct result result;
    require_result(complete_await(upload, NULL, 0, &result), ERR_MALFORMED_XML);
    require_result(complete_await(upload, (struct part_info[]){small, big}, 2, &result),
                   ERR_ENTITY_TOO_SMALL);
    require_result(complete_await(upload, (struct part_info[]){big, small}, 2, &result),
                   ERR_INVALID_PART_ORDER);
    require_result(complete_await(upload, (struct part_info[]){big, big}, 2, &result),
                   ERR_INVALID_PART_ORDER);
    struct part_info wrong = big;
    wrong.number = 3;
    require_result(complete_await(upload, &wrong, 1, &result), ERR_INVALID_PART);
    wrong = big;
    wrong.etag[0] ^= 1;
    require_result(complete_await(upload, &wrong, 1, &result), ERR_INVALID_PART);
    wrong = big;
    wrong.checksum.value[0] ^= 1;
    require_result(complete_await(upload, &wrong, 1, &result), ERR_INVALID_PART);
    struct object_checksum expected = big.checksum;
    expected.value[3] ^= 1;
    require_result(upload_complete_await(world.store, &world.bucket, upload, &big, 1, NULL,
                                         &expected, result.etag, &result.checksum),
                   ERR_BAD_DIGEST);
    struct object_condition only = {.if_match = "*"};
    require_result(upload_complete_await(world.store, &world.bucket, upload, &big, 1, &only, NULL,
                                         result.etag, &result.checksum),
                   ERR_NO_SUCH_KEY);
    struct blob_writer *writer = write_bytes_await(1, 10, NULL);
    struct part_info none = {.number = 0};
    require_result(upload_put_part_await(world.store, upload, &none, &writer), ERR_TOO_MANY_PARTS);
    none.number = OBJECT_PARTS_MAX + 1;
    require_result(upload_put_part_await(world.store, upload, &none, &writer), ERR_TOO_MANY_PARTS);
    blob_writer_abort_await(&writer);
    require(!is_there_await("no"));
    require_result(complete_await(upload, &big, 1, &result), 0); /* nothing of it did harm */
    upload_close(&upload);
    check_multipart_await("no", (const uint64_t[]){2}, 1, PART);

    struct upload_info odd = {.key = slice_of("odd"), .checksum_kind = DIGEST_SHA256};
    require_result(upload_create_await(world.store, &world.bucket, &odd), ERR_INVALID_REQUEST);
    odd.checksum_kind = DIGEST_CRC64NVME;
    odd.checksum_composite = true;
    require_result(upload_create_await(world.store, &world.bucket, &odd), ERR_INVALID_REQUEST);
}

static void what_does_not_fit_together_is_refused(void **state) {
    (void)state;
    make_world();
    story(refusal_tale);
    end_world();
}

/* The checksum of the object is that of its bytes (or of its parts' checksums), computed from what
 * the parts brought. */
static void check_checksum_await(enum digest_kind kind, bool composite) {
    struct upload *upload = begin_await("sum", (struct upload_options){kind, composite});
    struct part_info parts[2];
    parts[0] = put_part_await(upload, 1, 1, PART);
    parts[1] = put_part_await(upload, 2, 2, 12345);
    struct object_checksum expected = {.kind = kind, .composite = composite};
    struct digest *digest = NULL;
    require_result(digest_create(kind, &digest), 0);
    if (composite) {
        for (unsigned i = 0; i < 2; i++)
            digest_update(digest, parts[i].checksum.value, digest_size(kind));
    } else {
        struct blob_writer *first = write_bytes_await(1, PART, digest);
        struct blob_writer *second = write_bytes_await(2, 12345, digest);
        blob_writer_abort_await(&first);
        blob_writer_abort_await(&second);
    }
    digest_final(digest, kind, expected.value);
    digest_destroy(&digest);
    struct result result;
    require_result(upload_complete_await(world.store, &world.bucket, upload, parts, 2, NULL,
                                         &expected, result.etag, &result.checksum),
                   0);
    upload_close(&upload);
    struct object *object = open_await("sum");
    const struct object_checksum *found = &object_info(object)->checksum;
    require(found->kind == kind && found->composite == composite);
    require(!memcmp(found->value, expected.value, digest_size(kind)));
    object_close(&object);
}

static void checksum_tale(void) {
    check_checksum_await(DIGEST_CRC32, false);
    check_checksum_await(DIGEST_CRC32C, false);
    check_checksum_await(DIGEST_CRC64NVME, false);
    check_checksum_await(DIGEST_CRC32C, true);
    check_checksum_await(DIGEST_SHA1, true);
    check_checksum_await(DIGEST_SHA256, true);
}

static void checksums_of_parts_become_that_of_the_object(void **state) {
    (void)state;
    make_world();
    story(checksum_tale);
    end_world();
}

static void opaque_tale(void) {
    struct upload *upload = begin_await("opaque", (struct upload_options){0});
    struct part_info part = {.number = 1, .etag = "not-an-md5"};
    struct blob_writer *writer = write_bytes_await(1, 10, NULL);
    require_result(upload_put_part_await(world.store, upload, &part, &writer), 0);
    struct result result;
    require_result(complete_await(upload, &part, 1, &result), 0);
    require(strlen(result.etag) == 34 && !strcmp(result.etag + 32, "-1"));
    upload_close(&upload);
}

static void parts_without_an_md5_give_an_opaque_etag(void **state) {
    (void)state;
    make_world();
    story(opaque_tale);
    end_world();
}

static void abort_tale(void) {
    uint64_t empty = used_bytes();
    struct upload *upload = begin_await("never", (struct upload_options){0});
    put_part_await(upload, 1, 1, PART);
    put_part_await(upload, 10000, 2, 100);
    require(used_bytes() > empty);
    struct upload *other = begin_await("never", (struct upload_options){0});
    require_result(upload_abort_await(world.store, upload), 0);
    require(used_bytes() == empty);
    require_result(upload_abort_await(world.store, upload), ERR_NO_SUCH_UPLOAD);
    struct part_info late = {.number = 1};
    struct blob_writer *writer = write_bytes_await(1, 10, NULL);
    require_result(upload_put_part_await(world.store, upload, &late, &writer), ERR_NO_SUCH_UPLOAD);
    blob_writer_abort_await(&writer);
    require(reopen_await("never", upload_info(upload)->id) == ERR_NO_SUCH_UPLOAD);
    require(reopen_await("never", upload_info(other)->id) == 0);
    require(reopen_await("other", upload_info(other)->id) == ERR_NO_SUCH_UPLOAD);
    require(reopen_await("never", "no id at all") == ERR_NO_SUCH_UPLOAD);
    upload_close(&upload);
    require_result(upload_abort_await(world.store, other), 0);
    upload_close(&other);
}

static void aborting_leaves_nothing(void **state) {
    (void)state;
    make_world();
    story(abort_tale);
    end_world();
}

static void twice_tale(void) {
    struct upload *upload = begin_await("twice", (struct upload_options){.kind = DIGEST_CRC32C});
    struct part_info part = put_part_await(upload, 1, 1, 100);
    struct result first, again = {0};
    require_result(complete_await(upload, &part, 1, &first), 0);
    require_result(complete_await(upload, &part, 1, &again), 0);
    require(!strcmp(first.etag, again.etag));
    require(!memcmp(&first.checksum, &again.checksum, sizeof(first.checksum)));
    struct slice key = slice_of("twice"), id = slice_of(upload_info(upload)->id);
    again = (struct result){0};
    require_result(
        upload_completed_await(world.store, &world.bucket, key, id, again.etag, &again.checksum),
        0);
    require(!strcmp(first.etag, again.etag));
    /* Once another object has the name, nobody remembers. */
    require_result(put_await("twice", 5, 5), 0);
    require_result(
        upload_completed_await(world.store, &world.bucket, key, id, again.etag, &again.checksum),
        ERR_NO_SUCH_UPLOAD);
    require_result(complete_await(upload, &part, 1, &again), ERR_NO_SUCH_UPLOAD);
    upload_close(&upload);
}

static void completing_again_answers_the_same(void **state) {
    (void)state;
    make_world();
    story(twice_tale);
    end_world();
}

/* ---- races: parts are put while others complete or abort */

static struct {
    char id[UPLOAD_ID_SIZE + 1];
    struct part_info part;
} raced;

static void begin_raced(void) {
    struct upload *upload = begin_await("raced", (struct upload_options){0});
    raced.part = put_part_await(upload, 1, 1, 100);
    strcpy(raced.id, upload_info(upload)->id);
    upload_close(&upload);
}

enum racer { RACER_PUT, RACER_COMPLETE, RACER_ABORT };

struct racer_job {
    enum racer racer;
    unsigned number;
    int err;
};

static void race(void *arg) {
    struct racer_job *job = arg;
    struct upload *upload = NULL;
    job->err = upload_open_await(world.store, &world.bucket, slice_of("raced"), slice_of(raced.id),
                                 &upload);
    struct result result;
    if (job->err && job->racer == RACER_COMPLETE) /* as s3/ does: another may have completed it */
        job->err = upload_completed_await(world.store, &world.bucket, slice_of("raced"),
                                          slice_of(raced.id), result.etag, &result.checksum);
    if (!upload) return;
    if (job->racer == RACER_PUT) {
        struct part_info part = {.number = job->number};
        struct blob_writer *writer = write_bytes_await(job->number, 20 * KIB, NULL);
        job->err = upload_put_part_await(world.store, upload, &part, &writer);
        blob_writer_abort_await(&writer);
    } else if (job->racer == RACER_COMPLETE) {
        job->err = complete_await(upload, &raced.part, 1, &result);
    } else {
        job->err = upload_abort_await(world.store, upload);
    }
    upload_close(&upload);
}

static void delete_raced(void) {
    require_result(delete_await("raced"), 0);
}

static void no_part_survives_its_upload(void **state) {
    (void)state;
    make_world();
    uint64_t empty = used_bytes();
    for (unsigned round = 0; round < 20; round++) {
        story(begin_raced);
        struct racer_job jobs[20];
        for (unsigned i = 0; i < 20; i++) jobs[i] = (struct racer_job){RACER_PUT, 2 + i / 2, 1};
        /* Those who end it start among those who still add to it. */
        jobs[3].racer = jobs[9].racer = RACER_COMPLETE;
        jobs[6].racer = round % 2 ? RACER_ABORT : RACER_COMPLETE;
        run_together(race, jobs, sizeof(jobs[0]), 20);
        for (unsigned i = 0; i < 20; i++)
            assert_true(jobs[i].err == 0 || jobs[i].err == ERR_NO_SUCH_UPLOAD);
        if (jobs[3].err == 0) story(delete_raced);
        assert_int_equal(jobs[3].err, jobs[9].err);
        assert_int_equal(used_bytes(), empty);
    }
    end_world();
}

/* ---- listing parts and uploads */

static void list_parts_tale(void) {
    struct upload *upload = begin_await("parts", (struct upload_options){0});
    const unsigned numbers[] = {1, 2, 7, 300, 9999, 10000};
    for (unsigned i = 0; i < 6; i++) put_part_await(upload, numbers[i], i, 10 + i);
    for (unsigned max = 0; max <= 7; max++) {
        unsigned after = 0, seen = 0;
        bool truncated = true;
        while (truncated) {
            struct part_info *parts = NULL;
            size_t count = 0;
            require_result(upload_list_parts_await(world.store, upload, after, max, &parts, &count,
                                                   &truncated),
                           0);
            for (size_t i = 0; i < count; i++, seen++)
                require(parts[i].number == numbers[seen] && parts[i].size == 10 + seen);
            if (count) after = parts[count - 1].number;
            free(parts);
        }
        require(seen == (max ? 6 : 0));
    }
    require_result(upload_abort_await(world.store, upload), 0);
    upload_close(&upload);
}

static void parts_are_listed_in_pages(void **state) {
    (void)state;
    make_world();
    story(list_parts_tale);
    end_world();
}

#define UPLOADS 40

static struct model_upload {
    char key[32];
    struct slice name; /* keys may have NULs */
    char id[UPLOAD_ID_SIZE + 1];
} model[UPLOADS];

static int compare_uploads(const void *a, const void *b) {
    const struct model_upload *x = a, *y = b;
    struct slice x_name = {x->key, x->name.size}, y_name = {y->key, y->name.size};
    int order = slice_compare(x_name, y_name);
    return order ? order : strcmp(x->id, y->id);
}

static void create_uploads_await(uint64_t *random) {
    static const char bytes[] = {0, 1, 'a', 'b', '/', '/', (char)0xc3, (char)0xff};
    for (unsigned i = 0; i < UPLOADS; i++) {
        model[i].name.size = 1 + next_random(random) % 4;
        for (size_t at = 0; at < model[i].name.size; at++)
            model[i].key[at] = bytes[next_random(random) % sizeof(bytes)];
        struct upload_info info = {.key = {model[i].key, model[i].name.size}};
        require_result(upload_create_await(world.store, &world.bucket, &info), 0);
        strcpy(model[i].id, info.id);
    }
    qsort(model, UPLOADS, sizeof(model[0]), compare_uploads);
    for (unsigned i = 0; i < UPLOADS; i++) model[i].name.data = model[i].key;
}

struct model_entry {
    struct slice key;
    const char *id; /* NULL for a prefix */
};

static unsigned model_list(const struct upload_list_query *query, struct model_entry *entries) {
    unsigned count = 0;
    for (unsigned i = 0; i < UPLOADS; i++) {
        struct slice name = model[i].name;
        if (!slice_starts_with(name, query->prefix)) continue;
        const char *found =
            query->delimiter.size
                ? memmem(name.data + query->prefix.size, name.size - query->prefix.size,
                         query->delimiter.data, query->delimiter.size)
                : NULL;
        struct model_entry entry = {name, found ? NULL : model[i].id};
        if (found) entry.key.size = (size_t)(found - name.data) + query->delimiter.size;
        if (found && count && slice_equal(entries[count - 1].key, entry.key)) continue;
        entries[count++] = entry;
    }
    return count;
}

static void check_upload_pages_await(struct upload_list_query query) {
    struct model_entry expected[UPLOADS];
    unsigned total = model_list(&query, expected), seen = 0;
    char key[32], id[UPLOAD_ID_SIZE + 1];
    for (bool more = true; more;) {
        struct upload_list list;
        require_result(upload_list_await(world.store, &world.bucket, &query, &list), 0);
        unsigned left = total - seen;
        require(list.count == (left < query.max ? left : query.max));
        require(list.truncated == (left > query.max));
        for (unsigned i = 0; i < list.count; i++, seen++) {
            require(slice_equal(list.entries[i].key, expected[seen].key));
            require(list.entries[i].is_prefix == !expected[seen].id);
            require(list.entries[i].is_prefix || !strcmp(list.entries[i].id, expected[seen].id));
        }
        more = list.truncated;
        if (more) {
            memcpy(key, list.next_key.data, list.next_key.size);
            memcpy(id, list.next_upload_id, sizeof(id));
            query.key_marker = (struct slice){key, list.next_key.size};
            query.upload_id_marker = slice_of(id);
        }
        upload_list_deinit(&list);
    }
    require(seen == total);
}

static void abort_all_await(void) {
    for (unsigned i = 0; i < UPLOADS; i++) {
        struct upload *upload = NULL;
        require_result(upload_open_await(world.store, &world.bucket, model[i].name,
                                         slice_of(model[i].id), &upload),
                       0);
        require_result(upload_abort_await(world.store, upload), 0);
        upload_close(&upload);
    }
}

static void list_uploads_tale(void) {
    const struct slice prefixes[] = {{"", 0}, {"a", 1}, {"\0", 1}, {"a/", 2}, {"\xff", 1}};
    const struct slice delimiters[] = {{"", 0}, {"/", 1}, {"\0", 1}, {"//", 2}};
    uint64_t random = 42;
    create_uploads_await(&random);
    for (unsigned p = 0; p < 5; p++)
        for (unsigned d = 0; d < 4; d++)
            for (unsigned max = 1; max <= UPLOADS + 1; max += 1 + max / 3)
                check_upload_pages_await((struct upload_list_query){
                    .prefix = prefixes[p], .delimiter = delimiters[d], .max = max});
    struct upload_list list;
    struct upload_list_query query = {.max = 0};
    require_result(upload_list_await(world.store, &world.bucket, &query, &list), 0);
    require(list.count == 0 && !list.truncated);
    upload_list_deinit(&list);
    /* A key marker without an id passes every upload of the key. */
    query = (struct upload_list_query){.max = UPLOADS, .key_marker = model[20].name};
    unsigned behind = 0;
    for (unsigned i = 0; i < UPLOADS; i++)
        behind += slice_compare(model[i].name, model[20].name) > 0;
    require_result(upload_list_await(world.store, &world.bucket, &query, &list), 0);
    require(list.count == behind && !list.truncated);
    upload_list_deinit(&list);
    query.upload_id_marker = slice_of("nonsense");
    require_result(upload_list_await(world.store, &world.bucket, &query, &list),
                   ERR_INVALID_ARGUMENT);
    abort_all_await();
}

static void uploads_are_listed_as_the_model_says(void **state) {
    (void)state;
    make_world();
    story(list_uploads_tale);
    end_world();
}

/* ---- many parts */

static void many_parts_tale(void) {
    uint64_t empty = used_bytes();
    struct upload *upload = begin_await("many", (struct upload_options){0});
    static struct part_info parts[200];
    for (unsigned i = 0; i < 200; i++) parts[i] = put_part_await(upload, i + 1, i, 64);
    struct result result;
    require_result(complete_await(upload, parts + 150, 1, &result), 0);
    check_multipart_await("many", (const uint64_t[]){150}, 1, 64);
    upload_close(&upload);
    require_result(delete_await("many"), 0);
    require(used_bytes() == empty);
}

static void many_unused_parts_go_with_the_upload(void **state) {
    (void)state;
    make_world();
    story(many_parts_tale);
    end_world();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_become_one_object),
        cmocka_unit_test(what_does_not_fit_together_is_refused),
        cmocka_unit_test(checksums_of_parts_become_that_of_the_object),
        cmocka_unit_test(parts_without_an_md5_give_an_opaque_etag),
        cmocka_unit_test(aborting_leaves_nothing),
        cmocka_unit_test(completing_again_answers_the_same),
        cmocka_unit_test(no_part_survives_its_upload),
        cmocka_unit_test(parts_are_listed_in_pages),
        cmocka_unit_test(uploads_are_listed_as_the_model_says),
        cmocka_unit_test(many_unused_parts_go_with_the_upload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
