/* Finds batches, and turns their records into columns and columns into records.
 *
 * A view is Arrow's 16 bytes of a binary_view as four int32: the length, then up to 12 bytes themselves, or the first four
 * bytes, the number of the data buffer (always 0) and the place in it. Source: Arrow columnar format.
 */
#include "batches.h"
#include "kernel.h"

#define SCANNED_ALL 0
#define SCANNED_ENOUGH 1
#define BATCH_IS_CUT 2
#define NO_LENGTH 3
#define BAD_BATCH_LENGTH 4
#define BAD_HEADER 16 /* and above: which check failed */

#define OFFSET_MAX (INT64_MAX - ((int64_t)1 << 32) + 1)
#define VIEW_WORDS 4
#define INLINE_BYTES_MAX 12

struct bmq_scan {
    int64_t place;        /* where to begin, and where the next batch begins */
    int64_t count;        /* batches found by this call */
    int64_t rows;         /* records in them */
    int64_t size_bytes;   /* of the batch at `place`, if it is cut or too long */
    int64_t last_offset;  /* of the batch before `place`; INT64_MIN at first */
    int64_t why;          /* this call stopped */
};

static uint64_t big_endian(const uint8_t *data, int bytes) {
    uint64_t value = 0;
    int at;
    for (at = 0; at < bytes; at++) {
        value = value << 8 | data[at];
    }
    return value;
}

static int impossible(const struct bmq_batch *batch, int64_t last_offset) {
    if (batch->magic != 2) {
        return 1;
    }
    if (batch->base_offset < 0 || batch->base_offset > OFFSET_MAX) {
        return 2;
    }
    if (batch->last_offset_delta < 0) {
        return 3;
    }
    if (batch->record_count < 0) {
        return 4;
    }
    if (batch->record_count > (int64_t)batch->last_offset_delta + 1) {
        return 5;
    }
    if ((batch->attributes & BMQ_CODEC_MASK) > BMQ_CODEC_MAX) {
        return 6;
    }
    return batch->base_offset <= last_offset ? 7 : 0;
}

/* Finds the whole batches that lie back to back from state->place on, as far as `batches` has room. Stops behind the batch
 * with which `rows_max` or `bytes_max` is reached, and at the first one whose header is impossible. */
BMQ_EXPORT int64_t bmq_scan(const uint8_t *data, int64_t data_bytes, int64_t rows_max, int64_t bytes_max, int64_t batch_bytes_max,
                 struct bmq_batch *batches, int64_t batches_max, struct bmq_scan *state) {
    int64_t begin = state->place, place = begin, rows = 0, count, length, size;
    state->size_bytes = 0;
    if (place < 0 || place > data_bytes || batches_max < 0) {
        return -BMQ_BAD_CALL;
    }
    for (count = 0;; count++) {
        struct bmq_batch *batch = batches + count;
        const uint8_t *at = data + place;
        if (place == data_bytes) {
            state->why = SCANNED_ALL;
            break;
        }
        if (count == batches_max || (count && (rows >= rows_max || place - begin >= bytes_max))) {
            state->why = SCANNED_ENOUGH;
            break;
        }
        if (data_bytes - place < BMQ_LENGTH_OVERHEAD_BYTES) {
            state->why = BATCH_IS_CUT;
            state->size_bytes = BMQ_LENGTH_OVERHEAD_BYTES;
            break;
        }
        length = (int64_t)big_endian(at + 8, 4);
        if (length == 0) {
            state->why = NO_LENGTH; /* maybe padding */
            break;
        }
        size = length + BMQ_LENGTH_OVERHEAD_BYTES;
        if (size < BMQ_HEADER_BYTES || size > batch_bytes_max || length > INT32_MAX) {
            state->why = BAD_BATCH_LENGTH;
            state->size_bytes = size;
            break;
        }
        if (size > data_bytes - place) {
            state->why = BATCH_IS_CUT;
            state->size_bytes = size;
            break;
        }
        batch->place = place;
        batch->base_offset = (int64_t)big_endian(at, 8);
        batch->length = (int32_t)length;
        batch->leader_epoch = (int32_t)big_endian(at + 12, 4);
        batch->magic = (int8_t)at[16];
        batch->crc = (uint32_t)big_endian(at + 17, 4);
        batch->attributes = (int16_t)big_endian(at + 21, 2);
        batch->last_offset_delta = (int32_t)big_endian(at + 23, 4);
        batch->base_timestamp_ms = (int64_t)big_endian(at + 27, 8);
        batch->max_timestamp_ms = (int64_t)big_endian(at + 35, 8);
        batch->producer_id = (int64_t)big_endian(at + 43, 8);
        batch->producer_epoch = (int16_t)big_endian(at + 51, 2);
        batch->base_sequence = (int32_t)big_endian(at + 53, 4);
        batch->record_count = (int32_t)big_endian(at + 57, 4);
        batch->unused = 0;
        length = impossible(batch, state->last_offset);
        if (length) {
            state->why = BAD_HEADER + length;
            break;
        }
        state->last_offset = batch->base_offset + batch->last_offset_delta;
        rows += batch->record_count;
        place += size;
    }
    state->place = place;
    state->count = count;
    state->rows = rows;
    return 0;
}

