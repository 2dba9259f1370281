"""The audit log: identity and change, one JSON line each."""

import json
import os
import signal
import subprocess
import time

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from daemon import Daemon, binary, entities_text

PATIENCE_SECS = 40


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def until(condition):
    deadline = time.monotonic() + PATIENCE_SECS
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def test_a_reload_is_noted_and_a_moved_file_is_followed(start_daemon, tmp_path):
    log, moved = tmp_path / "audit.log", tmp_path / "audit.log.1"
    text = f'[log]\naudit = "{log}"\n' + entities_text({"first": {}})
    daemon = start_daemon(text)
    daemon.config.write_text(text + '\n[[queues]]\nname = "second"\n')
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: len(lines(log)) == 2)
    declared, reloaded = lines(log)
    assert (declared["protocol"], declared["operation"], declared["outcome"]) == ("config", "declare", "ok")
    assert declared["changed"] == 'queue "second" was created'
    assert (reloaded["operation"], reloaded["outcome"], reloaded["changes"]) == ("reload", "ok", 1)
    assert declared["time"].endswith("Z")
    log.rename(moved)
    daemon.config.write_text(text + "nonsense")
    daemon.process.send_signal(signal.SIGHUP)
    (refused,) = until(lambda: lines(log))
    assert refused["operation"] == "reload" and "not TOML" in refused["outcome"]
    assert len(lines(moved)) == 2
    assert '"operation"' not in daemon.log.read_text(), "nowhere else"


def test_a_log_that_can_not_be_opened_stops_the_start(tmp_path):




    daemon = Daemon(f'[log]\naudit = "{tmp_path}"\n')
    command = [binary(), "serve", "--config", daemon.config, "--data-dir", daemon.path / "data"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0 and "audit log (log.audit)" in ended.stderr
    daemon.close()


def test_a_second_signal_loses_no_line_of_it(start_daemon, tmp_path):
    """Its reader is late: a pipe has room for a part of the lines."""
    pipe = tmp_path / "audit"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    text = f'[log]\naudit = "{pipe}"\n'
    names = [f"queue-{number:04}" for number in range(1_000)]
    daemon = start_daemon(text + entities_text({"first": {}}))
    daemon.config.write_text(text + entities_text({name: {} for name in ["first", *names]}))
    daemon.reload()
    with ServiceBusClient.from_connection_string(daemon.connection_string) as client:
        # A connection that is open, and does not answer a close.
        client.get_queue_sender("first").send_messages(ServiceBusMessage("one"))
        for expected in ("draining", "stopping at once"):
            daemon.process.send_signal(signal.SIGTERM)
            until(lambda: expected in daemon.log.read_text())
    os.set_blocking(reader, True)
    with open(reader, encoding="utf-8") as end:
        found = [json.loads(line) for line in end]
    assert [one["operation"] for one in found] == ["declare"] * len(names) + ["reload"]
    assert daemon.process.wait(PATIENCE_SECS) == 1
