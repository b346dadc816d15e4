/* Members of a share group that cost next to nothing: share sessions whose fetches acknowledge what the last one gave.
 *
 *   members --port N --frames FILE --members N --epoch-at N --first-at N --last-at N [--host A]
 *           [--rate PER_S] [--warm-s S] [--seconds S]
 *
 * FILE holds three ShareFetch requests (2) for each member, each with its length in front: one that opens the session, one
 * without acknowledgements, and one that accepts a range. Into the last two the session's epoch is written at --epoch-at
 * (counted from behind the length), into the third also the first and the last offset of the range.
 *
 * Without --rate a member fetches again as soon as it is answered. With --rate fetches fall due at fixed times, of one
 * member after the other, whatever the server does; their latency counts from when they were due, and one that falls due
 * while its member has another under way is sent when that is answered. A latency is that of a fetch that accepts the
 * record of the one before and is given a new one.
 *
 * "begin" and "end" are printed around the measured time, so that somebody else can look at the server's processor time
 * at these moments; then one line of JSON. An answer with an error code anywhere ends it with a sentence and code 1, as
 * does a connection that the server closes.
 */
#define _GNU_SOURCE
#define PROGRAM "members"
#include "../core/connection.h"
#include <getopt.h>
#include <stdbool.h>

enum {
    CORRELATION_AT = 4, /* in a request, behind its length, the API's key and version */
    RECEIVED_BYTES_MAX = 4 * 1024 * 1024,
    SAMPLES_MAX = 8 * 1024 * 1024,
    OPENING_MAX = 16, /* sessions that are being opened: Kafka's backlog has room for 50 connections */
    OPENING_S = 60,
};
enum { OPENING, CONTINUING, ACCEPTING, FORM_COUNT }; /* the frames of a member */

typedef struct {
    uint8_t *data; /* its length in front */
    size_t size;
} Frame;

typedef struct {
    int fd;
    uint32_t epoch, correlation_id;
    bool has_range, is_busy, is_accepting;
    int64_t first, last; /* given and not accepted yet */
    uint64_t due_ns, due_count; /* of the fetch under way; fetches that fell due so far */
    uint64_t sent_count;
    uint8_t *answer;
    size_t received, room;
} Member;

static struct {
    const char *host;
    int port;
    const char *frames;
    uint32_t members;
    double rate, warm_s, seconds;
    size_t epoch_at, first_at, last_at;
} options = {"127.0.0.1", 0, NULL, 0, 0, 1, 5, 0, 0, 0};

static Frame *frames; /* FORM_COUNT of each member */
static Member *members;
static int epoll;
static uint64_t start_ns, begin_ns, end_ns;
static bool is_over; /* nothing new is sent */
static Samples samples;
static uint64_t fetch_count, empty_count, record_count, received_bytes, under_way, due_count;

/* -- Bytes --------------------------------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at, *end;
} Reader;

static const uint8_t *skip(Reader *reader, uint64_t count) {
    if (count > (uint64_t)(reader->end - reader->at)) fail("an answer ends in the middle");
    const uint8_t *was = reader->at;
    reader->at += count;
    return was;
}

static int64_t take_number(Reader *reader, int bytes) { return (int64_t)read_number(skip(reader, (uint64_t)bytes), bytes); }

static uint32_t take_varint(Reader *reader) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = *skip(reader, 1);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    fail("a varint of more than five bytes");
}

static void skip_compact(Reader *reader) {
    uint32_t length = take_varint(reader);
    if (length) skip(reader, length - 1);
}

static void skip_tags(Reader *reader) {
    for (uint32_t left = take_varint(reader); left; left--) {
        take_varint(reader);
        skip(reader, take_varint(reader));
    }
}

static void require_none(Reader *reader, const char *what) {
    int code = (int16_t)take_number(reader, 2);
    if (code) fail("%s: error code %d", what, code);
}

/* -- Frames -------------------------------------------------------------------------------------------------------- */

static void read_frames(void) {
    FILE *file = fopen(options.frames, "rb");
    if (!file) fail("%s: %s", options.frames, strerror(errno));
    size_t count = (size_t)options.members * FORM_COUNT;
    frames = calloc(count, sizeof *frames);
    if (!frames) fail("no memory for the frames");
    for (size_t number = 0; number < count; number++) {
        uint8_t length[LENGTH_BYTES];
        if (fread(length, sizeof length, 1, file) != 1) fail("%s has fewer than %zu frames", options.frames, count);
        size_t size = read_number(length, LENGTH_BYTES);
        Frame *frame = &frames[number];
        *frame = (Frame){malloc(LENGTH_BYTES + size), LENGTH_BYTES + size};
        if (!frame->data) fail("no memory for the frames");
        memcpy(frame->data, length, sizeof length);
        if (fread(frame->data + LENGTH_BYTES, size, 1, file) != 1) fail("%s: the last frame is cut off", options.frames);
        bool is_accepting = number % FORM_COUNT == ACCEPTING;
        if (size < options.epoch_at + 4 || (is_accepting && size < options.last_at + 8)) fail("a frame of %zu bytes", size);
    }
    fclose(file);
}