static void put_view(int32_t *view, const uint8_t *data, int64_t place, int64_t length) {
    view[0] = (int32_t)length;
    if (length > INLINE_BYTES_MAX) {
        memcpy(view + 1, data + place, 4);
        view[2] = 0;
        view[3] = (int32_t)place;
        return;
    }
    memset(view + 1, 0, INLINE_BYTES_MAX);
    if (length > 0) {
        memcpy(view + 1, data + place, (size_t)length);
    }
}

/* Columns to be filled: one entry per record, views four words; what is not wanted may be null. `header_offsets` has one more,
 * and begins with 0. */
struct bmq_columns {
    int64_t rows_max;
    int64_t *offsets;
    int64_t *timestamps;
    int32_t *key_views;
    uint8_t *key_nulls;
    int32_t *value_views;
    uint8_t *value_nulls;
    int64_t *header_places;
    int32_t *header_offsets;
};

BMQ_INLINE int64_t walk_body(const struct bmq_bodies *bodies, int64_t number, int wanted, int64_t row,
                             int32_t *headers_before, const struct bmq_columns *columns) {
    const struct bmq_batch *batch = bodies->batches + number;
    const uint8_t *data = bodies->data;
    int64_t place = bodies->starts[number], end = bodies->ends[number], previous = -1, behind = row + batch->record_count;
    int has_append_time = batch->attributes & BMQ_LOG_APPEND_TIME;
    struct bmq_record record = {0};
    for (; row < behind; row++) {
        place = bmq_get_record(data, place, end, wanted, batch->last_offset_delta, &previous, &record);
        if (place < 0) {
            return place;
        }
        columns->offsets[row] = batch->base_offset + record.offset_delta;
        if (wanted & BMQ_WANTS_TIMESTAMP) {
            columns->timestamps[row] =
                has_append_time ? batch->max_timestamp_ms : bmq_sum(batch->base_timestamp_ms, record.timestamp_delta);
        }
        if (wanted & BMQ_WANTS_KEY) {
            columns->key_nulls[row] = record.key_bytes < 0;
            put_view(columns->key_views + VIEW_WORDS * row, data, record.key, record.key_bytes > 0 ? record.key_bytes : 0);
        }
        if (wanted & BMQ_WANTS_VALUE) {
            columns->value_nulls[row] = record.value_bytes < 0;
            put_view(columns->value_views + VIEW_WORDS * row, data, record.value,
                     record.value_bytes > 0 ? record.value_bytes : 0);
        }
        if (wanted & BMQ_WANTS_HEADERS) {
            *headers_before += (int32_t)record.header_count;
            columns->header_places[row] = record.headers;
            columns->header_offsets[row + 1] = *headers_before;
        }
    }
    return place == end ? 0 : -BMQ_BYTES_LEFT;
}

