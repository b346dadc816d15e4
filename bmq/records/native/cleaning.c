/* The loops of compaction: note the newest offset of each key, decide which records stay, write what is left of a batch.
 *
 * Source: Kafka's Cleaner and MemoryRecords.filterTo, KIP-534 (delete horizon).
 */
#include "key_map.h"
#include "kernel.h"

/* So many records are hashed before the first of their slots is looked at: their memory is fetched meanwhile. */
#define AHEAD 32

#define WHOLE (BMQ_WANTS_TIMESTAMP | BMQ_WANTS_KEY | BMQ_WANTS_VALUE | BMQ_WANTS_HEADERS)

struct bmq_noting {
    int64_t number;      /* the batch where it stopped, when a record is damaged */
    int64_t full_offset; /* the first record that the map had no room for; -1: it took all */
};

/* Notes the offsets of keys in batches that are not `skipped`, from `dirty_offset` on. */
BMQ_EXPORT int64_t bmq_note_keys(const struct bmq_bodies *bodies, const uint8_t *skipped, int64_t dirty_offset,
                      struct bmq_key_map *map, struct bmq_noting *noting) {
    struct bmq_hash hashes[AHEAD];
    int64_t offsets[AHEAD], waiting = 0, done;
    struct bmq_record record = {0};
    noting->full_offset = -1;
    noting->number = 0;
    if (!bmq_is_map(map)) {
        return -BMQ_BAD_CALL;
    }
    for (; noting->number < bodies->count; noting->number++) {
        const struct bmq_batch *batch = bodies->batches + noting->number;
        int64_t place, end, previous = -1, left;
        if (!bmq_is_body_inside(bodies, noting->number)) {
            return -BMQ_BAD_CALL;
        }
        place = bodies->starts[noting->number];
        end = bodies->ends[noting->number];
        for (left = batch->record_count; left > 0; left--) {
            int64_t offset;
            place = bmq_get_record(bodies->data, place, end, BMQ_WANTS_KEY | BMQ_WANTS_VALUE, batch->last_offset_delta,
                                   &previous, &record);
            if (place < 0) {
                return place;
            }
            offset = batch->base_offset + record.offset_delta;
            if (record.key_bytes < 0 || offset < dirty_offset || skipped[noting->number]) {
                continue;
            }
            hashes[waiting] = bmq_key_hash(map, bodies->data + record.key, record.key_bytes);
            BMQ_PREFETCH(bmq_first_slot(map, hashes[waiting]));
            offsets[waiting++] = offset;
            if (waiting == AHEAD) {
                for (done = 0; done < waiting; done++) {
                    if (!bmq_note(map, hashes[done], offsets[done])) {
                        noting->full_offset = offsets[done];
                        return 0;
                    }
                }
                waiting = 0;
            }
        }
        if (place != end) {
            return -BMQ_BYTES_LEFT;
        }
    }
    for (done = 0; done < waiting; done++) {
        if (!bmq_note(map, hashes[done], offsets[done])) {
            noting->full_offset = offsets[done];
            return 0;
        }
    }
    return 0;
}

/* Hashes and offsets of the keys in batches that are not `skipped`, from `dirty_offset` on, one behind the other. *taken: how
 * many; *number: the batch where it stopped. */
