/* The C interface of the director, an adaptive transport library; see docs/director.md.
 *
 * All functions may be called from any thread. Blocking functions say that they wait. A process that
 * was forked has no sessions and listeners. A function that returns 0 on a timeout does so at once if
 * its session or listener is over: director_session_is_over and director_listener_is_over tell which,
 * so that a loop ends. On failure a function with `error` and `room` writes the
 * reason there, terminated by 0; both may be 0.
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
typedef struct director_incoming director_incoming;
typedef struct director_restored director_restored;
typedef struct director_sending director_sending;

/* How a message of a member ends, or a stored one of the hub at a member. */
enum director_outcome {
    DIRECTOR_ACKNOWLEDGED = 1, /* The application at the other end has it. */
    DIRECTOR_FAILED = 2,       /* It will never have it. */
    DIRECTOR_UNKNOWN = 3       /* Neither is known. */
};

/* Starts a session as its hub. `options` is a JSON object; all of its members have
 * defaults:
 *   {"pattern": "publish-collect",   or request-response, publish-subscribe, router-dealer
 *    "properties": {"reliability": "require", ...},          as RFC 9622 names them
 *    "deadline_ms": 60000, "group": "239.255.77.77:5777", "models": ["udp-arq"],
 *    "loss": 0.3, "round_trip_ms": 60, "rate_bit_s": 250000, "mtu": 113,
 *    "places": 0,          further members that the hub does not know at its start: they join
 *    "announce": "site 7",     the hub announces this name by DNS-SD (default: none)
 *    "keep_alive_s": 25,       a member behind a NAT reports after this time without a datagram to
 *                              the hub, 15 or more (default: none)
 *    "storage": "folder",  the hub or a member keeps stored messages there (default: none), up to
 *    "storage_bytes": 16777216,
 *    "signed": false,      the hub signs its messages, so that no member can pose as it towards others: needs a key
 *                          for each member (director_initiate_keys), and 64 bytes per message
 *    "warnings": true,     the hub and the member write to standard error what their operator should know: the hub a
 *                          member with another key, at most once a minute, the member a hub that has not answered
 *                          for ten seconds (default: false)
 *    "insecure_on_purpose": false}
 * `key` has at least 16 bytes, and is ignored with insecure_on_purpose. `local` and
 * `members` have the form NAME:PORT, all with IPv4 addresses or all with IPv6 addresses. Returns 0
 * on failure. */
director_session *director_initiate(const char *options, const uint8_t *key, size_t key_length,
                                    const char *local, const char *const *members,
                                    size_t count, char *error, size_t room);

/* The same with a key for each member, in the order of `members`, then of the places. A member has its
 * own key (director_listen): it cannot pose as another one, and can be revoked. */
director_session *director_initiate_keys(const char *options, const uint8_t *const *keys,
                                         const size_t *key_lengths, size_t key_count,
                                         const char *local, const char *const *members,
                                         size_t count, char *error, size_t room);

/* Waits until all members of the list have joined, at most `patience_ms`. Returns 1 if they have, else 0. It does
 * not wait for places, so with these only it returns 1 at once: wait with director_members instead. */
int director_ready(const director_session *session, uint64_t patience_ms);

/* Sends a message to all members and waits until all have answered or the deadline has passed.
 * Returns 0 on failure. */
director_collected *director_collect(const director_session *session, const uint8_t *message,
                                     size_t length, char *error, size_t room);

/* The same for some members: their numbers are their places in `members` of director_initiate. A member
 * that does not exist is a failure. */
director_collected *director_collect_from(const director_session *session, const uint32_t *members,
                                          size_t count, const uint8_t *message, size_t length,
                                          char *error, size_t room);

/* The number of members that have answered (or acknowledged, if members do not answer), and the
 * number of members that have not. */
size_t director_answers(const director_collected *collected);
size_t director_lacking(const director_collected *collected);

/* A member that has not answered, by index from 0: sets `member`. Returns 1, or 0 if there is none. */
int director_lacking_member(const director_collected *collected, size_t place, uint32_t *member);

/* The answer with this index, from 0: sets `member`, `bytes` and `length`. The bytes are valid as
 * long as `collected`. Returns 1, or 0 if there is no such answer. */
int director_answer(const director_collected *collected, size_t place, uint32_t *member,
                    const uint8_t **bytes, size_t *length);

/* Stores a message for some members, as director_collect_from names them, and sends it. It is on the disk
 * when this returns, and outlasts this program: the next start with the same storage sends it again to the
 * members that have not said what became of it. Each member's application gets it once at most. Each ends
 * after `lifetime_ms` at the latest (0: one minute). Returns 0 on failure, also without a storage. */
