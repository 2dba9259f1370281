"""Rights over HTTP, with tokens of limited rights; and the attempts in the audit log."""

import contextlib
import json
import time

import proton
import pytest
from azure.core.exceptions import ClientAuthenticationError
from proton.utils import BlockingConnection

from administration import https_client
from daemon import Daemon
from rest import Rest, signature
from test_rights import RULES

ENTITIES = '[[queues]]\nname = "orders"\n[[queues]]\nname = "invoices"\n[[topics]]\nname = "news"\n[[topics.subscriptions]]\nname = "all"\n'
PATIENCE_SECS = 40
IDENTITY = {"allowed_mechs": "PLAIN", "allow_insecure_mechs": True}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    audit = tmp_path_factory.mktemp("audit") / "audit.log"
    daemon = Daemon(f'[log]\naudit = "{audit}"\n' + RULES + ENTITIES)
    with contextlib.closing(daemon.start()):
        daemon.audit = audit
        yield daemon
        assert daemon.panics() == []
        told = daemon.log.read_text() + audit.read_text()
        assert "-primary" not in told and "-secondary" not in told


class Asking(Rest):
    """Requests with the token of a rule."""

    def __init__(self, daemon, rule: str, key: str | None = None, scope: str = ""):
        super().__init__(daemon)
        self.token = signature(f"http://localhost:{self.port}/{scope}", rule, key or f"{rule}-primary")

    def request(self, method, path, body=None, headers={}, timeout=60):
        return super().request(method, path, body, {"Authorization": self.token} | headers, timeout)


def send(rest):
    return rest.send("orders", b"x").status


def receive(rest):
    return rest.take("orders", timeout=0).status


def describe(rest):
    return rest.request("GET", "/orders").status


def purge(rest):
    return rest.request("POST", "/orders/messages/purge").status


OPERATIONS = {send: {201}, receive: {200, 204}, purge: {200}, describe: {200}}


@pytest.mark.parametrize("rule", ["listener", "sender", "owner"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_each_operation_takes_its_right(guarded, rule, operation):
    allowed = {"listener": [receive, purge], "sender": [send]}.get(rule, list(OPERATIONS))
    status = operation(Asking(guarded, rule))
    assert status in (OPERATIONS[operation] if operation in allowed else {401})


@pytest.mark.parametrize(
    "rule, key, scope", [("owner", "wrong", ""), ("nobody", None, ""), ("owner", None, "invoices")], ids=str
)
def test_tokens_that_are_no_good(guarded, rule, key, scope):
    rest = Asking(guarded, rule, key, scope)
    for operation in OPERATIONS:
        assert operation(rest) == 401
    answer = rest.send("no-such-queue", b"x")
    assert answer.status == 401, "the answer does not reveal existing entities"
    assert answer.headers["Connection"] == "close", "the body of a refused request is not read"


@pytest.mark.parametrize(
    "scope, allowed",
    [
        ("orders/messages", [send, receive, purge]),
        ("ORDERS/messages/head?timeout=0", [receive]),
        ("orders/mess", []),
        ("invoices/messages", []),
    ],
)
def test_a_signature_may_be_limited_to_the_url_of_an_operation(guarded, scope, allowed):
    """Older SDKs sign each request's URL: azure-servicebus 0.50 for Python, whose tests ran against the service."""
    rest = Asking(guarded, "owner", scope=scope)
    for operation, good in OPERATIONS.items():
        assert operation(rest) in (good if operation in allowed else {401}), operation


def lines(daemon, **wanted) -> list[dict]:
    told = [json.loads(line) for line in daemon.audit.read_text().splitlines()] if daemon.audit.exists() else []
    return [line for line in told if wanted.items() <= line.items()]


def line(daemon, **wanted) -> dict:
    deadline = time.monotonic() + PATIENCE_SECS
    while not (found := lines(daemon, **wanted)):
        assert time.monotonic() < deadline, daemon.audit.read_text()
        time.sleep(0.02)
    assert len(found) == 1, found
    return found[0]


def admin_of(daemon, rule: str):
    connection_string = daemon.connection_string.replace("RootManageSharedAccessKey", rule)
    connection_string = connection_string.replace("SAS_KEY_VALUE", f"{rule}-primary")
    return https_client(connection_string, connection_verify=daemon.ca)


def test_changes_over_http_are_noted_with_who_made_them(guarded):
    with admin_of(guarded, "owner") as admin:
        admin.create_queue("audited")
        admin.update_queue(admin.get_queue("audited"), max_delivery_count=3)
        admin.delete_queue("audited")
    with admin_of(guarded, "sender") as admin, pytest.raises(ClientAuthenticationError):
        admin.create_queue("refused")
    for operation in ("create", "update", "delete"):
        told = line(guarded, entity="audited", operation=operation)
        assert (told["protocol"], told["principal"], told["outcome"]) == ("http", "owner", "ok")
        assert told["peer"].startswith("127.0.0.1:")
    refused = line(guarded, entity="refused", operation="create")
    assert refused["status"] == 401 and refused["outcome"] != "ok" and refused["peer"].startswith("127.0.0.1:")


def change_rule(connection, operation: str, **arguments):
    """Sends a request like the SDKs of other languages, and returns the status of the answer."""
    node = "news/subscriptions/all/$management"
    answers = connection.create_receiver(node, credit=1, name="answers")
    requests = connection.create_sender(node, name="requests")
    names = {key.replace("_", "-"): value for key, value in arguments.items()}
    properties = {"operation": f"com.microsoft:{operation}"}
    requests.send(proton.Message(names, id=operation, reply_to="answers", properties=properties))
    status = answers.receive(PATIENCE_SECS).properties["statusCode"]
    requests.close()
    answers.close()
    return status


def test_changes_of_rules_over_amqp_are_noted_with_who_made_them(guarded):
    def connected(rule):
        identity = IDENTITY | {"user": rule, "password": f"{rule}-primary"}
        url = f"amqp://127.0.0.1:{guarded.amqp_port}"
        return contextlib.closing(BlockingConnection(url, timeout=PATIENCE_SECS, **identity))

    description = {"correlation-filter": {"label": "red"}}
    with connected("owner") as connection:
        assert change_rule(connection, "add-rule", rule_name="red", rule_description=description) == 200
        assert change_rule(connection, "remove-rule", rule_name="red") == 200
        assert change_rule(connection, "remove-rule", rule_name="missing") == 404
    with connected("listener") as connection:
        assert change_rule(connection, "add-rule", rule_name="mine", rule_description=description) == 401
    entity = "news/subscriptions/all/rules/{}".format
    for operation in ("add-rule", "remove-rule"):
        told = line(guarded, entity=entity("red"), operation=operation)
        assert (told["protocol"], told["principal"], told["outcome"]) == ("amqp", "owner", "ok")
        assert told["peer"].startswith("127.0.0.1:")
    missing = line(guarded, entity=entity("missing"))
    assert (missing["principal"], missing["outcome"] == "ok") == ("owner", False)
    refused = line(guarded, entity=entity("mine"))
    assert refused["principal"] == "listener" and refused["outcome"] != "ok"
