"""Bearer tokens of an OpenID issuer, or of keys in a file, through the SDK's own credentials."""

import http.server
import json
import threading
import time

import jwt
import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError, ServiceBusError
from azure.servicebus.management import ServiceBusAdministrationClient
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from daemon import Daemon

AUDIENCE = "https://servicebus.azure.net"
ISSUER = "https://login.example/tenant"
RULES = """
[authorization.jwt]
{source}
audience = "https://servicebus.azure.net"
[[authorization.jwt.roles]]
role = "Sender"
rights = ["Send"]
[[authorization.jwt.roles]]
role = "Clerk"
rights = ["Listen", "Send"]
entity = "orders"
[[authorization.jwt.roles]]
role = "Owner"
rights = ["Listen", "Send", "Manage"]
[[queues]]
name = "orders"
[[queues]]
name = "invoices"
"""


class Key:
    """A key of an issuer, and tokens signed with it."""

    def __init__(self, kid: str, algorithm: str = "ES256"):
        self.kid, self.algorithm = kid, algorithm
        match algorithm:
            case "ES256":
                self.private = ec.generate_private_key(ec.SECP256R1())
            case "EdDSA":
                self.private = ed25519.Ed25519PrivateKey.generate()
            case _:
                self.private = rsa.generate_private_key(65537, 2048)

    def published(self) -> dict:
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        return algorithm.to_jwk(self.private.public_key(), as_dict=True) | {"kid": self.kid, "use": "sig"}

    def token(self, *roles: str, **claims) -> str:
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "shop", "exp": now + 3600, "roles": roles} | claims
        return jwt.encode(claims, self.private, self.algorithm, {"kid": self.kid})


def key_set(*keys: Key) -> str:
    return json.dumps({"keys": [key.published() for key in keys]})


class Credential:
    """A credential like those of azure-identity."""

    def __init__(self, token: str):
        self.token = token

    def get_token(self, *_, **__) -> AccessToken:
        return AccessToken(self.token, int(time.time()) + 3600)


def client(daemon, token: str, **options) -> ServiceBusClient:
    options = {"retry_total": 0, "use_tls": False} | options
    return ServiceBusClient(f"localhost:{daemon.amqp_port}", Credential(token), **options)


def administration(daemon, token: str) -> ServiceBusAdministrationClient:
    """With such a credential the client requires TLS, and trusts the broker's own CA."""
    authority = str(daemon.path / "data" / "tls" / "ca.pem")
    name = f"localhost:{daemon.http_port}"
    return ServiceBusAdministrationClient(name, Credential(token), connection_verify=authority, retry_total=0)


def send(client, queue="orders"):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(b"x"))


def receive(client, queue="orders") -> list[bytes]:
    with client.get_queue_receiver(queue) as receiver:
        messages = receiver.receive_messages(max_wait_time=20)
        for message in messages:
            receiver.complete_message(message)
        return [b"".join(message.body) for message in messages]


KEYS = [Key("p256"), Key("rsa", "RS256"), Key("pss", "PS512"), Key("ed25519", "EdDSA")]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    keys_file = tmp_path_factory.mktemp("keys") / "keys.json"
    keys_file.write_text(key_set(*KEYS))
    daemon = Daemon(RULES.format(source=f'issuer = "{ISSUER}"\nkeys_file = "{keys_file}"')).start()
    daemon.keys_file = keys_file
    yield daemon
    assert daemon.panics() == []
    daemon.close()


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.algorithm)
def test_each_role_has_its_configured_rights(guarded, key):
    with client(guarded, key.token("Clerk")) as clerk:
        send(clerk)
        assert receive(clerk) == [b"x"]
        with pytest.raises(ServiceBusAuthenticationError):
            send(clerk, "invoices")
    with client(guarded, key.token("Sender")) as sender:
        send(sender, "invoices")
        with pytest.raises(ServiceBusAuthorizationError):
            receive(sender, "invoices")
    with client(guarded, key.token("Owner", roles="Reader Owner")) as owner:
        assert b"x" in receive(owner, "invoices")


def test_the_administration_client_needs_a_role_that_manages(guarded):
    with administration(guarded, KEYS[0].token("Owner")) as owner:
        owner.create_queue("made")
        assert "made" in [queue.name for queue in owner.list_queues()]
        owner.delete_queue("made")
    for token in [KEYS[0].token("Sender"), KEYS[0].token("Owner", aud="another"), Key("p256").token("Owner"), "a.b.c"]:
        with administration(guarded, token) as stranger, pytest.raises(ClientAuthenticationError):
            stranger.create_queue("never")


def shared_secret() -> str:
    """HS256 with the public key as secret, a known attack."""
    header = {"kid": KEYS[1].kid}
    claims = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 3600, "roles": ["Owner"]}
    return jwt.encode(claims, KEYS[1].published()["n"].encode(), "HS256", header)


