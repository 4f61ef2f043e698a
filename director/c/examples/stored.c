/* stored KEY LOCAL HUB FOLDER READING: a meter whose readings outlast its restarts. It says what became of
 * earlier readings, then sends one.
 *   cc stored.c -I director/c/include -L target/release -l director_c -o stored */
#include <director.h>
#include <stdio.h>
#include <string.h>
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
    for (director_restored *old; (old = director_next_restored(meter)); director_restored_free(old)) {
        size_t length;
        const uint8_t *message = director_restored_message(old, &length);
        int outcome = director_restored_outcome(old, 60000, why, sizeof why);
        printf("of a former start: %.*s, outcome %d\n", (int)length, (const char *)message, outcome);
        fflush(stdout);
    }
    int outcome = director_publish_stored(meter, 0, BYTES(argv[5]), 60000, 100, why, sizeof why);
    printf("now: outcome %d %s\n", outcome, why);
    director_listener_free(meter);
    return outcome != DIRECTOR_ACKNOWLEDGED;
}
