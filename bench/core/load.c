/* A client that costs next to nothing: sends frames made beforehand, keeps some in flight, counts the answers.
 *
 *   load --host A --port N --frames FILE [--connections N] [--in-flight N] [--rate PER_S] [--warm-s S] [--seconds S]
 *        [--zero-at POSITION] [--answer-bytes-min N]
 *
 * FILE holds Kafka requests one behind the other, each with its length in front and a correlation id of its own. Each
 * connection sends them in turn, beginning at a place of its own, and begins again behind the last.
 *
 * Without --rate a request is sent as soon as fewer than --in-flight are under way on a connection, and its latency
 * counts from then. With --rate requests fall due at fixed times, whatever the server does, on one connection after the
 * other, and their latency counts from when they were due.
 *
 * "begin" and "end" are printed around the measured time, so that somebody else can look at the server's processor time
 * at these moments; then one line of JSON. SIGTERM ends the measured time early. An answer whose correlation id is not that of the oldest request under way,
 * that is shorter than --answer-bytes-min, or whose two bytes at --zero-at (an error code; counted from behind the length)
 * are not zero, ends it with a sentence and code 1, as does a connection that the server closes.
 */
#define _GNU_SOURCE
#define PROGRAM "load"
#include "connection.h"
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CORRELATION_AT = 8, /* in a request, its length counted: behind the API's key and version */
    HEAD_BYTES_MAX = 256, /* of an answer, kept to be looked at; the rest is thrown away by the kernel */
    RECEIVED_BYTES_MAX = 64 * 1024,
    SAMPLES_MAX = 32 * 1024 * 1024,
    DRAIN_S = 10,
    ACCEPTED_EVERY = 32, /* connections: Kafka's backlog has room for 50, and one too many waits a second */
};

typedef struct {
    const uint8_t *data; /* its length in front */
    size_t size;
    uint32_t correlation_id;
} Frame;

typedef struct {
    uint64_t due_ns;
    uint32_t frame;
} Request;

typedef struct {
    int fd;
    uint32_t next_frame;
    Request *requests; /* a ring of in_flight places */
    uint32_t first, count; /* under way, the one that is being sent counted */
    bool is_sending;
    size_t sent; /* bytes of the newest */
    uint32_t events; /* what epoll watches it for */
    uint8_t head[LENGTH_BYTES + HEAD_BYTES_MAX];
    size_t head_size;
    uint64_t body_left; /* of the answer behind its head; nothing while the head is not complete */
    uint64_t answer_bytes;
} Connection;

static struct {
    const char *host;
    int port;
    const char *frames;
    uint32_t connections, in_flight;
    double rate, warm_s, seconds;
    long zero_at;
    uint64_t answer_bytes_min;
} options = {"127.0.0.1", 0, NULL, 1, 1, 0, 1, 5, -1, 0};

static Frame *frames;
static uint32_t frame_count;
static Connection *connections;
static int epoll;
static uint64_t begin_ns, end_ns;
static bool is_over; /* nothing new is sent */
static Samples samples;
static volatile sig_atomic_t is_told_to_end;
static uint64_t sent_bytes, received_bytes, requests_under_way;
static uint64_t due_count;
static uint32_t next_connection;

static void read_frames(void) {
    int fd = open(options.frames, O_RDONLY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) fail("%s: %s", options.frames, strerror(errno));
    size_t size = (size_t)status.st_size;
    const uint8_t *data = mmap(NULL, size ? size : 1, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED) fail("%s: %s", options.frames, strerror(errno));
    close(fd);
    uint32_t room = 0;
    for (size_t at = 0; at < size;) {
        if (size - at < CORRELATION_AT + 4) fail("%s: the last frame is cut off", options.frames);
        size_t whole = LENGTH_BYTES + (size_t)read_number(data + at, LENGTH_BYTES);
        if (whole < CORRELATION_AT + 4 || whole > size - at) fail("%s: a frame of %zu bytes", options.frames, whole);
        if (frame_count == room) {
            room = room ? room * 2 : 64;
            frames = realloc(frames, room * sizeof *frames);
            if (!frames) fail("no memory for the frames");
        }
        frames[frame_count++] = (Frame){data + at, whole, read_number(data + at + CORRELATION_AT, LENGTH_BYTES)};
        at += whole;
    }
    if (!frame_count) fail("%s holds no frame", options.frames);
}