BMQ_EXPORT int64_t bmq_hash_keys(const struct bmq_bodies *bodies, const uint8_t *skipped, int64_t dirty_offset, uint64_t key0,
                      uint64_t key1, int64_t keys_max, uint64_t *first, uint64_t *second, int64_t *offsets,
                      int64_t *taken, int64_t *number) {
    struct bmq_record record = {0};
    *taken = 0;
    for (*number = 0; *number < bodies->count; ++*number) {
        const struct bmq_batch *batch = bodies->batches + *number;
        int64_t place, end, previous = -1, left;
        if (!bmq_is_body_inside(bodies, *number)) {
            return -BMQ_BAD_CALL;
        }
        place = bodies->starts[*number];
        end = bodies->ends[*number];
        for (left = batch->record_count; left > 0; left--) {
            struct bmq_hash hash;
            int64_t offset;
            place = bmq_get_record(bodies->data, place, end, BMQ_WANTS_KEY | BMQ_WANTS_VALUE, batch->last_offset_delta,
                                   &previous, &record);
            if (place < 0) {
                return place;
            }
            offset = batch->base_offset + record.offset_delta;
            if (record.key_bytes < 0 || offset < dirty_offset || skipped[*number]) {
                continue;
            }
            if (*taken == keys_max) {
                return -BMQ_BAD_CALL;
            }
            hash = bmq_siphash(bodies->data + record.key, record.key_bytes, key0, key1);
            first[*taken] = hash.first;
            second[*taken] = hash.second;
            offsets[*taken] = offset;
            ++*taken;
        }
        if (place != end) {
            return -BMQ_BYTES_LEFT;
        }
    }
    return 0;
}

/* Notes hashes with their offsets, in any order. Offsets before the map's base are left out, and those behind `end_offset`
 * count as that. Less than `count` comes back when one has no room or is out of reach. */
BMQ_EXPORT int64_t bmq_note_hashes(struct bmq_key_map *map, const uint64_t *first, const uint64_t *second, const int64_t *offsets,
                        int64_t count, int64_t end_offset) {
    int64_t at;
    if (!bmq_is_map(map)) {
        return -BMQ_BAD_CALL;
    }
    for (at = 0; at < count; at++) {
        struct bmq_hash hash = {first[at], second[at]};
        int64_t offset = offsets[at] < end_offset ? offsets[at] : end_offset;
        if (offsets[at] >= map->base_offset && !bmq_note(map, hash, offset)) {
            break;
        }
    }
    return at;
}

/* What stays of one batch. */
struct bmq_kept {
    int64_t count;
    int64_t tombstone_count;
};

/* What is known of one record between its hash and the look at its slot. */
struct waiting_record {
    struct bmq_hash hash;
    int64_t offset;
    int64_t number;
    int64_t row;
    int has_value;
    int is_asked_for;
    int is_kept; /* unless a newer one is there, if that is asked for */
};

static void decide(const struct bmq_key_map *map, const struct waiting_record *waiting, int64_t count, uint8_t *keep,
                   struct bmq_kept *kept) {
    int64_t at;
    for (at = 0; at < count; at++) {
        const struct waiting_record *record = waiting + at;
        struct bmq_kept *of_batch = kept + record->number;
        int stays = record->is_kept && (!record->is_asked_for || bmq_is_newest(map, record->hash, record->offset));
        keep[record->row] = (uint8_t)stays;
        of_batch->count += stays;
        of_batch->tombstone_count += stays && !record->has_value;
    }
}

/* Decides for each record whether it stays (`keep`, one byte a row). Of batches that are `discarded` nothing does, of other
 * control batches all. Records below `noted_offset` stay if the map has no newer one of their key, and if they have a value or
 * their batch's delete horizon is not over at `now_ms`; newer ones stay. *number: the batch where it stopped. */
