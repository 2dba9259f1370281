"""Kombu's transport `azureservicebus`, and a worker of Celery on it: unmodified, over TLS, queues made by the transport.

The transport always uses the port of AMQPS, 5671, and trusts the CAs of certifi; so a separate program runs here, with a copy of
certifi that contains the broker's CA, on a loopback address of its own.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import certifi
import pytest
from azure.core.exceptions import ResourceNotFoundError

from administration import administration_client
from daemon import Daemon, entities_text

PATIENCE_SECS = 60
HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def site(amqps_address):
    """A daemon on port 5671, and the environment of a program that trusts it."""
    config = f'[tls]\nnames = ["{amqps_address}"]\n' + entities_text({"simple": {}})
    with contextlib.closing(Daemon(config, also_listen=[f"{amqps_address}:5671"]).start()) as daemon:
        packages = daemon.path / "packages"
        shutil.copytree(pathlib.Path(certifi.__file__).parent, packages / "certifi")
        with (packages / "certifi" / "cacert.pem").open("a") as known:
            known.write(pathlib.Path(daemon.ca).read_text())
        # Variables that would replace certifi's CAs.
        replacing = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
        environment = {key: value for key, value in os.environ.items() if key not in replacing}
        address = f"azureservicebus://RootManageSharedAccessKey:SAS_KEY_VALUE@{amqps_address}:5671/.net"
        environment |= {
            "PYTHONPATH": os.pathsep.join([str(packages), str(HERE)]),
            "PEEKLOCK_CELERY_BROKER": address,
            "PEEKLOCK_CELERY_RESULTS": f"file://{daemon.path}",
        }
        yield daemon, environment
        assert daemon.panics() == []


def run(environment, program: str, *arguments: str) -> dict:
    """The JSON output of a Python program."""
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECS)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


PLAIN = """
import json, os, kombu

# No receive gives up before its message: the transport would leave its credit behind, and what is sent next would go there.
with kombu.Connection(os.environ["PEEKLOCK_CELERY_BROKER"], transport_options={"wait_time_seconds": 30}) as connection:
    queue = kombu.Queue("jobs", exchange=kombu.Exchange("jobs"), routing_key="jobs")
    with connection.Producer() as producer:
        producer.publish({"number": 1}, exchange=queue.exchange, routing_key="jobs", declare=[queue])
    got = []
    with connection.Consumer([queue], callbacks=[lambda body, message: (got.append(body), message.ack())]):
        connection.drain_events(timeout=30)
    simple = connection.SimpleQueue("simple")
    simple.put("text")
    message = simple.get(timeout=30)
    sizes = [simple.qsize()]
    message.ack()
    sizes.append(simple.qsize())
    simple.put("purged")
    simple.put("purged")
    # The transport takes its queue for empty when nothing comes within 0.2 s, and may lose count of what comes then.
    purged = [simple.clear()]
    while simple.qsize() > 0:
        purged.append(simple.clear())
    print(json.dumps({"got": got, "simple": message.payload, "sizes": sizes, "purged": sum(purged)}))
    queue(connection.default_channel).delete()
"""


def test_a_producer_and_a_consumer(site):
    daemon, environment = site
    told = run(environment, PLAIN)
    assert told.pop("purged") <= 2
    assert told == {"got": [{"number": 1}], "simple": "text", "sizes": [1, 0]}
    with administration_client(daemon, "https") as admin, pytest.raises(ResourceNotFoundError):
        admin.get_queue("jobs")


ASK = """
import json
from celery_app import add, fails_once

sums = [add.delay(number, 1) for number in range(10)]
retried = fails_once.delay()
answers = [result.get(timeout=50, interval=0.1) for result in sums]
print(json.dumps({"sums": answers, "retries": retried.get(timeout=50, interval=0.1)}))
"""


@contextlib.contextmanager
def worker(daemon, environment):
    log = daemon.path / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool", "solo", "--loglevel", "info"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=daemon.path)
    try:
        yield log
    finally:
        process.kill()
        process.wait()


def test_a_worker_of_celery_does_tasks_and_retries(site):
    daemon, environment = site
    environment |= {"PEEKLOCK_CELERY_QUEUE": "tasks"}
    with worker(daemon, environment) as log:
        try:
            told = run(environment, ASK)
        except Exception as error:
            raise AssertionError(log.read_text()[-5000:]) from error
        assert told == {"sums": list(range(1, 11)), "retries": 1}
        with administration_client(daemon, "https") as admin:
            deadline = time.monotonic() + PATIENCE_SECS
            # The last acknowledgement comes after its result.
            while admin.get_queue_runtime_properties("celery-tasks").total_message_count > 0:
                assert time.monotonic() < deadline, log.read_text()[-5000:]
                time.sleep(0.1)
