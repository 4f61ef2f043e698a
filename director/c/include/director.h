/* The C interface of the director, an adaptive transport library; see docs/director.md.
 *
 * All functions may be called from any thread. Blocking functions say that they wait. On failure
 * a function with `error` and `room` writes the reason there, terminated by 0; both may be 0.
 */
#ifndef DIRECTOR_H
#define DIRECTOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct director_session director_session;
typedef struct director_collected director_collected;
typedef struct director_listener director_listener;
typedef struct director_request director_request;

/* Starts a session as its hub. `options` is a JSON object; all of its members have
 * defaults:
 *   {"pattern": "publish-collect",   or request-response, publish-subscribe, router-dealer
 *    "properties": {"reliability": "require", ...},          as RFC 9622 names them
 *    "deadline_ms": 60000, "group": "239.255.77.77:5777", "models": ["udp-arq"],
 *    "loss": 0.3, "round_trip_ms": 60, "rate_bit_s": 250000, "mtu": 113,
 *    "insecure_on_purpose": false}
 * `key` has at least 16 bytes, and is ignored with insecure_on_purpose. `local` and
 * `members` have the form NAME:PORT. Returns 0 on failure. */
director_session *director_initiate(const char *options, const uint8_t *key, size_t key_length,
                                    const char *local, const char *const *members,
                                    size_t count, char *error, size_t room);

/* Waits until all members have joined, at most `patience_ms`. Returns 1 if they have, else 0. */
int director_ready(const director_session *session, uint64_t patience_ms);

/* Sends a message to all members and waits until all have answered or the deadline has passed.
 * Returns 0 on failure. */
director_collected *director_collect(const director_session *session, const uint8_t *message,
                                     size_t length, char *error, size_t room);

/* The number of members that have answered (or acknowledged, if members do not answer), and the
 * number of members that have not. */
size_t director_answers(const director_collected *collected);
size_t director_lacking(const director_collected *collected);

/* The answer with this index, from 0: sets `member`, `bytes` and `length`. The bytes are valid as
 * long as `collected`. Returns 1, or 0 if there is no such answer. */
int director_answer(const director_collected *collected, size_t place, uint32_t *member,
                    const uint8_t **bytes, size_t *length);

/* Explains which model is in use and why: writes text, terminated by 0, and returns 1. Returns 0
 * if the session is over. */
int director_explain(const director_session *session, char *text, size_t room);

void director_collected_free(director_collected *collected);
/* Ends a session; functions that wait in it in other threads fail. */
void director_session_free(director_session *session);

/* Waits for sessions of the hub at `hub`, as a member. Options and key as above; of the options
 * only insecure_on_purpose has an effect. Returns 0 on failure. */
director_listener *director_listen(const char *options, const uint8_t *key, size_t key_length,
                                   const char *local, const char *hub, char *error, size_t room);

/* Waits for the next message, at most `patience_ms`. Returns 0 on timeout. Each message is
 * delivered once. Only one thread at a time may wait. */
director_request *director_next(director_listener *listener, uint64_t patience_ms);

/* The message; valid as long as `request`. */
const uint8_t *director_message(const director_request *request, size_t *length);

/* Answer a message, or drop it without an answer; both free `request`. */
void director_reply(director_request *request, const uint8_t *answer, size_t length);
void director_request_free(director_request *request);
/* Ends a listener; functions that wait in it in other threads return 0. */
void director_listener_free(director_listener *listener);

#ifdef __cplusplus
}
#endif
#endif