BMQ_EXPORT int64_t bmq_choose_survivors(const struct bmq_bodies *bodies, const uint8_t *discarded, int64_t noted_offset, int64_t now_ms,
                   const struct bmq_key_map *map, int64_t rows_max, uint8_t *keep, struct bmq_kept *kept,
                   int64_t *number) {
    struct waiting_record waiting[AHEAD];
    struct bmq_record record = {0};
    int64_t count = 0, row = 0;
    *number = 0;
    if (!bmq_is_map(map)) {
        return -BMQ_BAD_CALL;
    }
    for (; *number < bodies->count; ++*number) {
        const struct bmq_batch *batch = bodies->batches + *number;
        int64_t place, end, previous = -1, left;
        int is_control = batch->attributes & BMQ_CONTROL;
        int is_over = (batch->attributes & BMQ_DELETE_HORIZON) && batch->base_timestamp_ms <= now_ms;
        if (!bmq_is_body_inside(bodies, *number) || batch->record_count > rows_max - row) {
            return -BMQ_BAD_CALL;
        }
        memset(kept + *number, 0, sizeof *kept);
        place = bodies->starts[*number];
        end = bodies->ends[*number];
        for (left = batch->record_count; left > 0; left--) {
            struct waiting_record *one = waiting + count;
            int is_noted;
            place = bmq_get_record(bodies->data, place, end, WHOLE, batch->last_offset_delta, &previous, &record);
            if (place < 0) {
                return place;
            }
            one->offset = batch->base_offset + record.offset_delta;
            one->number = *number;
            one->row = row++;
            one->has_value = record.value_bytes >= 0;
            is_noted = one->offset < noted_offset;
            one->is_kept = !discarded[*number] &&
                           (is_control || !is_noted || (record.key_bytes >= 0 && (one->has_value || !is_over)));
            one->is_asked_for = one->is_kept && !is_control && is_noted;
            if (one->is_asked_for) {
                one->hash = bmq_key_hash(map, bodies->data + record.key, record.key_bytes);
                BMQ_PREFETCH(bmq_first_slot(map, one->hash));
            }
            if (++count == AHEAD) {
                decide(map, waiting, count, keep, kept);
                count = 0;
            }
        }
        if (place != end) {
            return -BMQ_BYTES_LEFT;
        }
    }
    decide(map, waiting, count, keep, kept);
    return 0;
}

/* The records that were written: bytes, how many, the time that their deltas count from, the greatest time. */
struct bmq_retained {
    int64_t bytes;
    int64_t count;
    int64_t base_timestamp_ms;
    int64_t max_timestamp_ms;
};

/* Writes the records of one body that `keep` names. Their deltas count from retained->base_timestamp_ms if `has_base`, else
 * from the first one's time. Bytes behind a record's timestamp are copied unchanged. */
BMQ_EXPORT int64_t bmq_write_survivors(const struct bmq_bodies *bodies, int64_t number, const uint8_t *keep, int64_t keep_count,
                   int64_t has_base, uint8_t *out, int64_t out_bytes, struct bmq_retained *retained) {
    const struct bmq_batch *batch = bodies->batches + number;
    const uint8_t *data = bodies->data;
    struct bmq_record record = {0};
    int64_t place, begin, end, previous = -1, written = 0, row;
    if (number < 0 || number >= bodies->count || !bmq_is_body_inside(bodies, number) || keep_count < batch->record_count) {
        return -BMQ_BAD_CALL;
    }
    place = bodies->starts[number];
    end = bodies->ends[number];
    retained->count = 0;
    retained->max_timestamp_ms = INT64_MIN;
    for (row = 0; row < batch->record_count; row++) {
        int64_t time_ms, delta, size, length;
        begin = place;
        place = bmq_get_record(data, place, end, WHOLE, batch->last_offset_delta, &previous, &record);
        if (place < 0) {
            return place;
        }
        if (!keep[row]) {
            continue;
        }
        time_ms = batch->attributes & BMQ_LOG_APPEND_TIME ? batch->max_timestamp_ms
                                                          : bmq_sum(batch->base_timestamp_ms, record.timestamp_delta);
        if (!has_base && retained->count == 0) {
            retained->base_timestamp_ms = time_ms;
        }
        retained->count++;
        if (time_ms > retained->max_timestamp_ms) {
            retained->max_timestamp_ms = time_ms;
        }
        delta = bmq_difference(time_ms, retained->base_timestamp_ms);
        size = 1 + bmq_varint_bytes(delta) + record.stop - record.behind_timestamp;
        if (bmq_varint_bytes(size) + size > out_bytes - written) {
            return -BMQ_BAD_CALL;
        }
        begin = bmq_get_varint(data, begin, end, &length); /* where the attributes are */
        written = bmq_put_varint(out, written, size);
        out[written++] = data[begin];
        written = bmq_put_varint(out, written, delta);
        memcpy(out + written, data + record.behind_timestamp, (size_t)(record.stop - record.behind_timestamp));
        written += record.stop - record.behind_timestamp;
    }
    retained->bytes = written;
    return place == end ? 0 : -BMQ_BYTES_LEFT;
}
