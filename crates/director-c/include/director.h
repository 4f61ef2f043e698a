/* The director for C: an adaptive transport library. docs/director.md says what it does.
 *
 * All functions may be called from any thread. Those that wait say so. Where a function
 * takes `error` and `room`, it writes there, ended by 0, why it failed; both may be 0.
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

/* Begins a session, as its hub. `options` is a JSON object, all of whose members have
 * defaults:
 *   {"pattern": "publish-collect",   or request-response, publish-subscribe, router-dealer
 *    "properties": {"reliability": "require", ...},          as RFC 9622 names them
 *    "deadline_ms": 60000, "group": "239.255.77.77:5777", "models": ["udp-arq"],
 *    "loss": 0.3, "round_trip_ms": 60, "rate_bit_s": 250000, "mtu": 113,
 *    "insecure_on_purpose": false}
 * `key` is 16 bytes or more, and not looked at if insecure_on_purpose. `local` and
 * `members` are of the form NAME:PORT. Returns 0 on failure. */
director_session *director_initiate(const char *options, const uint8_t *key, size_t key_length,
                                    const char *local, const char *const *members,
                                    size_t count, char *error, size_t room);

/* Waits until all members are there, at most `patience_ms`; 1 if they are, else 0. */
int director_ready(const director_session *session, uint64_t patience_ms);

/* Sends a message to all members and waits for their answers, until all are there or the
 * deadline is over. Returns 0 on failure. */
director_collected *director_collect(const director_session *session, const uint8_t *message,
                                     size_t length, char *error, size_t room);

/* How many have answered (or acknowledged, where members do not answer), and how many are
 * lacking. */
size_t director_answers(const director_collected *collected);
size_t director_lacking(const director_collected *collected);

/* An answer by its place, from 0: `member`, `bytes` and `length` are set; the bytes live as
 * long as `collected`. Returns 1, or 0 if there is none at that place. */
int director_answer(const director_collected *collected, size_t place, uint32_t *member,
                    const uint8_t **bytes, size_t *length);

/* Which model is in use, and why: writes text, ended by 0, and returns 1; 0 if the session
 * is over. */
int director_explain(const director_session *session, char *text, size_t room);

void director_collected_free(director_collected *collected);
/* Ends a session; who waits in it in another thread is told that it is over. */
void director_session_free(director_session *session);

/* Waits for sessions of the hub at `hub`, as a member. Options and key as above; of the
 * options only insecure_on_purpose counts. Returns 0 on failure. */
director_listener *director_listen(const char *options, const uint8_t *key, size_t key_length,
                                   const char *local, const char *hub, char *error, size_t room);

/* Waits for the next message, at most `patience_ms`; 0 if none came. Each message comes
 * once. One thread at a time may wait. */
director_request *director_next(director_listener *listener, uint64_t patience_ms);

/* The message; it lives as long as `request`. */
const uint8_t *director_message(const director_request *request, size_t *length);

/* Answers a message, or leaves it without an answer; frees `request` both times. */
void director_reply(director_request *request, const uint8_t *answer, size_t length);
void director_request_free(director_request *request);
/* Ends a listener; who waits in it in another thread gets 0. */
void director_listener_free(director_listener *listener);

#ifdef __cplusplus
}
#endif
#endif