/* Connections are accepted in their order: an answer on this one says that all before it were, and the backlog is empty. */
static void wait_until_accepted(int fd) {
    static const uint8_t api_versions[] = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 0, 0xff, 0xff}; /* version 0, no client id */
    uint8_t answer[RECEIVED_BYTES_MAX];
    if (send(fd, api_versions, sizeof api_versions, MSG_NOSIGNAL) != sizeof api_versions) fail("sending: %s", strerror(errno));
    if (recv(fd, answer, LENGTH_BYTES, MSG_WAITALL) != LENGTH_BYTES) fail("no answer to ApiVersions");
    size_t size = read_number(answer, LENGTH_BYTES);
    if (size > sizeof answer || recv(fd, answer, size, MSG_WAITALL) != (ssize_t)size) fail("half an answer to ApiVersions");
}

static void connect_all(void) {
    struct sockaddr_in address = address_of(options.host, options.port);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    connections = calloc(options.connections, sizeof *connections);
    if (epoll < 0 || !connections) fail("no connections: %s", strerror(errno));
    for (uint32_t number = 0; number < options.connections; number++) {
        Connection *connection = &connections[number];
        connection->fd = connect_to(&address);
        if (number % ACCEPTED_EVERY == ACCEPTED_EVERY - 1) wait_until_accepted(connection->fd);
        connection->requests = calloc(options.in_flight, sizeof *connection->requests);
        if (!connection->requests) fail("no memory for what is in flight");
        connection->next_frame = (uint32_t)((uint64_t)frame_count * number / options.connections);
        connection->events = EPOLLIN;
        watch_answers(epoll, connection->fd, number);
    }
}

static void watch(Connection *connection, uint32_t events) {
    if (connection->events == events) return;
    connection->events = events;
    struct epoll_event event = {.events = events, .data.u32 = (uint32_t)(connection - connections)};
    epoll_ctl(epoll, EPOLL_CTL_MOD, connection->fd, &event);
}

/* Goes on with the frame that is being sent; false when the socket is full. */
static bool push(Connection *connection) {
    uint32_t newest = (connection->first + connection->count - 1) % options.in_flight;
    const Frame *frame = &frames[connection->requests[newest].frame];
    while (connection->sent < frame->size) {
        ssize_t count =
            send(connection->fd, frame->data + connection->sent, frame->size - connection->sent, MSG_NOSIGNAL);
        if (count < 0) {
            if (errno == EINTR) continue;
            if (errno != EAGAIN) fail("sending: %s", strerror(errno));
            watch(connection, EPOLLIN | EPOLLOUT);
            return false;
        }
        connection->sent += (size_t)count;
    }
    connection->is_sending = false;
    watch(connection, EPOLLIN);
    return true;
}

static bool has_room(const Connection *connection) {
    return !connection->is_sending && connection->count < options.in_flight;
}

static bool begin_request(Connection *connection, uint64_t due_ns) {
    uint32_t place = (connection->first + connection->count) % options.in_flight;
    connection->requests[place] = (Request){due_ns, connection->next_frame};
    connection->next_frame = (connection->next_frame + 1) % frame_count;
    connection->count++;
    requests_under_way++;
    connection->is_sending = true;
    connection->sent = 0;
    return push(connection);
}

/* As many as there may be under way; at a fixed rate requests are begun by begin_due instead. */
static void fill(Connection *connection) {
    if (options.rate > 0) return;
    while (!is_over && has_room(connection)) {
        uint64_t now = now_ns();
        if (now >= end_ns || !begin_request(connection, now)) return;
    }
}

static uint64_t due_time(uint64_t number, uint64_t start_ns) {
    return start_ns + (uint64_t)((double)number / options.rate * 1e9);
}

/* Requests whose time has come, each on the next connection that has room; false if there is none: they go on being late. */
static bool begin_due(uint64_t start_ns) {
    uint64_t now = now_ns();
    while (!is_over && due_time(due_count, start_ns) <= now) {
        uint32_t tried = 0;
        while (tried < options.connections && !has_room(&connections[next_connection])) {
            next_connection = (next_connection + 1) % options.connections;
            tried++;
        }
        if (tried == options.connections) return false;
        begin_request(&connections[next_connection], due_time(due_count++, start_ns));
        next_connection = (next_connection + 1) % options.connections;
    }
    return true;
}