director_sending *director_store(const director_session *session, const uint32_t *members, size_t count,
                                 const uint8_t *message, size_t length, uint64_t lifetime_ms,
                                 char *error, size_t room);

/* The next message of former starts of this hub, in the order in which they were stored; 0 if there is no
 * further one. Until director_sending_is_over has returned 1 for it, each further start has the message. */
director_sending *director_next_sending(const director_session *session);

/* The path of a copy of the storage's log, if that was damaged: messages after the damage are lost, and the
 * outcomes of those before are unknown. Writes text, terminated by 0, and returns 1; 0 if nothing was damaged. */
int director_session_damaged_log(const director_session *session, char *path, size_t room);

/* The message; valid as long as `sending`. */
const uint8_t *director_sending_message(const director_sending *sending, size_t *length);

/* Waits until the message has ended at all of its members, at most `patience_ms`. Returns 1 if it has, else
 * 0. Any thread may call it. */
int director_sending_is_over(const director_sending *sending, uint64_t patience_ms);

/* How a message has ended at a member, by index from 0: sets `member`, and `answer` and `length` to the
 * member's answer, which is valid as long as `sending`. Each may be 0. Returns a director_outcome; 0 if there
 * is no such member, or the message is not over. */
int director_sending_outcome(const director_sending *sending, size_t place, uint32_t *member,
                             const uint8_t **answer, size_t *length);
void director_sending_free(director_sending *sending);

/* Explains which model is in use and why: writes text, terminated by 0, and returns 1. Returns 0
 * if the session is over. */
int director_explain(const director_session *session, char *text, size_t room);

/* Sends a message of a topic to the members that have subscribed to it, and waits until all have
 * acknowledged it or the deadline has passed; without any it is over at once. Returns 0 on failure. */
director_collected *director_publish_topic(const director_session *session, const char *topic,
                                           const uint8_t *message, size_t length, char *error,
                                           size_t room);

/* Waits for the next message that a member has sent, at most `patience_ms`. The member learns that the
 * application has it; with a request, when it is answered or freed. Returns 0 on timeout. If several
 * threads wait, each message goes to one of them. 1,024 messages wait at most; further ones are refused. */
director_incoming *director_receive(const director_session *session, uint64_t patience_ms);

/* The message (valid as long as `incoming`), the member that has sent it, and whether it waits for an
 * answer. */
const uint8_t *director_incoming_message(const director_incoming *incoming, size_t *length);
/* The topic of a message that members can subscribe to, terminated by 0 and valid as long as `incoming`;
 * 0 for other messages. */
const char *director_incoming_topic(const director_incoming *incoming);
uint32_t director_incoming_member(const director_incoming *incoming);
int director_incoming_is_request(const director_incoming *incoming);

/* Answer a request, or drop the message; both free `incoming`. */
void director_incoming_reply(director_incoming *incoming, const uint8_t *answer, size_t length);
void director_incoming_free(director_incoming *incoming);

/* Revokes a member: its handshakes are refused, and the others get new keys. If all have one key, it can
 * come back in another's place. Returns 1, or 0 if there is no such member or the session is over. */
int director_revoke(const director_session *session, uint32_t member);

/* Accepts a revoked member again, with this key if each member has one. Returns 1, or 0 on failure, also
 * for a member that does not exist. */
int director_admit(const director_session *session, uint32_t member, const uint8_t *key,
                   size_t key_length, char *error, size_t room);

/* The number of members that have joined and not left. Writes up to `room` of them to `members`. */
size_t director_members(const director_session *session, uint32_t *members, size_t room);

/* Whether a session is over: it was freed, or this process was forked. Returns 1 if it is, also for 0,
 * else 0. */
int director_session_is_over(const director_session *session);

void director_collected_free(director_collected *collected);
/* Ends a session; functions that wait in it in other threads fail. */
void director_session_free(director_session *session);

/* Waits for sessions of the hub at `hub`, as a member. Options and key as above; of the options
 * only insecure_on_purpose, keep_alive_s, storage, storage_bytes and connCapacityProfile of the properties have an
 * effect. The name of the
 * hub is resolved again if the hub is silent; "site 7._tb-director._udp.local" is a hub that
 * announces itself. Returns 0 on failure. */
director_listener *director_listen(const char *options, const uint8_t *key, size_t key_length,
                                   const char *local, const char *hub, char *error, size_t room);

