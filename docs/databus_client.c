/* Hands lines to the Databus agent of this host: cc -o databus_client docs/databus_client.c; ./databus_client SOCKET CHANNEL */
#include <arpa/inet.h>
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int all(int agent, char *data, size_t length, int is_write) { /* 0: the agent is gone */
    for (ssize_t done; length; data += done, length -= done)
        if ((done = is_write ? write(agent, data, length) : read(agent, data, length)) <= 0) return 0;
    return 1;
}

static char *put(char *at, const void *data, size_t length) { return (char *)memcpy(at, data, length) + length; }

/* The code of the answer, -1: no agent. Codes below 10: the record was taken. */
static int hand_over(int agent, const char *channel, const char *value, uint32_t length, char *sentence) {
    static uint32_t sent;
    char frame[66000], answer[1100], *at = frame + 4;
    uint32_t id = htonl(sent++), no_key = 0xFFFFFFFF, value_length = htonl(length), size;
    uint64_t now = 0xFFFFFFFFFFFFFFFF; /* -1: the agent's clock */
    uint8_t name_length = (uint8_t)strlen(channel), head[] = {1, 1};
    uint16_t no_headers = 0;
    at = put(put(put(put(at, head, 2), &id, 4), &now, 8), &name_length, 1);
    at = put(put(at, channel, name_length), &no_key, 4);
    at = put(put(put(at, &value_length, 4), value, length), &no_headers, 2);
    size = htonl((uint32_t)(at - frame - 4));
    memcpy(frame, &size, 4);
    if (!all(agent, frame, at - frame, 1) || !all(agent, answer, 4, 0)) return -1;
    memcpy(&size, answer, 4);
    if ((size = ntohl(size)) > sizeof answer || !all(agent, answer, size, 0)) return -1;
    snprintf(sentence, 1024, "%.*s", (int)size - 20, answer + 20); /* behind version, code, id, number, delay, length */
    return (uint8_t)answer[1];
}

int main(int count, char **words) {
    char line[65000], sentence[1024];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int agent = socket(AF_UNIX, SOCK_STREAM, 0);
    if (count != 3 || strlen(words[1]) >= sizeof address.sun_path || strlen(words[2]) > 255) return 2;
    strcpy(address.sun_path, words[1]);
    if (connect(agent, (struct sockaddr *)&address, sizeof address)) return perror(words[1]), 1;
    while (fgets(line, sizeof line, stdin))
        printf("%d %s\n", hand_over(agent, words[2], line, (uint32_t)strcspn(line, "\n"), sentence), sentence);
}
