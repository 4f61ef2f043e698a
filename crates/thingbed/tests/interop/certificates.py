"""Certificates for tests: an authority, and a server certificate that it signed.

certificates.py FOLDER NAME
"""

import datetime
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


def main() -> None:
    """Generates both."""

    folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
    now = datetime.datetime.now(datetime.UTC)

    def begin(called: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(subject(called))
        builder = builder.public_key(key.public_key()).issuer_name(subject("authority"))
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - DAY).not_valid_after(now + DAY)

    def subject(called: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, called)])

    pem = serialization.Encoding.PEM
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    is_ca = x509.BasicConstraints(ca=True, path_length=None)
    ca = begin("authority", authority).add_extension(is_ca, critical=True)
    names = x509.SubjectAlternativeName([x509.DNSName(name)])
    cert = begin(name, own).add_extension(names, critical=False)
    for what, builder in (("ca.pem", ca), ("cert.pem", cert)):
        signed = builder.sign(authority, hashes.SHA256())
        (folder / what).write_bytes(signed.public_bytes(pem))
    key = own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key)


main()
