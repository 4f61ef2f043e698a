/* stored KEY LOCAL HUB FOLDER READING: a meter whose readings outlast its restarts. It says what became of
 * earlier readings, then sends one.
 *   cc stored.c -I director/c/include -L target/release -l director_c -o stored */
#include <director.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#define BYTES(text) (const uint8_t *)(text), strlen(text)

int main(int argc, char **argv) {
    char why[400] = "", options[1000];
    if (argc != 6)
        return fprintf(stderr, "stored KEY LOCAL HUB FOLDER READING\n"), 1;
    /* FOLDER has no characters that JSON escapes. */
    snprintf(options, sizeof options, "{\"storage\": \"%s\"}", argv[4]);
    director_listener *meter = director_listen(options, BYTES(argv[1]), argv[2], argv[3], why, 400);
    if (!meter)
        return fprintf(stderr, "%s\n", why), 1;
    /* As many as a member can have open. All of them get one minute together. */
    director_restored *old[1024];
    size_t count = 0, length;
    while (count < 1024 && (old[count] = director_next_restored(meter)))
        count++;
    time_t end = time(0) + 60;
    for (size_t i = 0; i < count; director_restored_free(old[i++])) {
        const uint8_t *message = director_restored_message(old[i], &length);
        uint64_t left = end > time(0) ? (uint64_t)(end - time(0)) * 1000 : 0;
        int outcome = director_restored_outcome(old[i], left, why, sizeof why);
        printf("of a former start: %.*s, outcome %d\n", (int)length, (const char *)message, outcome);
        fflush(stdout);
    }
    int outcome = director_publish_stored(meter, 0, BYTES(argv[5]), 60000, 100, why, sizeof why);
    printf("now: outcome %d %s\n", outcome, why);
    director_listener_free(meter);
    return outcome != DIRECTOR_ACKNOWLEDGED;
}
