"""A generic AMQP 1.0 client, Apache Qpid Proton, over TLS: SASL PLAIN, and EXTERNAL with a client certificate."""

import contextlib

import proton
import pytest
from proton.utils import BlockingConnection

from certificates import Authority, Identity
from daemon import Daemon, entities_text

TIMEOUT_SECS = 20
PLAIN = {"allowed_mechs": "PLAIN", "user": "RootManageSharedAccessKey", "password": "SAS_KEY_VALUE"}
EXTERNAL = {"allowed_mechs": "EXTERNAL"}
#: Rights of each certificate; the emulator's rule is for clients without one.
CONFIG = """
[tls]
client_ca = "{ca}"
[[authorization.certificates]]
subject = "CN=shop"
rights = ["Send"]
scope = "orders"
[[authorization.rules]]
name = "RootManageSharedAccessKey"
rights = ["Listen", "Send", "Manage"]
primary_key = "SAS_KEY_VALUE"
secondary_key = "SAS_KEY_VALUE"
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(authority):
    config = CONFIG.format(ca=authority.path) + entities_text({"orders": {}, "invoices": {}})
    with contextlib.closing(Daemon(config).start()) as daemon:
        yield daemon
        assert daemon.panics() == []


@contextlib.contextmanager
def connected(daemon, ca=None, identity: Identity | None = None, **options):
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(ca or daemon.ca))
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
    if identity:
        domain.set_credentials(str(identity.certificate), str(identity.key), None)
    url = f"amqps://localhost:{daemon.http_port}"
    connection = BlockingConnection(url, timeout=TIMEOUT_SECS, ssl_domain=domain, **options)
    try:
        yield connection
    finally:
        connection.close()


def send(connection, queue, body):
    sender = connection.create_sender(queue)
    assert sender.send(proton.Message(body)).remote_state == proton.Delivery.ACCEPTED
    sender.close()


def receive(connection, queue):
    receiver = connection.create_receiver(queue, credit=1)
    message = receiver.receive(TIMEOUT_SECS)
    receiver.accept()
    receiver.close()
    return message


def test_plain_over_tls(guarded):
    with connected(guarded, **PLAIN) as connection:
        send(connection, "invoices", "x" * 1_000_000)
        assert receive(connection, "invoices").body == "x" * 1_000_000


def test_a_wrong_password_over_tls(guarded):
    with pytest.raises(proton.ConnectionException, match="unauthorized-access"):
        with connected(guarded, **PLAIN | {"password": "wrong"}):
            pass


def test_a_certificate_has_the_rights_configured_for_its_subject(guarded, authority):
    with connected(guarded, identity=authority.identity("shop"), **EXTERNAL) as connection:
        send(connection, "orders", "with a certificate")
        for refused in (
            lambda: connection.create_receiver("orders"),
            lambda: connection.create_sender("invoices"),
            lambda: connection.create_sender("missing"),
        ):
            with pytest.raises(proton.utils.LinkDetached) as error:
                refused()
            assert error.value.condition == "amqp:unauthorized-access"
    with connected(guarded, **PLAIN) as connection:
        assert receive(connection, "orders").body == "with a certificate"


@pytest.mark.parametrize("name", ["stranger", None])
def test_certificates_without_a_configured_subject_do_not_authenticate(guarded, authority, name):
    identity = authority.identity(name) if name else None
    with pytest.raises(proton.ConnectionException), connected(guarded, identity=identity, **EXTERNAL):
        pass


def test_a_certificate_of_another_authority_ends_the_handshake(guarded, tmp_path):
    impostor = Authority(tmp_path).identity("shop")
    with pytest.raises(proton.ConnectionException), connected(guarded, identity=impostor, **EXTERNAL):
        pass