/* Goes through the records of the batches that are `opened`; the rows of others, which have a record for each of their
 * offsets, are filled from their headers. *number: of the batch where it stopped. */
BMQ_EXPORT int64_t bmq_walk(const struct bmq_bodies *bodies, const uint8_t *opened, int64_t wanted, const struct bmq_columns *columns,
                 int64_t *number) {
    int64_t row = 0, status, at;
    int32_t headers_before = 0;
    if (bodies->data_bytes > INT32_MAX) {
        return -BMQ_BAD_CALL;
    }
    for (*number = 0; *number < bodies->count; ++*number) {
        const struct bmq_batch *batch = bodies->batches + *number;
        if (!bmq_is_body_inside(bodies, *number) || batch->record_count > columns->rows_max - row) {
            return -BMQ_BAD_CALL;
        }
        if (!opened[*number]) {
            for (at = 0; at < batch->record_count; at++) {
                columns->offsets[row + at] = batch->base_offset + at;
                if (wanted & BMQ_WANTS_TIMESTAMP) {
                    columns->timestamps[row + at] = batch->max_timestamp_ms;
                }
            }
            row += batch->record_count;
            continue;
        }
        switch (wanted) { /* the usual ones without looking at each record what is wanted */
        case BMQ_WANTS_TIMESTAMP:
            status = walk_body(bodies, *number, BMQ_WANTS_TIMESTAMP, row, &headers_before, columns);
            break;
        case BMQ_WANTS_KEY | BMQ_WANTS_VALUE:
            status = walk_body(bodies, *number, BMQ_WANTS_KEY | BMQ_WANTS_VALUE, row, &headers_before, columns);
            break;
        case BMQ_WANTS_TIMESTAMP | BMQ_WANTS_KEY | BMQ_WANTS_VALUE | BMQ_WANTS_HEADERS:
            status = walk_body(bodies, *number,
                               BMQ_WANTS_TIMESTAMP | BMQ_WANTS_KEY | BMQ_WANTS_VALUE | BMQ_WANTS_HEADERS, row,
                               &headers_before, columns);
            break;
        default:
            status = walk_body(bodies, *number, (int)wanted, row, &headers_before, columns);
        }
        if (status) {
            return status;
        }
        row += batch->record_count;
    }
    return 0;
}

/* Fills in names and values of the headers of records that bmq_walk went through: one entry per header, not per row. */
BMQ_EXPORT int64_t bmq_walk_headers(const uint8_t *data, int64_t data_bytes, const int64_t *header_places, int64_t rows,
                         int64_t headers_max, int32_t *name_views, int32_t *value_views, uint8_t *value_nulls) {
    int64_t row, index = 0, place, count, number, length;
    if (data_bytes > INT32_MAX) {
        return -BMQ_BAD_CALL;
    }
    for (row = 0; row < rows; row++) {
        if (header_places[row] < 0) {
            return -BMQ_BAD_CALL;
        }
        place = bmq_get_varint(data, header_places[row], data_bytes, &count);
        if (place < 0 || count < 0 || count > headers_max - index) {
            return -BMQ_BAD_HEADERS;
        }
        for (number = 0; number < count; number++, index++) {
            place = bmq_get_varint(data, place, data_bytes, &length);
            if (place < 0 || length < 0 || length > data_bytes - place) {
                return -BMQ_BAD_HEADERS;
            }
            put_view(name_views + VIEW_WORDS * index, data, place, length);
            place = bmq_get_varint(data, place + length, data_bytes, &length);
            if (place < 0 || length < -1 || length > data_bytes - place) {
                return -BMQ_BAD_HEADERS;
            }
            value_nulls[index] = length < 0;
            length = length > 0 ? length : 0;
            put_view(value_views + VIEW_WORDS * index, data, place, length);
            place += length;
        }
    }
    return index == headers_max ? 0 : -BMQ_BAD_HEADERS;
}

/* A column of bytes: `offsets` has one entry more than `nulls`. */
struct bmq_binary {
    const uint8_t *data;
    int64_t data_bytes;
    const int64_t *offsets;
    const uint8_t *nulls;
};

