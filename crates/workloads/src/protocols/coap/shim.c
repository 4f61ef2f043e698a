// All that needs the layout of libcoap's structures, compiled with the header that is installed: the
// structures grow with its versions (coap_dtls_pki_t by 16 bytes in 4.3.5). What crosses to ffi.rs is
// pointers and numbers only. The end of this file compares ffi.rs with the header.

#include <arpa/inet.h>
#include <coap3/coap.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// A setup with room behind it, all zero: a library that is newer than the header at build time reads
// zeros there, which mean the default.
#define SETUP(type, name)                                                                              \
    union {                                                                                            \
        type setup;                                                                                    \
        unsigned char room[sizeof(type) + 256];                                                        \
    } name;                                                                                            \
    memset(&name, 0, sizeof name)

// An address; an IPv4 address is in the first four bytes of `ip`. `port` is in the host's byte order.
// ffi.rs has the same structure.
typedef struct {
    uint8_t ip[16];
    uint16_t port;
    uint8_t is_ipv6;
} thingbed_address_t;

_Static_assert(sizeof(thingbed_address_t) == 20, "ffi.rs has the same structure");

static coap_address_t address(const thingbed_address_t *of) {
    coap_address_t address;
    coap_address_init(&address);
    if (of->is_ipv6) {
        address.size = sizeof address.addr.sin6;
        address.addr.sin6.sin6_family = AF_INET6;
        address.addr.sin6.sin6_port = htons(of->port);
        memcpy(&address.addr.sin6.sin6_addr, of->ip, 16);
    } else {
        address.size = sizeof address.addr.sin;
        address.addr.sin.sin_family = AF_INET;
        address.addr.sin.sin_port = htons(of->port);
        memcpy(&address.addr.sin.sin_addr, of->ip, 4);
    }
    return address;
}

static coap_fixed_point_t fixed(uint32_t ms) {
    const uint32_t most = UINT16_MAX * 1000u;
    ms = ms < most ? ms : most;
    return (coap_fixed_point_t){(uint16_t)(ms / 1000), (uint16_t)(ms % 1000)};
}

const char *thingbed_coap_header(void) { return LIBCOAP_PACKAGE_VERSION; }

// This program handles blocks itself.
void thingbed_coap_set_up(coap_context_t *context, coap_response_handler_t on_response,
                          coap_nack_handler_t on_nack, coap_event_handler_t on_event) {
    coap_context_set_block_mode(context, 0);
    coap_register_response_handler(context, on_response);
    coap_register_nack_handler(context, on_nack);
    coap_register_event_handler(context, on_event);
}

coap_endpoint_t *thingbed_coap_listen(coap_context_t *context, const thingbed_address_t *of, int proto) {
    const coap_address_t at = address(of);
    return coap_new_endpoint(context, &at, (coap_proto_t)proto);
}

coap_session_t *thingbed_coap_session(coap_context_t *context, const thingbed_address_t *of, int proto) {
    const coap_address_t to = address(of);
    return coap_new_client_session(context, NULL, &to, (coap_proto_t)proto);
}

coap_session_t *thingbed_coap_session_psk(coap_context_t *context, const thingbed_address_t *of, int proto,
                                          const uint8_t *identity, size_t identity_length,
                                          const uint8_t *key, size_t key_length) {
    const coap_address_t to = address(of);
    SETUP(coap_dtls_cpsk_t, psk);
    psk.setup.version = COAP_DTLS_CPSK_SETUP_VERSION;
    psk.setup.psk_info.identity = (coap_bin_const_t){identity_length, identity};
    psk.setup.psk_info.key = (coap_bin_const_t){key_length, key};
    return coap_new_client_session_psk2(context, NULL, &to, (coap_proto_t)proto, &psk.setup);
}

int thingbed_coap_serve_psk(coap_context_t *context, const uint8_t *hint, size_t hint_length,
                            const uint8_t *key, size_t key_length) {
    SETUP(coap_dtls_spsk_t, psk);
    psk.setup.version = COAP_DTLS_SPSK_SETUP_VERSION;
    psk.setup.psk_info.hint = (coap_bin_const_t){hint_length, hint};
    psk.setup.psk_info.key = (coap_bin_const_t){key_length, key};
    return coap_context_set_psk2(context, &psk.setup);
}

