"""QUIC for peers.py, by aioquic with CUBIC: each member opens a connection to the hub; each message
and each answer is a unidirectional stream, retransmitted until received.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PORT = 4433
# Seconds without packets after which a connection is closed, longer than a timetable's outages.
IDLE = 60.0
ALPN = ["peers"]

OnMessage = Callable[[bytes], None]


class Connection(QuicConnectionProtocol):
    """One end of a connection."""

    on_message: OnMessage
    connections: set[Connection] = set()  # noqa: RUF012

    def quic_event_received(self, event: QuicEvent) -> None:
        """Collects the data of streams."""
        Connection.connections.add(self)
        if isinstance(event, StreamDataReceived):
            parts: dict[int, bytes] = self.__dict__.setdefault("parts", {})
            parts[event.stream_id] = parts.get(event.stream_id, b"") + event.data
            if event.end_stream:
                self.on_message(parts.pop(event.stream_id))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets a closed connection."""
        Connection.connections.discard(self)
        super().connection_lost(exc)

    def send(self, message: bytes) -> None:
        """Sends a message as a stream."""
        stream = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self._quic.send_stream_data(stream, message, end_stream=True)
        self.transmit()


def configuration(is_client: bool) -> QuicConfiguration:
    """The same settings at both ends."""
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=ALPN,
        congestion_control_algorithm="cubic",
        idle_timeout=IDLE,
        verify_mode=ssl.CERT_NONE,
    )


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hub")])
    # In virtual time the guest's clock may be behind.
    begin = datetime(2000, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(begin).not_valid_after(begin + timedelta(days=36_500))
    signed = builder.sign(key, hashes.SHA256())
    chain, private = folder / "chain.pem", folder / "key.pem"
    pem = serialization.Encoding.PEM
    chain.write_bytes(signed.public_bytes(pem))
    private.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain, private


def quic_hub(address: str, on_message: OnMessage) -> OnMessage:
    """The hub's function to send to all members."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    settings = configuration(False)
    settings.load_cert_chain(*certificate(Path(tempfile.mkdtemp())))
    Connection.on_message = staticmethod(on_message)
    server = serve(address, PORT, configuration=settings, create_protocol=Connection)
    asyncio.run_coroutine_threadsafe(server, loop).result()

    def send_all(message: bytes) -> None:
        for connection in list(Connection.connections):
            connection.send(message)

    return lambda message: loop.call_soon_threadsafe(send_all, message) and None


def quic_member(address: str, answer: Callable[[bytes], bytes]) -> None:
    """Runs a member forever; connects again when its connection ends."""

    class Member(Connection):
        def on_message(self, message: bytes) -> None:  # type: ignore[override]
            self.send(answer(message))

    async def run() -> None:
        while True:
            try:
                settings = configuration(True)
                async with connect(
                    address, PORT, configuration=settings, create_protocol=Member
                ) as connection:
                    # The hub counts connections that have sent something.
                    await connection.ping()
                    await connection.wait_closed()
            except ConnectionError:
                await asyncio.sleep(1)

    asyncio.run(run())
