"""An OPC UA server by asyncua: has a variable for each given payload size.

opcua_server.py ADDRESS PORT VARIABLES SEED SIZE...

With SECURE in its environment, it has no endpoint without security.
"""

import asyncio
import os
import pathlib
import sys

from asyncua import Server, ua
from asyncua.crypto.cert_gen import setup_self_signed_certificate
from cryptography.x509.oid import ExtendedKeyUsageOID
from payload import payload


async def secure(server: Server) -> None:
    """Restricts the server to endpoints with security."""

    key, cert = pathlib.Path("own-key.pem"), pathlib.Path("own-cert.der")
    use = [ExtendedKeyUsageOID.SERVER_AUTH]
    names = {"countryName": "DE"}
    await setup_self_signed_certificate(key, cert, "urn:test", "server", use, names)
    server.set_security_policy([ua.SecurityPolicyType.Basic256Sha256_SignAndEncrypt])
    await server.load_certificate(cert)
    await server.load_private_key(key)


async def main() -> None:
    """Runs the server until it is killed."""

    address, port, variables, seed, *sizes = sys.argv[1:]
    count = int(variables)
    server = Server()
    await server.init()
    server.set_endpoint(f"opc.tcp://{address}:{port}")
    server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
    if "SECURE" in os.environ:
        await secure(server)
    for place, size in enumerate(map(int, sizes)):
        rest, whole = payload(int(seed), size), divmod(size, count)
        for part in range(count):
            length = whole[0] + (part < whole[1])
            number = place * count + part + 1
            await server.nodes.objects.add_variable(
                ua.NodeId(number, 1),
                ua.QualifiedName(str(number), 1),
                rest[:length],
                ua.VariantType.ByteString,
            )
            rest = rest[length:]
    async with server:
        await asyncio.Event().wait()


asyncio.run(main())