static void certificates(coap_dtls_pki_t *pki, int verify, const char *ca, const char *cert,
                         const char *key) {
    pki->version = COAP_DTLS_PKI_SETUP_VERSION;
    pki->verify_peer_cert = pki->check_common_ca = pki->cert_chain_validation = (uint8_t)verify;
    pki->cert_chain_verify_depth = 3;
    pki->allow_no_crl = pki->allow_expired_crl = 1;
    pki->pki_key.key_type = COAP_PKI_KEY_PEM;
    pki->pki_key.key.pem.ca_file = ca;
    pki->pki_key.key.pem.public_cert = cert;
    pki->pki_key.key.pem.private_key = key;
}

// `on_name` is called with `expected` for each certificate of the server.
coap_session_t *thingbed_coap_session_pki(coap_context_t *context, const thingbed_address_t *of, int proto,
                                          const char *ca, const char *cert, const char *key,
                                          const char *server_name, coap_dtls_cn_callback_t on_name,
                                          void *expected) {
    const coap_address_t to = address(of);
    SETUP(coap_dtls_pki_t, pki);
    certificates(&pki.setup, 1, ca, cert, key);
    pki.setup.client_sni = (char *)server_name;
    pki.setup.validate_cn_call_back = on_name;
    pki.setup.cn_call_back_arg = expected;
    return coap_new_client_session_pki(context, NULL, &to, (coap_proto_t)proto, &pki.setup);
}

int thingbed_coap_serve_pki(coap_context_t *context, const char *cert, const char *key) {
    SETUP(coap_dtls_pki_t, pki);
    certificates(&pki.setup, 0, NULL, cert, key);
    return coap_context_set_pki(context, &pki.setup);
}

// 0 if the peer is unknown.
int thingbed_coap_peer(const coap_session_t *session, thingbed_address_t *found) {
    const coap_address_t *peer = coap_session_get_addr_remote(session);
    memset(found, 0, sizeof *found);
    if (peer != NULL && peer->addr.sa.sa_family == AF_INET) {
        memcpy(found->ip, &peer->addr.sin.sin_addr, 4);
        found->port = ntohs(peer->addr.sin.sin_port);
        return 1;
    }
    if (peer != NULL && peer->addr.sa.sa_family == AF_INET6) {
        memcpy(found->ip, &peer->addr.sin6.sin6_addr, 16);
        found->port = ntohs(peer->addr.sin6.sin6_port);
        found->is_ipv6 = 1;
        return 1;
    }
    return 0;
}

void thingbed_coap_set_times(coap_session_t *session, uint32_t ack_ms, uint16_t max_retransmit) {
    coap_session_set_ack_timeout(session, fixed(ack_ms));
    coap_session_set_max_retransmit(session, max_retransmit);
}

void thingbed_coap_set_leisure(coap_session_t *session, uint32_t ms) {
    coap_session_set_default_leisure(session, fixed(ms));
}

const uint8_t *thingbed_coap_token(const coap_pdu_t *pdu, size_t *length) {
    const coap_bin_const_t token = coap_pdu_get_token(pdu);
    *length = token.length;
    return token.s;
}

// 0 without this option.
int thingbed_coap_option(const coap_pdu_t *pdu, uint16_t number, const uint8_t **value, size_t *length) {
    coap_opt_iterator_t iterator;
    const coap_opt_t *option = coap_check_option(pdu, number, &iterator);
    if (option == NULL)
        return 0;
    *value = coap_opt_value(option);
    *length = coap_opt_length(option);
    return 1;
}

// `path` must live as long as the resource.
coap_resource_t *thingbed_coap_resource(const uint8_t *path, size_t length, int flags) {
    coap_str_const_t name = {length, path};
    return coap_resource_init(&name, flags);
}

// What ffi.rs declares itself. A difference from the header stops the build here, with the name.
#define SAME_NUMBER(of, number) _Static_assert((of) == (number), #of " is not as in ffi.rs")
#define AS_INT(type) _Static_assert(sizeof(type) == sizeof(int), #type " is not as in ffi.rs")
#define SAME_CALL(name, result, ...)                                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), result(__VA_ARGS__)),                \
                   #name " is not as in ffi.rs")