struct bmq_table {
    const int64_t *offsets;
    const int64_t *timestamps;
    const int64_t *header_offsets;
    struct bmq_binary keys;
    struct bmq_binary values;
    struct bmq_binary names;
    struct bmq_binary contents;
    int64_t header_count;
};

struct bmq_written {
    int64_t bytes;
    int64_t row; /* behind the last one that fitted */
    int64_t max_timestamp_ms;
};

/* How long a field is with its length; -1 if its offsets do not lie in its data. */
BMQ_INLINE int64_t field_bytes(const struct bmq_binary *column, int64_t index) {
    int64_t begin, length;
    if (column->nulls[index]) {
        return 1;
    }
    begin = column->offsets[index];
    length = column->offsets[index + 1] - begin;
    if (begin < 0 || length < 0 || length > column->data_bytes - begin) {
        return -1;
    }
    return bmq_varint_bytes(length) + length;
}

BMQ_INLINE int64_t put_field(uint8_t *out, int64_t place, const struct bmq_binary *column, int64_t index) {
    int64_t length;
    if (column->nulls[index]) {
        return bmq_put_varint(out, place, -1);
    }
    length = column->offsets[index + 1] - column->offsets[index];
    place = bmq_put_varint(out, place, length);
    if (length) {
        memcpy(out + place, column->data + column->offsets[index], (size_t)length);
    }
    return place + length;
}

/* Encodes rows from `row` on as the body of one batch, as many as fit into `out`, with deltas from the first one. None is
 * written when `out` is too small for the first one. */
BMQ_EXPORT int64_t bmq_write(const struct bmq_table *table, int64_t row, int64_t row_end, uint8_t *out, int64_t out_bytes,
                  struct bmq_written *written) {
    int64_t first_offset, first_timestamp, place = 0, header;
    if (row < 0 || row >= row_end) {
        return -BMQ_BAD_CALL;
    }
    first_offset = table->offsets[row];
    first_timestamp = table->timestamps[row];
    written->max_timestamp_ms = INT64_MIN;
    for (; row < row_end; row++) {
        int64_t offset_delta = bmq_difference(table->offsets[row], first_offset);
        int64_t timestamp_delta = bmq_difference(table->timestamps[row], first_timestamp);
        int64_t first = table->header_offsets[row], last = table->header_offsets[row + 1];
        int64_t key_bytes = field_bytes(&table->keys, row), value_bytes = field_bytes(&table->values, row), size;
        if (key_bytes < 0 || value_bytes < 0 || first < 0 || last < first || last > table->header_count) {
            return -BMQ_BAD_CALL;
        }
        if (offset_delta < 0 || offset_delta > INT32_MAX) {
            break;
        }
        size = 1 + bmq_varint_bytes(timestamp_delta) + bmq_varint_bytes(offset_delta) + bmq_varint_bytes(last - first) +
               key_bytes + value_bytes;
        for (header = first; header < last; header++) {
            int64_t name_bytes = field_bytes(&table->names, header), content_bytes = field_bytes(&table->contents, header);
            if (name_bytes < 0 || content_bytes < 0) {
                return -BMQ_BAD_CALL;
            }
            size += name_bytes + content_bytes;
        }
        if (bmq_varint_bytes(size) + size > out_bytes - place) {
            break;
        }
        place = bmq_put_varint(out, place, size);
        out[place++] = 0;
        place = bmq_put_varint(out, place, timestamp_delta);
        place = bmq_put_varint(out, place, offset_delta);
        place = put_field(out, place, &table->keys, row);
        place = put_field(out, place, &table->values, row);
        place = bmq_put_varint(out, place, last - first);
        for (header = first; header < last; header++) {
            place = put_field(out, place, &table->names, header);
            place = put_field(out, place, &table->contents, header);
        }
        if (table->timestamps[row] > written->max_timestamp_ms) {
            written->max_timestamp_ms = table->timestamps[row];
        }
    }
    written->bytes = place;
    written->row = row;
    return 0;
}
