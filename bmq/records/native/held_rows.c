/* bmq/records/held_rows_twin.py gives the same answers in Python; a change here is a change there. */
#include "held_rows.h"

#include <string.h>

#include "batches.h"
#include "delays.h"

#define OFFSET_MAX (INT64_C(1) << 62)

BMQ_INLINE uint64_t le(const uint8_t *data, int bytes) {
    uint64_t value = 0;
    int at;
    for (at = bytes - 1; at >= 0; at--) {
        value = value << 8 | data[at];
    }
    return value;
}

BMQ_INLINE uint8_t *put_le(uint8_t *out, uint64_t value, int bytes) {
    int at;
    for (at = 0; at < bytes; at++) {
        out[at] = (uint8_t)(value >> 8 * at);
    }
    return out + bytes;
}

/* Below 0, 0 or above, as memcmp. */
BMQ_INLINE int order_of(const struct bmq_held_row *one, const struct bmq_held_row *other) {
    if (one->due_ms != other->due_ms) {
        return one->due_ms < other->due_ms ? -1 : 1;
    }
    return one->name < other->name ? -1 : one->name > other->name;
}

int64_t bmq_held_rows(const uint8_t *entries, int64_t count, int64_t base_offset, int64_t bodies_bytes, int64_t start,
                      int64_t above_ms, int64_t above_name, struct bmq_held_row *rows) {
    int64_t number, place = 0, written = 0;
    if (count < 0 || base_offset < 0 || base_offset > OFFSET_MAX || bodies_bytes < 0 || start < 0 || start > OFFSET_MAX) {
        return -BMQ_BAD_CALL;
    }
    for (number = 0; number < count; number++, entries += BMQ_HELD_ENTRY_BYTES) {
        const int64_t due_ms = (int64_t)load_be64(entries), length = (int32_t)load_be32(entries + 20);
        const int64_t name = base_offset + (int32_t)load_be32(entries + 16);
        if (length < 0 || length > bodies_bytes - place) {
            return -BMQ_BAD_CALL;
        }
        if (due_ms > above_ms || (due_ms == above_ms && name > above_name)) {
            struct bmq_held_row *row = &rows[written++];
            row->due_ms = due_ms;
            row->name = name;
            row->created_ms = (int64_t)load_be64(entries + 8);
            row->body = start + place;
            row->body_bytes = length;
        }
        place += length;
    }
    return place == bodies_bytes ? written : -BMQ_BAD_CALL;
}

int64_t bmq_sort_rows(struct bmq_held_row *rows, int64_t count, struct bmq_held_row *room) {
    struct bmq_held_row *from = rows, *to = room, *swapped;
    int64_t width, low, at;
    for (width = 1; width < count; width *= 2) {
        for (low = 0; low < count; low += 2 * width) {
            const int64_t middle = low + width < count ? low + width : count;
            const int64_t high = middle + width < count ? middle + width : count;
            int64_t left = low, right = middle;
            if (middle == high || order_of(&from[middle - 1], &from[middle]) <= 0) {
                memcpy(&to[low], &from[low], (size_t)(high - low) * sizeof *to);
                continue;
            }
            for (at = low; at < high; at++) {
                if (right == high || (left < middle && order_of(&from[left], &from[right]) <= 0)) {
                    to[at] = from[left++];
                } else {
                    to[at] = from[right++];
                }
            }
        }
        swapped = from;
        from = to;
        to = swapped;
    }
    if (from != rows) {
        memcpy(rows, from, (size_t)count * sizeof *rows);
    }
    for (at = 1; at < count; at++) {
        if (order_of(&rows[at - 1], &rows[at]) == 0) {
            return 1;
        }
    }
    return 0;
}

int64_t bmq_block_rows(const uint8_t *block, int64_t bytes, int64_t count, struct bmq_held_row *rows) {
    int64_t number, place = 0;
    if (bytes < 0 || count < 0) {
        return -BMQ_BAD_CALL;
    }
    for (number = 0; number < count; number++) {
        struct bmq_held_row *row = &rows[number];
        uint32_t length;
        if (bytes - place < BMQ_ROW_HEAD_BYTES) {
            return -BMQ_BAD_CALL;
        }
        row->due_ms = (int64_t)le(block + place, 8);
        row->name = (int64_t)le(block + place + 8, 8);
        row->created_ms = (int64_t)le(block + place + 16, 8);
        length = (uint32_t)le(block + place + 24, 4);
        place += BMQ_ROW_HEAD_BYTES;
        row->body = place;
        row->body_bytes = length == UINT32_MAX ? BMQ_ROW_CANCELS : (int64_t)length;
        if (row->body_bytes > bytes - place || (number > 0 && order_of(row - 1, row) >= 0)) {
            return -BMQ_BAD_CALL;
        }
        place += row->body_bytes > 0 ? row->body_bytes : 0;
    }
    return place == bytes ? 0 : -BMQ_BAD_CALL;
}

int64_t bmq_write_rows(const struct bmq_held_row *rows, int64_t count, int64_t row, const uint8_t *bodies,
                       int64_t bodies_bytes, int64_t block_bytes, uint8_t *out, int64_t out_bytes, int64_t *next) {
    int64_t behind, size = 0;
    if (count < 0 || row < 0 || row > count || bodies_bytes < 0) {
        return -BMQ_BAD_CALL;
    }
    for (behind = row; behind < count && size < block_bytes; behind++) {
        const int64_t length = rows[behind].body_bytes;
        if (length == BMQ_ROW_CANCELS) {
            size += BMQ_ROW_HEAD_BYTES;
            continue;
        }
        if (length < 0 || length > UINT32_MAX - 1 || rows[behind].body < 0 || rows[behind].body > bodies_bytes ||
            length > bodies_bytes - rows[behind].body) {
            return -BMQ_BAD_CALL;
        }
        size += BMQ_ROW_HEAD_BYTES + length;
    }
    *next = behind;
    if (out == NULL || size > out_bytes) {
        return size;
    }
    for (; row < behind; row++) {
        const int64_t length = rows[row].body_bytes;
        out = put_le(out, (uint64_t)rows[row].due_ms, 8);
        out = put_le(out, (uint64_t)rows[row].name, 8);
        out = put_le(out, (uint64_t)rows[row].created_ms, 8);
        out = put_le(out, (uint32_t)length, 4);
        if (length > 0) {
            memcpy(out, bodies + rows[row].body, (size_t)length);
            out += length;
        }
    }
    return size;
}
