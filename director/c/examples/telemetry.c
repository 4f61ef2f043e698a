/* telemetry KEY PORT: five members, here threads, subscribe to updates and send a reading each.
 *   cc telemetry.c -I director/c/include -L target/release -l director_c -pthread -o telemetry */
#include <director.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *key, names[6][24];
#define BYTES(text) (const uint8_t *)(text), strlen(text)

static void *meter(void *name) {
    char why[200] = "";
    director_listener *own = director_listen("{}", BYTES(key), name, names[0], why, sizeof why);
    director_subscribe(own, "updates/#", why, sizeof why);
    int outcome = director_publish_to(own, "energy", BYTES("17 kWh"), 30000, 100, why, sizeof why);
    printf("%s: outcome %d %s\n", (char *)name, outcome, why);
    director_request_free(director_next(own, 30000));
    return own;
}

int main(int argc, char **argv) {
    char why[200] = "";
    const char *members[] = {names[1], names[2], names[3], names[4], names[5]};
    pthread_t threads[5];
    key = argc == 3 ? argv[1] : "";
    for (int n = 0; argc == 3 && n < 6; n++)
        snprintf(names[n], sizeof names[n], "127.0.0.1:%d", atoi(argv[2]) + n);
    director_session *hub = director_initiate("{}", BYTES(key), names[0], members, 5, why, 200);
    if (!hub) return fprintf(stderr, "telemetry KEY PORT: %s\n", why), 1;
    for (int n = 0; n < 5; n++)
        pthread_create(&threads[n], 0, meter, names[n + 1]);
    for (int n = 0; n < 5; n++) {
        director_incoming *reading = director_receive(hub, 30000);
        printf("a reading of member %u\n", director_incoming_member(reading));
        director_incoming_free(reading);
    }
    director_collected *all = director_publish_topic(hub, "updates/a", BYTES("21"), why, sizeof why);
    return printf("%zu updated %s\n", director_answers(all), why) < 0;
}