/* -- Connections --------------------------------------------------------------------------------------------------- */

static void send_frame(uint32_t number, int form, uint64_t due_ns) {
    Member *member = &members[number];
    Frame *frame = &frames[(size_t)number * FORM_COUNT + (size_t)form];
    uint8_t *body = frame->data + LENGTH_BYTES;
    write_number(body + CORRELATION_AT, 4, ++member->correlation_id);
    if (form != OPENING) write_number(body + options.epoch_at, 4, member->epoch);
    if (form == ACCEPTING) {
        write_number(body + options.first_at, 8, (uint64_t)member->first);
        write_number(body + options.last_at, 8, (uint64_t)member->last);
    }
    member->epoch++;
    member->is_accepting = form == ACCEPTING;
    member->has_range = false;
    member->is_busy = true;
    member->due_ns = due_ns;
    under_way++;
    /* One request is under way on a connection, and it is small: the socket has room. */
    if (send(member->fd, frame->data, frame->size, MSG_NOSIGNAL) != (ssize_t)frame->size) fail("sending: %s", strerror(errno));
}

static uint64_t due_time(uint64_t number) { return start_ns + (uint64_t)((double)number / options.rate * 1e9); }

static void fetch(uint32_t number, uint64_t due_ns) {
    send_frame(number, members[number].has_range ? ACCEPTING : CONTINUING, due_ns);
}

/* The next fetch of a member that has none under way: at once, or if one has fallen due. */
static void go_on(uint32_t number) {
    Member *member = &members[number];
    if (is_over) return;
    if (options.rate <= 0) {
        fetch(number, now_ns());
    } else if (member->sent_count < member->due_count) {
        fetch(number, due_time(member->sent_count++ * options.members + number));
    }
}

static void begin_due(void) {
    for (uint64_t now = now_ns(); !is_over && due_time(due_count) <= now; due_count++) {
        uint32_t number = (uint32_t)(due_count % options.members);
        members[number].due_count++;
        if (!members[number].is_busy) go_on(number);
    }
}

/* -- Answers ------------------------------------------------------------------------------------------------------- */

static void answered(uint32_t number) {
    Member *member = &members[number];
    Reader reader = {member->answer + LENGTH_BYTES, member->answer + member->received};
    if ((uint32_t)take_number(&reader, 4) != member->correlation_id) fail("an answer to another request");
    skip_tags(&reader);
    take_number(&reader, 4); /* throttle time */
    require_none(&reader, "the fetch");
    skip_compact(&reader);
    take_number(&reader, 4); /* the locks' duration */
    bool is_given = false;
    for (uint32_t topics = take_varint(&reader); topics > 1; topics--) {
        skip(&reader, 16);
        for (uint32_t partitions = take_varint(&reader); partitions > 1; partitions--) {
            take_number(&reader, 4);
            require_none(&reader, "a partition");
            skip_compact(&reader);
            require_none(&reader, "an acknowledgement");
            skip_compact(&reader);
            skip(&reader, 8); /* leader */
            skip_tags(&reader);
            skip_compact(&reader); /* records */
            for (uint32_t ranges = take_varint(&reader); ranges > 1; ranges--) {
                if (is_given) fail("a fetch of one was given more than one range");
                is_given = true;
                member->first = take_number(&reader, 8);
                member->last = take_number(&reader, 8);
                take_number(&reader, 2);
                skip_tags(&reader);
            }
            skip_tags(&reader);
        }
        skip_tags(&reader);
    }
    member->has_range = is_given;
    member->is_busy = false;
    under_way--;
    uint64_t now = now_ns();
    if (now < begin_ns || now >= end_ns || !begin_ns) return;
    fetch_count++;
    received_bytes += member->received;
    empty_count += !is_given;
    if (is_given) record_count += (uint64_t)(member->last - member->first + 1);
    if (!is_given || !member->is_accepting) return;
    keep_or_fail(&samples, member->due_ns, now);
}

static void receive(uint32_t number) {
    Member *member = &members[number];
    for (;;) {
        size_t wanted = LENGTH_BYTES;
        if (member->received >= LENGTH_BYTES) wanted += read_number(member->answer, LENGTH_BYTES);
        if (wanted > RECEIVED_BYTES_MAX) fail("an answer of %zu bytes", wanted);
        if (wanted > member->room) {
            member->room = wanted < 512 ? 512 : wanted;
            member->answer = realloc(member->answer, member->room);
            if (!member->answer) fail("no memory for an answer");
        }
        ssize_t count = recv(member->fd, member->answer + member->received, wanted - member->received, 0);
        if (count == 0) fail("the server closed a connection");
        if (count < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) return;
            fail("receiving: %s", strerror(errno));
        }
        member->received += (size_t)count;
        if (member->received < wanted || wanted == LENGTH_BYTES) continue;
        answered(number);
        member->received = 0;
        if (start_ns) go_on(number);
        return;
    }
}

