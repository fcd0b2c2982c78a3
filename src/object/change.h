/* One try at changing the store: a guarded batch, and the blobs that it makes superfluous. Whatever
 * happens, change_end() leaves nothing behind. */
#ifndef PENSTOCK_OBJECT_CHANGE_H
#define PENSTOCK_OBJECT_CHANGE_H

#include "object/key.h"
#include "object/store.h"

struct change {
    struct store *store;
    struct meta_batch *batch;
    struct blob_unlink **unlinks;
    unsigned count, capacity;
};

int change_begin(struct change *change, struct store *store);
/* The bucket is still the same one: ERR_NO_SUCH_BUCKET now, ERR_CONFLICT at the commit. */
int change_guard_bucket_await(struct change *change, const struct bucket *bucket);
int change_unlink_await(struct change *change, struct blob_ref ref);
/* On success the space of the unlinked blobs comes back. */
int change_commit_await(struct change *change);
void change_end(struct change *change);

/* True when a commit that failed like this surely left nothing on the drive. */
bool change_surely_failed(int err);

/* Make `record` the object called name in place of what is there, or with an empty record delete
 * it: checks the condition, guards what it saw, unlinks the old blobs. For a deletion of nothing
 * *nothing is set, and the change need not be committed. */
int change_replace_object_await(struct change *change, const struct bucket *bucket,
                                struct slice name, const struct object_condition *condition,
                                struct slice record, bool *nothing);

#endif