/* Waits for the next message, at most `patience_ms`. Returns 0 on timeout. Each message is
 * delivered once; if several threads wait, to one of them. */
director_request *director_next(director_listener *listener, uint64_t patience_ms);

/* The message; valid as long as `request`. */
const uint8_t *director_message(const director_request *request, size_t *length);

/* The topic of a message that this member has subscribed to, terminated by 0 and valid as long as
 * `request`; 0 for other messages. */
const char *director_topic(const director_request *request);

/* Subscribes to the topics that `filter` selects, with the wildcards of MQTT ("plant/+/temperature",
 * "plant/#"), and waits for the outcome, one minute at most; director_next gives the messages. The
 * library repeats the subscription whenever the member joins again. Returns as director_publish. */
int director_subscribe(director_listener *listener, const char *filter, char *error, size_t room);
int director_unsubscribe(director_listener *listener, const char *filter, char *error, size_t room);

/* Sends a message of a topic to the hub's application and to the other members that have subscribed to
 * it. Waits and returns as director_publish: the outcome is that at the hub's application, and the hub
 * sends the message on when that has taken it. */
int director_publish_to(director_listener *listener, const char *topic, const uint8_t *message,
                        size_t length, uint64_t lifetime_ms, uint32_t priority, char *error,
                        size_t room);

/* Sends a message to the hub's application and waits for its outcome, `lifetime_ms` at most (0: one
 * minute). Messages with a lower `priority` go first; the usual one is 100. Returns a
 * director_outcome, and the reason of another one than DIRECTOR_ACKNOWLEDGED in `error`; 0 if the
 * message was not accepted, because 1,024 are open, it has more than 4 MiB, or the listener has ended. Any
 * thread may call it. */
int director_publish(director_listener *listener, const uint8_t *message, size_t length,
                     uint64_t lifetime_ms, uint32_t priority, char *error, size_t room);

/* The same for a request. Copies up to `*answer_length` bytes to `answer`, and sets `*answer_length` to
 * the length of the answer. */
int director_ask(director_listener *listener, const uint8_t *message, size_t length,
                 uint64_t lifetime_ms, uint32_t priority, uint8_t *answer, size_t *answer_length,
                 char *error, size_t room);

/* Sends a message that outlasts this program, as director_publish does: it is on the disk before it is sent, and the next
 * start with the same storage sends it again if it had no outcome; the hub's application gets it once. 0
 * also if there is no storage, or no room in it. `topic` as for director_publish_to, or 0. */
int director_publish_stored(director_listener *listener, const char *topic, const uint8_t *message,
                            size_t length, uint64_t lifetime_ms, uint32_t priority, char *error,
                            size_t room);

/* The next message of former starts of this member, in the order in which they were sent; 0 if there is no
 * further one. The library has sent it again if it had no outcome; the outcomes of others may not have
 * reached the program. Until director_restored_outcome returns it, each further start has the message. */
director_restored *director_next_restored(director_listener *listener);

/* As director_session_damaged_log, of a member's storage. */
int director_listener_damaged_log(const director_listener *listener, char *path, size_t room);

/* The message and its topic, terminated by 0, or 0 without one; valid as long as `restored`. */
const uint8_t *director_restored_message(const director_restored *restored, size_t *length);
const char *director_restored_topic(const director_restored *restored);

/* Waits for the outcome, at most `patience_ms`. Returns a director_outcome, and the reason of another one
 * than DIRECTOR_ACKNOWLEDGED in `error`; 0 if there is none yet, it was returned before, or the listener has
 * ended. Any thread may call it. */
int director_restored_outcome(const director_restored *restored, uint64_t patience_ms, char *error,
                              size_t room);
void director_restored_free(director_restored *restored);

/* Leaves the session, after open messages, in 10 s at most; and joins it again. Without it, the hub goes on
 * waiting for this member after its end. It returns at once: free the listener a second or so later, so that the
 * hub has the notice. */
void director_leave(director_listener *listener);
void director_come_back(director_listener *listener);

/* Answer a message, or drop it without an answer; both free `request`. Of a stored message, the hub then
 * learns that the application has taken it. */
void director_reply(director_request *request, const uint8_t *answer, size_t length);
void director_request_free(director_request *request);
/* Whether a listener is over: it was freed, its storage was lost, or this process was forked. Returns 1
 * if it is, also for 0, else 0. */
int director_listener_is_over(const director_listener *listener);
/* Ends a listener; functions that wait in it in other threads return 0. */
void director_listener_free(director_listener *listener);

#ifdef __cplusplus
}
#endif
#endif