SAME_NUMBER(COAP_MESSAGE_CON, 0);
SAME_NUMBER(COAP_MESSAGE_NON, 1);
SAME_NUMBER(COAP_PROTO_UDP, 1);
SAME_NUMBER(COAP_PROTO_DTLS, 2);
SAME_NUMBER(COAP_PROTO_TCP, 3);
SAME_NUMBER(COAP_PROTO_TLS, 4);
SAME_NUMBER(COAP_NACK_TOO_MANY_RETRIES, 0);
SAME_NUMBER(COAP_NACK_NOT_DELIVERABLE, 1);
SAME_NUMBER(COAP_NACK_RST, 2);
SAME_NUMBER(COAP_NACK_TLS_FAILED, 3);
SAME_NUMBER(COAP_NACK_ICMP_ISSUE, 4);
SAME_NUMBER(COAP_EVENT_DTLS_CONNECTED, 0x01de);
SAME_NUMBER(COAP_EVENT_DTLS_ERROR, 0x0200);
SAME_NUMBER(COAP_EVENT_TCP_CONNECTED, 0x1001);
SAME_NUMBER(COAP_EVENT_TCP_CLOSED, 0x1002);
SAME_NUMBER(COAP_EVENT_TCP_FAILED, 0x1003);
SAME_NUMBER(COAP_EVENT_SESSION_CONNECTED, 0x2001);
SAME_NUMBER(COAP_EVENT_SESSION_CLOSED, 0x2002);
SAME_NUMBER(COAP_EVENT_SESSION_FAILED, 0x2003);
SAME_NUMBER(COAP_IO_NO_WAIT, UINT32_MAX);
SAME_NUMBER(COAP_RESPONSE_OK, 1);
SAME_NUMBER(COAP_RESOURCE_FLAGS_NOTIFY_CON, 0x2);
SAME_NUMBER(COAP_RESOURCE_FLAGS_NOTIFY_NON_ALWAYS, 0x4);
SAME_NUMBER(COAP_RESOURCE_FLAGS_HAS_MCAST_SUPPORT, 0x8);

AS_INT(coap_proto_t);
AS_INT(coap_pdu_type_t);
AS_INT(coap_pdu_code_t);
AS_INT(coap_request_t);
AS_INT(coap_response_t);
AS_INT(coap_nack_reason_t);
AS_INT(coap_event_t);
AS_INT(coap_log_t);
AS_INT(coap_mid_t);

SAME_CALL(coap_startup, void, void);
SAME_CALL(coap_package_version, const char *, void);
SAME_CALL(coap_set_log_level, void, coap_log_t);
SAME_CALL(coap_dtls_set_log_level, void, coap_log_t);
SAME_CALL(coap_new_context, coap_context_t *, const coap_address_t *);
SAME_CALL(coap_free_context, void, coap_context_t *);
SAME_CALL(coap_set_app_data, void, coap_context_t *, void *);
SAME_CALL(coap_get_app_data, void *, const coap_context_t *);
SAME_CALL(coap_context_get_coap_fd, int, const coap_context_t *);
SAME_CALL(coap_io_process, int, coap_context_t *, uint32_t);
SAME_CALL(coap_can_exit, int, coap_context_t *);
SAME_CALL(coap_join_mcast_group_intf, int, coap_context_t *, const char *, const char *);
SAME_CALL(coap_session_release, void, coap_session_t *);
SAME_CALL(coap_session_get_context, coap_context_t *, const coap_session_t *);
SAME_CALL(coap_new_pdu, coap_pdu_t *, coap_pdu_type_t, coap_pdu_code_t, coap_session_t *);
SAME_CALL(coap_delete_pdu, void, coap_pdu_t *);
SAME_CALL(coap_add_token, int, coap_pdu_t *, size_t, const uint8_t *);
SAME_CALL(coap_add_option, size_t, coap_pdu_t *, uint16_t, size_t, const uint8_t *);
SAME_CALL(coap_add_data, int, coap_pdu_t *, size_t, const uint8_t *);
SAME_CALL(coap_get_data, int, const coap_pdu_t *, size_t *, const uint8_t **);
SAME_CALL(coap_send, coap_mid_t, coap_session_t *, coap_pdu_t *);
SAME_CALL(coap_pdu_get_code, coap_pdu_code_t, const coap_pdu_t *);
SAME_CALL(coap_pdu_set_code, void, coap_pdu_t *, coap_pdu_code_t);
SAME_CALL(coap_resource_unknown_init2, coap_resource_t *, coap_method_handler_t, int);
SAME_CALL(coap_register_request_handler, void, coap_resource_t *, coap_request_t, coap_method_handler_t);
SAME_CALL(coap_resource_set_get_observable, void, coap_resource_t *, int);
SAME_CALL(coap_resource_notify_observers, int, coap_resource_t *, const coap_string_t *);
SAME_CALL(coap_add_resource, void, coap_context_t *, coap_resource_t *);