static void answered(Connection *connection) {
    if (!connection->count || (connection->count == 1 && connection->is_sending)) fail("an answer nobody asked for");
    Request request = connection->requests[connection->first];
    connection->first = (connection->first + 1) % options.in_flight;
    connection->count--;
    requests_under_way--;
    const Frame *frame = &frames[request.frame];
    const uint8_t *body = connection->head + LENGTH_BYTES;
    size_t seen = connection->head_size - LENGTH_BYTES;
    if (seen < 4 || read_number(body, LENGTH_BYTES) != frame->correlation_id) fail("an answer to another request than the oldest");
    if (options.zero_at >= 0) {
        size_t at = (size_t)options.zero_at;
        if (seen < at + 2) fail("an answer of %zu bytes has no error code at %zu", seen, at);
        int code = (int16_t)((uint16_t)body[at] << 8 | body[at + 1]);
        if (code) fail("the server answered with error code %d", code);
    }
    if (connection->answer_bytes < options.answer_bytes_min)
        fail("an answer of %" PRIu64 " bytes, at least %" PRIu64 " were wanted", connection->answer_bytes,
             options.answer_bytes_min);
    uint64_t now = now_ns();
    if (now < begin_ns || now >= end_ns) return;
    keep_or_fail(&samples, request.due_ns, now);
    sent_bytes += frame->size;
    received_bytes += connection->answer_bytes;
}

/* Takes received bytes; returns how many were used. */
static size_t take(Connection *connection, const uint8_t *data, size_t size) {
    size_t wanted = LENGTH_BYTES;
    if (connection->head_size >= LENGTH_BYTES) {
        uint64_t whole = connection->answer_bytes;
        wanted = whole < sizeof connection->head ? (size_t)whole : sizeof connection->head;
    }
    size_t count = wanted - connection->head_size;
    if (count > size) count = size;
    memcpy(connection->head + connection->head_size, data, count);
    connection->head_size += count;
    if (connection->head_size < wanted) return count;
    if (wanted == LENGTH_BYTES && !connection->answer_bytes) {
        connection->answer_bytes = LENGTH_BYTES + (uint64_t)read_number(connection->head, LENGTH_BYTES);
        if (connection->answer_bytes > (uint64_t)1 << 30) fail("an answer of %" PRIu64 " bytes", connection->answer_bytes);
        return count;
    }
    connection->body_left = connection->answer_bytes - connection->head_size;
    size_t skipped = size - count;
    if (skipped > connection->body_left) skipped = (size_t)connection->body_left;
    connection->body_left -= skipped;
    return count + skipped;
}

static bool is_head_complete(const Connection *connection) {
    return connection->answer_bytes && (connection->head_size == sizeof connection->head ||
                                        connection->head_size == connection->answer_bytes);
}

static void finish(Connection *connection) {
    answered(connection);
    connection->head_size = 0;
    connection->answer_bytes = 0;
}

static void receive(Connection *connection) {
    static uint8_t received[RECEIVED_BYTES_MAX];
    for (;;) {
        ssize_t count;
        if (connection->body_left) {
            /* MSG_TRUNC: the kernel drops the bytes of a stream without copying them. */
            count = recv(connection->fd, NULL, connection->body_left, MSG_TRUNC);
        } else {
            count = recv(connection->fd, received, sizeof received, 0);
        }
        if (count == 0) fail("the server closed a connection with %u requests under way", connection->count);
        if (count < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) break;
            fail("receiving: %s", strerror(errno));
        }
        if (connection->body_left) {
            connection->body_left -= (uint64_t)count;
            if (!connection->body_left) finish(connection);
            continue;
        }
        for (size_t at = 0; at < (size_t)count;) {
            at += take(connection, received + at, (size_t)count - at);
            if (is_head_complete(connection) && !connection->body_left) finish(connection);
        }
        if ((size_t)count < sizeof received && !connection->body_left) break;
    }
    fill(connection);
}

