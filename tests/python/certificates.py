"""Certificates for clients, made for one test."""

import datetime
import pathlib
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


class Identity(NamedTuple):
    """The files of a client certificate."""

    certificate: pathlib.Path
    key: pathlib.Path


class Authority:
    """A CA, with its certificate in the file `path`."""

    def __init__(self, directory: pathlib.Path, name: str = "clients", days: int = 1):
        self._directory = directory
        self._days = days
        self._name = subject(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.path = directory / f"{name}-ca.pem"
        certificate = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        self.path.write_bytes(pem(certificate.sign(self._key, hashes.SHA256())))

    def identity(self, name: str) -> Identity:
        """A certificate of the subject `CN=name`."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = self._builder(subject(name), key).add_extension(x509.BasicConstraints(False, None), True)
        certificate = builder.add_extension(usage, False).sign(self._key, hashes.SHA256())
        files = Identity(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        files.certificate.write_bytes(pem(certificate))
        private = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
        return files

    def _builder(self, name: x509.Name, key) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - DAY).not_valid_after(now + self._days * DAY)


def subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
