/* Every operation, one file each. What an operation must do stands in request.h. */
#ifndef PENSTOCK_S3_OPERATIONS_H
#define PENSTOCK_S3_OPERATIONS_H

#include "s3/request.h"

s3_operation_fn s3_list_buckets_await;
s3_operation_fn s3_bucket_create_await;
s3_operation_fn s3_bucket_head_await;
s3_operation_fn s3_bucket_delete_await;
s3_operation_fn s3_bucket_location_await;
s3_operation_fn s3_bucket_versioning_await;
s3_operation_fn s3_list_objects_await;
s3_operation_fn s3_list_uploads_await;
s3_operation_fn s3_delete_objects_await;
s3_operation_fn s3_object_put_await;
s3_operation_fn s3_object_get_await;
s3_operation_fn s3_object_head_await;
s3_operation_fn s3_object_delete_await;
s3_operation_fn s3_upload_create_await;
s3_operation_fn s3_upload_part_await;
s3_operation_fn s3_upload_complete_await;
s3_operation_fn s3_upload_abort_await;
s3_operation_fn s3_list_parts_await;

#endif
