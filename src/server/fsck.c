/* penstock fsck: prove that a store at rest is consistent. */
#include <stdio.h>

#include "base/error.h"
#include "object/object.h"
#include "server/data_dir.h"
#include "server/server.h"

#define FSCK_CACHE_BYTES (64ull << 20)

static void print_finding(void *ctx, const char *finding) {
    (void)ctx;
    printf("fsck: %s\n", finding);
}

int server_fsck(const struct server_config *config, bool verify_data) {
    struct data_dir dir;
    if (data_dir_open(config, false, &dir)) return 1;
    struct meta *meta = NULL;
    uint64_t findings = 0;
    int err = meta_rocksdb_open(dir.meta_path, FSCK_CACHE_BYTES, &meta);
    if (!err) {
        err = store_fsck(meta, dir.volume_path, verify_data, print_finding, NULL, &findings);
        meta_close(&meta);
    }
    data_dir_close(&dir);
    if (err) {
        fprintf(stderr, "penstock: fsck of %s failed: %s\n", config->data, error_text(err));
        return 1;
    }
    printf("fsck: %llu finding%s\n", (unsigned long long)findings, findings == 1 ? "" : "s");
    return findings ? 1 : 0;
}
