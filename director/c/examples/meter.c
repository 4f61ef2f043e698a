/* A meter in C that answers each price: meter KEY LOCAL HUB.
 *   cc meter.c -I director/c/include -L target/release -l director_c -o meter */
#include <director.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    char why[200] = "usage: meter KEY LOCAL HUB";
    if (argc == 4) {
        director_listener *meter = director_listen("{}", (const uint8_t *)argv[1], strlen(argv[1]),
                                                   argv[2], argv[3], why, sizeof why);
        while (meter && !director_listener_is_over(meter)) {
            director_request *price = director_next(meter, 1000);
            if (price)
                director_reply(price, (const uint8_t *)"17 kWh", 6);
        }
    }
    fprintf(stderr, "meter: %s\n", why);
    return 1;
}
