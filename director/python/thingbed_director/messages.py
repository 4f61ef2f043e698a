"""Messages that have arrived."""

from __future__ import annotations

import ctypes

from ._arguments import bytes_of
from ._library import free, library
from .outcome import DirectorError


class Request:
    """A received message. A stored one counts as taken when it is answered or dropped."""

    def __init__(self, request: int) -> None:
        self._request: int | None = request
        length = ctypes.c_size_t()
        data = library().director_message(request, ctypes.byref(length))
        self.message: bytes = ctypes.string_at(data, length.value)
        topic = library().director_topic(request)
        self.topic: str | None = None if topic is None else topic.decode()

    def reply(self, answer: bytes) -> None:
        """Answers the message; call it once."""
        answer = bytes_of(answer, "the answer")
        request, self._request = self._request, None
        if request is None:
            raise DirectorError("this message was already answered")
        library().director_reply(request, answer, len(answer))

    def __del__(self) -> None:
        """Frees a message without an answer."""
        free("director_request_free", self._request)


class Incoming:
    """A message of a member."""

    def __init__(self, incoming: int) -> None:
        length = ctypes.c_size_t()
        data = library().director_incoming_message(incoming, ctypes.byref(length))
        self.message: bytes = ctypes.string_at(data, length.value)
        self.member: int = library().director_incoming_member(incoming)
        topic = library().director_incoming_topic(incoming)
        self.topic: str | None = None if topic is None else topic.decode()
        self.is_request: bool = bool(library().director_incoming_is_request(incoming))
        self._incoming: int | None = incoming

    def reply(self, answer: bytes) -> None:
        """Answers a request; call it once."""
        answer = bytes_of(answer, "the answer")
        incoming, self._incoming = self._incoming, None
        if incoming is None:
            raise DirectorError("this message was already answered")
        library().director_incoming_reply(incoming, answer, len(answer))

    def __del__(self) -> None:
        """Frees a message without an answer."""
        free("director_incoming_free", self._incoming)
