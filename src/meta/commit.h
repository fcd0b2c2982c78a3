/* Group commit: one thread takes every batch that waits, checks the guards of each in order, writes
 * those that pass as one, and wakes their fibers. It never waits for more to come: while one group
 * is being synced the next one gathers by itself. */
#ifndef PENSTOCK_META_COMMIT_H
#define PENSTOCK_META_COMMIT_H

#include "meta/meta.h"

struct committer;

struct committer_stats {
    uint64_t commits, groups, conflicts;
};

int committer_start(struct meta *meta, struct committer **committer);
void committer_stop(struct committer **committer); /* nobody commits any more */
int committer_run_await(struct committer *committer, struct meta_batch *batch,
                        enum meta_durability durability);
int committer_run_blocking(struct committer *committer, struct meta_batch *batch,
                           enum meta_durability durability);
void committer_stats(struct committer *committer, struct committer_stats *stats);

#endif