static void wait_for_events(uint64_t until_ns) {
    struct epoll_event events[EVENTS_MAX];
    int count = await_events(epoll, events, until_ns);
    for (int index = 0; index < count; index++) {
        Connection *connection = &connections[events[index].data.u32];
        if ((events[index].events & EPOLLOUT) && connection->is_sending && push(connection)) fill(connection);
        if (events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(connection);
    }
}

static uint64_t earlier(uint64_t left, uint64_t right) { return left < right ? left : right; }

static void run(void) {
    uint64_t start_ns = now_ns();
    begin_ns = start_ns + ns_of(options.warm_s);
    end_ns = begin_ns + ns_of(options.seconds);
    bool has_begun = false;
    double cpu_s = 0;
    for (uint32_t number = 0; number < options.connections; number++) fill(&connections[number]);
    for (;;) {
        uint64_t now = now_ns();
        if (is_told_to_end && has_begun && now < end_ns) end_ns = now;
        if (!has_begun && now >= begin_ns) {
            has_begun = true;
            cpu_s = cpu_seconds();
            say("begin");
        }
        if (!is_over && now >= end_ns) {
            is_over = true;
            cpu_s = cpu_seconds() - cpu_s;
            say("end");
        }
        if (is_over && (!requests_under_way || now >= end_ns + ns_of(DRAIN_S))) break;
        uint64_t until_ns = !has_begun ? begin_ns : !is_over ? end_ns : end_ns + ns_of(DRAIN_S);
        if (options.rate > 0 && !is_over) {
            /* What finds no room waits for an answer; all else for its time, which may have come in the meantime. */
            if (begin_due(start_ns)) until_ns = earlier(until_ns, due_time(due_count, start_ns));
        }
        wait_for_events(until_ns);
    }
    if (requests_under_way) fail("%" PRIu64 " requests were not answered within %d s", requests_under_way, DRAIN_S);
    uint64_t late = options.rate > 0 ? (uint64_t)(options.rate * (double)(end_ns - start_ns) / 1e9) : 0;
    late = late > due_count ? late - due_count : 0;
    printf("{\"answers\": %" PRIu64 ", \"seconds\": %.6f, \"sent_bytes\": %" PRIu64 ", \"received_bytes\": %" PRIu64
           ", \"not_sent\": %" PRIu64 ", \"client_cpu_s\": %.6f",
           samples.count, (double)(end_ns - begin_ns) / 1e9, sent_bytes, received_bytes, late, cpu_s);
    say_percentiles(&samples);
}

static void end_early(int signal_number) {
    (void)signal_number;
    is_told_to_end = true;
}

int main(int count, char **arguments) {
    static const struct option known[] = {
        {"host", required_argument, NULL, 'h'},        {"port", required_argument, NULL, 'p'},
        {"frames", required_argument, NULL, 'f'},      {"connections", required_argument, NULL, 'c'},
        {"in-flight", required_argument, NULL, 'i'},   {"rate", required_argument, NULL, 'r'},
        {"warm-s", required_argument, NULL, 'w'},      {"seconds", required_argument, NULL, 's'},
        {"zero-at", required_argument, NULL, 'z'},     {"answer-bytes-min", required_argument, NULL, 'a'},
        {NULL, 0, NULL, 0},
    };
    for (int option, index = 0; (option = getopt_long(count, arguments, "", known, &index)) != -1;) {
        const char *name = option == '?' ? "" : known[index].name;
        switch (option) {
        case 'h': options.host = optarg; break;
        case 'p': options.port = (int)number_of(name, optarg, 1); break;
        case 'f': options.frames = optarg; break;
        case 'c': options.connections = (uint32_t)number_of(name, optarg, 1); break;
        case 'i': options.in_flight = (uint32_t)number_of(name, optarg, 1); break;
        case 'r': options.rate = number_of(name, optarg, 0); break;
        case 'w': options.warm_s = number_of(name, optarg, 0); break;
        case 's': options.seconds = number_of(name, optarg, 0.001); break;
        case 'z': options.zero_at = (long)number_of(name, optarg, 0); break;
        case 'a': options.answer_bytes_min = (uint64_t)number_of(name, optarg, 0); break;
        default: return 2;
        }
    }
    if (!options.frames || !options.port) fail("--frames and --port are needed");
    if (options.zero_at > HEAD_BYTES_MAX - 2) fail("--zero-at is at most %d", HEAD_BYTES_MAX - 2);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = end_early}, NULL);
    make_room(&samples, SAMPLES_MAX);
    read_frames();
    connect_all();
    run();
    return 0;
}
