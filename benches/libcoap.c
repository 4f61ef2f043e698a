/* libcoap's own client in a loop at its maximum rate, with several non-confirmable requests
 * in flight. `libcoap ADDRESS PORT SECONDS IN_FLIGHT` prints the requests sent and answered
 * per second. */
#include <coap3/coap.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long sent, answered;

static coap_response_t on_response(coap_session_t *session, const coap_pdu_t *request,
                                   const coap_pdu_t *response, const coap_mid_t mid) {
    (void)session, (void)request, (void)response, (void)mid;
    answered++;
    return COAP_RESPONSE_OK;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: libcoap ADDRESS PORT SECONDS UNDER_WAY\n");
        return 2;
    }
    coap_address_t to;
    coap_address_init(&to);
    to.addr.sin.sin_family = AF_INET;
    to.addr.sin.sin_port = htons((uint16_t)atoi(argv[2]));
    to.size = sizeof to.addr.sin;
    if (inet_pton(AF_INET, argv[1], &to.addr.sin.sin_addr) != 1)
        return 2;
    double seconds = atof(argv[3]);
    unsigned long under_way = strtoul(argv[4], 0, 10);

    coap_startup();
    coap_context_t *context = coap_new_context(0);
    coap_session_t *session =
        context ? coap_new_client_session(context, 0, &to, COAP_PROTO_UDP) : 0;
    if (!session)
        return 1;
    coap_register_response_handler(context, on_response);
    double begun = now(), end = begun + seconds;
    while (now() < end) {
        while (sent - answered < under_way) {
            coap_pdu_t *request = coap_pdu_init(COAP_MESSAGE_NON, COAP_REQUEST_CODE_GET,
                                                coap_new_message_id(session),
                                                coap_session_max_pdu_size(session));
            uint8_t token[8];
            size_t length;
            coap_session_new_token(session, &length, token);
            coap_add_token(request, length, token);
            coap_add_option(request, COAP_OPTION_URI_PATH, 1, (const uint8_t *)"r");
            if (coap_send(session, request) == COAP_INVALID_MID)
                break;
            sent++;
        }
        coap_io_process(context, COAP_IO_NO_WAIT);
    }
    double took = now() - begun;
    printf("%.0f %.0f\n", (double)sent / took, (double)answered / took);
    coap_session_release(session);
    coap_free_context(context);
    coap_cleanup();
    return 0;
}