static void wait_for_events(uint64_t until_ns) {
    struct epoll_event events[EVENTS_MAX];
    int count = await_events(epoll, events, until_ns);
    for (int index = 0; index < count; index++) receive(events[index].data.u32);
}

/* -- The run ------------------------------------------------------------------------------------------------------- */

/* A few at a time. The members fetch from the start of the run on. */
static void open_sessions(void) {
    struct sockaddr_in address = address_of(options.host, options.port);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    members = calloc(options.members, sizeof *members);
    if (epoll < 0 || !members) fail("no members: %s", strerror(errno));
    uint64_t until_ns = now_ns() + ns_of(OPENING_S);
    for (uint32_t opened = 0; opened < options.members || under_way;) {
        if (now_ns() >= until_ns) fail("%" PRIu64 " of %u sessions were not opened in time", under_way, opened);
        if (opened < options.members && under_way < OPENING_MAX) {
            members[opened].fd = connect_to(&address);
            watch_answers(epoll, members[opened].fd, opened);
            send_frame(opened++, OPENING, now_ns());
        } else {
            wait_for_events(until_ns);
        }
    }
}

static void run(void) {
    start_ns = now_ns();
    begin_ns = start_ns + ns_of(options.warm_s);
    end_ns = begin_ns + ns_of(options.seconds);
    bool has_begun = false;
    double cpu_s = 0;
    for (uint32_t number = 0; options.rate <= 0 && number < options.members; number++) go_on(number);
    for (;;) {
        uint64_t now = now_ns();
        if (!has_begun && now >= begin_ns) {
            has_begun = true;
            cpu_s = cpu_seconds();
            say("begin");
        }
        if (!is_over && now >= end_ns) {
            is_over = true;
            cpu_s = cpu_seconds() - cpu_s;
            say("end");
            break; /* what is under way ends with its connection */
        }
        uint64_t until_ns = has_begun ? end_ns : begin_ns;
        if (options.rate > 0) {
            begin_due();
            if (due_time(due_count) < until_ns) until_ns = due_time(due_count);
        }
        wait_for_events(until_ns);
    }
    uint64_t late = 0;
    for (uint32_t number = 0; options.rate > 0 && number < options.members; number++)
        late += members[number].due_count - members[number].sent_count;
    printf("{\"fetches\": %" PRIu64 ", \"empty\": %" PRIu64 ", \"records\": %" PRIu64 ", \"seconds\": %.6f, "
           "\"received_bytes\": %" PRIu64 ", \"not_sent\": %" PRIu64 ", \"client_cpu_s\": %.6f, \"round_trips\": %" PRIu64,
           fetch_count, empty_count, record_count, options.seconds, received_bytes, late, cpu_s, samples.count);
    say_percentiles(&samples);
}

int main(int count, char **arguments) {
    static const struct option known[] = {
        {"host", required_argument, NULL, 'h'},     {"port", required_argument, NULL, 'p'},
        {"frames", required_argument, NULL, 'f'},   {"members", required_argument, NULL, 'm'},
        {"rate", required_argument, NULL, 'r'},     {"warm-s", required_argument, NULL, 'w'},
        {"seconds", required_argument, NULL, 's'},  {"epoch-at", required_argument, NULL, 'e'},
        {"first-at", required_argument, NULL, 'a'}, {"last-at", required_argument, NULL, 'z'},
        {NULL, 0, NULL, 0},
    };
    for (int option, index = 0; (option = getopt_long(count, arguments, "", known, &index)) != -1;) {
        const char *name = option == '?' ? "" : known[index].name;
        switch (option) {
        case 'h': options.host = optarg; break;
        case 'p': options.port = (int)number_of(name, optarg, 1); break;
        case 'f': options.frames = optarg; break;
        case 'm': options.members = (uint32_t)number_of(name, optarg, 1); break;
        case 'r': options.rate = number_of(name, optarg, 0); break;
        case 'w': options.warm_s = number_of(name, optarg, 0); break;
        case 's': options.seconds = number_of(name, optarg, 0.001); break;
        case 'e': options.epoch_at = (size_t)number_of(name, optarg, 1); break;
        case 'a': options.first_at = (size_t)number_of(name, optarg, 1); break;
        case 'z': options.last_at = (size_t)number_of(name, optarg, 1); break;
        default: return 2;
        }
    }
    if (!options.frames || !options.port || !options.members || !options.epoch_at) fail("an option is missing");
    make_room(&samples, SAMPLES_MAX);
    read_frames();
    open_sessions();
    run();
    return 0;
}
