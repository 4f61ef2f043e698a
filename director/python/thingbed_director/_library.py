"""The C library and its functions."""

from __future__ import annotations

import ctypes
import os

from .outcome import DirectorError

# Room for the cause of an error, in bytes.
WHY = 400


def _load() -> ctypes.CDLL:
    path = os.environ.get("DIRECTOR_LIBRARY", "libdirector_c.so")
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise DirectorError(
            f"cannot load the director library: {error}; run `cargo build --release "
            "-p thingbed-director-c` and set DIRECTOR_LIBRARY to target/release/libdirector_c.so"
        ) from error
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    members = ctypes.POINTER(ctypes.c_char_p)
    number, sizes = ctypes.c_uint32, ctypes.POINTER(size)
    sent = [pointer, text, size, ctypes.c_uint64, number]
    for name, result, arguments in [
        ("director_initiate", pointer, [text, text, size, text, members, size, text, size]),
        (
            "director_initiate_keys",
            pointer,
            [text, members, ctypes.POINTER(size), size, text, members, size, text, size],
        ),
        ("director_admit", ctypes.c_int, [pointer, number, text, size, text, size]),
        ("director_members", size, [pointer, ctypes.POINTER(number), size]),
        ("director_ready", ctypes.c_int, [pointer, ctypes.c_uint64]),
        ("director_collect", pointer, [pointer, text, size, text, size]),
        (
            "director_collect_from",
            pointer,
            [pointer, ctypes.POINTER(number), size, text, size, text, size],
        ),
        ("director_lacking_member", ctypes.c_int, [pointer, size, ctypes.POINTER(number)]),
        ("director_publish", ctypes.c_int, [*sent, text, size]),
        ("director_ask", ctypes.c_int, [*sent, text, sizes, text, size]),
        ("director_publish_to", ctypes.c_int, [pointer, text, *sent[1:], text, size]),
        ("director_publish_stored", ctypes.c_int, [pointer, text, *sent[1:], text, size]),
        ("director_next_restored", pointer, [pointer]),
        ("director_restored_message", pointer, [pointer, sizes]),
        ("director_restored_topic", text, [pointer]),
        ("director_restored_outcome", ctypes.c_int, [pointer, ctypes.c_uint64, text, size]),
        ("director_restored_free", None, [pointer]),
        ("director_session_damaged_log", ctypes.c_int, [pointer, text, size]),
        ("director_listener_damaged_log", ctypes.c_int, [pointer, text, size]),
        (
            "director_store",
            pointer,
            [pointer, ctypes.POINTER(number), size, text, size, ctypes.c_uint64, text, size],
        ),
        ("director_next_sending", pointer, [pointer]),
        ("director_sending_message", pointer, [pointer, sizes]),
        ("director_sending_is_over", ctypes.c_int, [pointer, ctypes.c_uint64]),
        (
            "director_sending_outcome",
            ctypes.c_int,
            [pointer, size, ctypes.POINTER(number), ctypes.POINTER(pointer), sizes],
        ),
        ("director_sending_free", None, [pointer]),
        ("director_subscribe", ctypes.c_int, [pointer, text, text, size]),
        ("director_unsubscribe", ctypes.c_int, [pointer, text, text, size]),
        ("director_publish_topic", pointer, [pointer, text, text, size, text, size]),
        ("director_topic", text, [pointer]),
        ("director_incoming_topic", text, [pointer]),
        ("director_leave", None, [pointer]),
        ("director_come_back", None, [pointer]),
        ("director_revoke", ctypes.c_int, [pointer, number]),
        ("director_receive", pointer, [pointer, ctypes.c_uint64]),
        ("director_incoming_message", pointer, [pointer, sizes]),
        ("director_incoming_member", number, [pointer]),
        ("director_incoming_is_request", ctypes.c_int, [pointer]),
        ("director_incoming_reply", None, [pointer, text, size]),
        ("director_incoming_free", None, [pointer]),
        ("director_answers", size, [pointer]),
        ("director_lacking", size, [pointer]),
        (
            "director_answer",
            ctypes.c_int,
            [
                pointer,
                size,
                ctypes.POINTER(ctypes.c_uint32),
                ctypes.POINTER(pointer),
                ctypes.POINTER(size),
            ],
        ),
        ("director_explain", ctypes.c_int, [pointer, text, size]),
        ("director_collected_free", None, [pointer]),
        ("director_session_free", None, [pointer]),
        ("director_session_is_over", ctypes.c_int, [pointer]),
        ("director_listener_is_over", ctypes.c_int, [pointer]),
        ("director_listen", pointer, [text, text, size, text, text, text, size]),
        ("director_next", pointer, [pointer, ctypes.c_uint64]),
        ("director_message", pointer, [pointer, ctypes.POINTER(size)]),
        ("director_reply", None, [pointer, text, size]),
        ("director_request_free", None, [pointer]),
        ("director_listener_free", None, [pointer]),
    ]:
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


_loaded: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """The library, which the first call loads.

    Raises DirectorError if it cannot be loaded."""
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


def free(function: str, pointer: int | None) -> None:
    """Frees an object, unless Python has ended with the library."""
    if pointer is not None and _loaded is not None:
        getattr(_loaded, function)(pointer)