@pytest.mark.parametrize(
    "make",
    [
        lambda key: key.token("Sender", exp=int(time.time()) - 61),
        lambda key: key.token("Sender", nbf=int(time.time()) + 120),
        lambda key: key.token("Sender", aud="another"),
        lambda key: key.token("Sender", iss="https://another"),
        lambda key: key.token("Stranger"),
        lambda key: Key(key.kid).token("Sender"),
        lambda key: Key("unknown").token("Sender"),
        lambda key: key.token("Sender")[:-40],
        lambda key: key.token("Sender", padding="x" * 70_000),
        lambda key: jwt.encode({"aud": AUDIENCE, "roles": ["Owner"]}, None, "none", {"kid": key.kid}),
        lambda key: shared_secret(),
        lambda key: "x" * 70_000,
        lambda key: "SharedAccessSignature sr=x&sig=" + "y" * 70_000 + "&se=1900003600&skn=k",
    ],
    ids=[
        "expired",
        "not yet",
        "for somebody else",
        "by somebody else",
        "without a role",
        "by another key",
        "by an unknown key",
        "truncated",
        "too long",
        "unsigned",
        "shared secret",
        "too long, of nothing",
        "too long a signature",
    ],
)
def test_tokens_that_are_no_good(guarded, make):
    with client(guarded, make(KEYS[0])) as connected, pytest.raises(ServiceBusAuthenticationError):
        send(connected)
    with client(guarded, KEYS[0].token("Sender")) as good:
        send(good)


@pytest.mark.parametrize(
    "token",
    [
        KEYS[0].token("Sender", padding="x" * 1_000_000),
        "SharedAccessSignature sr=x&sig=" + "y" * 1_000_000 + "&se=1900003600&skn=k",
    ],
    ids=["json web token", "signature"],
)
def test_a_token_of_a_megabyte(start_daemon, token):
    """The SDK silently does not send a token longer than `$cbs` accepts, so it times out."""
    daemon = start_daemon('[authorization]\ntime_out = "PT3S"\n[[queues]]\nname = "orders"\n')
    with client(daemon, token) as connected, pytest.raises(ServiceBusError):
        send(connected)
    with ServiceBusClient.from_connection_string(daemon.connection_string) as good:
        send(good)


def test_a_removed_key_ends_open_links(start_daemon, tmp_path):
    old, new = Key("old"), Key("new")
    keys_file = tmp_path / "keys.json"
    keys_file.write_text(key_set(old))
    daemon = start_daemon(RULES.format(source=f'keys_file = "{keys_file}"'))
    with client(daemon, old.token("Sender")) as connected, connected.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage(b"before"))
        keys_file.write_text(key_set(new))
        daemon.reload()
        with pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage(b"after"))
    with client(daemon, new.token("Sender")) as connected:
        send(connected)


class Issuer(http.server.ThreadingHTTPServer):
    """An OpenID issuer on loopback with its discovery document and keys."""

    def __init__(self, *keys: Key, port: int = 0):
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = issuer.documents().get(self.path)
                self.send_response(200 if found else 404)
                self.end_headers()
                self.wfile.write((found or "").encode())

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", port), Handler)
        self.keys = keys
        self.url = f"http://127.0.0.1:{self.server_port}/tenant"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def documents(self) -> dict:
        discovery = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return {
            "/tenant/.well-known/openid-configuration": json.dumps(discovery),
            "/tenant/keys": key_set(*self.keys),
        }


def eventually_sends(daemon, token: str):
    """The SDK tries again until the keys are there."""
    with client(daemon, token, retry_total=20, retry_mode="fixed", retry_backoff_factor=0.2) as connected:
        send(connected)


def test_the_keys_of_an_issuer_may_rotate(start_daemon):
    old, new = Key("old"), Key("new", "RS256")
    with Issuer(old) as issuer:
        daemon = start_daemon(RULES.format(source=f'issuer = "{issuer.url}"'))
        eventually_sends(daemon, old.token("Sender", iss=issuer.url))
        issuer.keys = [new, old]
        eventually_sends(daemon, new.token("Sender", iss=issuer.url))
        with client(daemon, old.token("Sender", iss=issuer.url)) as connected:
            send(connected)
        issuer.shutdown()


def test_the_broker_starts_without_its_issuer(start_daemon):
    key = Key("key")
    with Issuer(key) as issuer:
        port = issuer.server_port
        issuer.shutdown()
    daemon = start_daemon(RULES.format(source=f'issuer = "http://127.0.0.1:{port}/tenant"'))
    token = key.token("Sender", iss=f"http://127.0.0.1:{port}/tenant")
    with client(daemon, token) as connected, pytest.raises(ServiceBusError):
        send(connected)
    with Issuer(key, port=port) as issuer:
        eventually_sends(daemon, token)
        issuer.shutdown()
    assert "can't fetch the issuer's keys" in daemon.log.read_text()
