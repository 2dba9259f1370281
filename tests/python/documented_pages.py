"""How each page of the documentation is run by `test_docs_commands.py`: the preparation, and the commands that can't run, with the reason."""

import shutil

from documented import NODE_MODULES, ROOT, Page, Step
from documented_cli import CLI

BUILT = "the program is built already"
PROFILED = "two builds of the broker, and two minutes of work between them"
SUITES = "the tests themselves"
BENCH = "takes minutes, and measures"
ENGINE = "needs a container engine; tests/packages/engine.sh runs it where podman works"
SYSTEMD = "needs systemd as process 1; tests/packages/systemd.sh runs it"
CLUSTER = "needs a cluster"
PACKAGE = "installs on the machine; tests/packages/systemd.sh installs the .deb in an overlay, tests/packages.sh looks into the .rpm"

CONNECTION = (
    'CONNECTION = ("Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;"\n'
    '              "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;")\n'
)

#: `cargo bench -p CRATE --bench NAME` and `cargo test -p CRATE`: these must exist.
HAVE_BENCHES = r"""
benches_exist() {
    python - "$@" <<'PROGRAM'
import os, pathlib, re, sys, tomllib
root = pathlib.Path(os.environ["REPOSITORY"])
files = [file for folders in ("crates/*", "tests", "tests/*") for file in root.glob(f"{folders}/Cargo.toml")]
manifests = [tomllib.loads(file.read_text()) for file in files]
benches = {one["package"]["name"]: {bench["name"] for bench in one.get("bench", [])} for one in manifests}
for crate, names in re.findall(r"cargo bench -p (\S+)((?: --bench \S+)*)", sys.argv[1]):
    unknown = set(names.replace("--bench", "").split()) - benches[crate]
    assert not unknown, f"{crate} has no bench {unknown}"
PROGRAM
}
# `./test.sh STAGE…`: such stages exist.
stages_exist() {
    local stage
    shift
    for stage in "$@"; do
        grep -q "^stage_$stage()" "$REPOSITORY/test.sh" || { echo "test.sh has no stage $stage" >&2; return 1; }
    done
}
"""


def bench(command: str) -> Step:
    return Step(skip=BENCH, after=f"benches_exist '{command}'")


FIRST_STEPS_API = r"""
api() { curl -sS --fail-with-body -H "Authorization: $(peeklock token)" -H 'Content-Type: application/json' "$@"; }
api=localhost:5300/'$api'/v1
dead='orders/$deadletterqueue'
"""

#: The console's steps 1 to 3 by its API; tests/js/first-steps.test.mjs does them in a browser.
MEND = r"""
api "$api/dead-letters" >groups
grep -q "there is no coffee" groups && grep -q "the amount is no number: 'two'" groups
bad=$(peeklock peek 'orders/$dlq' --json --where "DeadLetterReason = 'BadAmount'" | python -c 'import json; print(json.loads(input())["sequence_number"])')
api "$api/messages?path=orders" -d '{"messages":[{"message_id":"order-3","content_type":"application/json","body":{"text":"{\"item\": \"tea\", \"amount\": 2}"}}]}'
api "$api/messages/act?path=$dead" -d "{\"action\":\"delete\",\"sequence_numbers\":[\"$bad\"]}"
api "$api/messages/act?path=$dead" -d '{"action":"resubmit","before":"2100-01-01T00:00:00Z"}'
test -z "$(peeklock peek 'orders/$dlq' --json)"
"""

CELERY = r"""
cp -r "$(python -c 'import certifi, os; print(os.path.dirname(certifi.__file__))')" "$AREA/site/certifi"
cat >tasks.py <<'PROGRAM'
import os
from celery import Celery
from celery.signals import worker_ready
app = Celery("tasks", broker=os.environ["CELERY_BROKER_URL"], backend=None)
app.conf.update(worker_enable_remote_control=False, worker_send_task_events=False, broker_transport_options={"wait_time_seconds": 1})
@app.task
def add(a, b):
    print(f"the sum is {a + b}")
@worker_ready.connect
def ready(**_):
    add.delay(3, 4)
PROGRAM
serve peeklock --queue orders >"$AREA/start"
cp data/tls/ca.pem .
"""

#: A stored directory with a damaged message.
DAMAGED = r"""
serve peeklock --queue orders >"$AREA/start"
for body in first-message damaged-message last-message; do peeklock send orders --body "$body" >/dev/null 2>&1; done
kill -TERM "$served" && wait "$served"
served=""
python - <<'PROGRAM'
import pathlib
(segment,) = pathlib.Path("data").glob("*.segment")
content = bytearray(segment.read_bytes())
content[content.index(b"damaged-message")] ^= 0xFF
segment.write_bytes(content)
PROGRAM
"""

RELEASE = r"""
name=peeklock-0.1.0-x86_64-unknown-linux-musl
mkdir -p $name target/release
cp "$(realpath "$AREA/bin/peeklock")" $name/peeklock
cp $name/peeklock target/release/
tar czf $name.tar.gz $name
sha256sum $name.tar.gz >SHA256SUMS
echo "$(printf '0%.0s' $(seq 64))  peeklock_0.1.0_arm64.deb" >>SHA256SUMS
rm -r $name
"""

ADMIN_PYTHON = (
    CONNECTION
    + "from azure.servicebus.management import ServiceBusAdministrationClient, SqlRuleAction, SqlRuleFilter\n"
    + "admin = ServiceBusAdministrationClient.from_connection_string(CONNECTION)\n"
    + 'admin._impl._client._base_url = "http://localhost:5300"\n'
)
ADMIN_JS = (
    'import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";\n'
    'const CONNECTION = "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;'
    'SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;";\n'
)

KEYTOOL = Step() if shutil.which("keytool") else Step(skip="keytool, of a JDK, is not installed")
EXAMPLE_JS = Step(prints="Bob takes 20 percent")
if not NODE_MODULES.exists():
    EXAMPLE_JS = Step(skip="tests/js has no packages installed; tests/js/examples.test.mjs runs it")
HELM = shutil.which("helm") or (str(ROOT / "target/tools/helm") if (ROOT / "target/tools/helm").exists() else None)

PAGES = {
    "README.md": Page(
        setup=HAVE_BENCHES,
        programs={"python": ("", "")},
        steps={
            "cargo run --release -p peeklock": Step(run="peeklock", skip=BUILT),
            "from azure.servicebus import": Step(prints="^Hello, Peeklock!$"),
            "./test.sh": Step(skip=SUITES),
            "curl -d": Step(before="serve peeklock --time-travel", prints=r'^\{"now":"20\d\d-.*Z"\}'),
        },
    ),
    "CONTRIBUTING.md": Page(
        setup=HAVE_BENCHES,
        steps={
            "./test.sh  ": Step(skip=SUITES),
            "./test.sh lint doc rust": Step(skip=SUITES, after="stages_exist test.sh lint doc rust"),
            "./test.sh build python js": Step(skip=SUITES, after="stages_exist test.sh build python js"),
        },
    ),
    "examples/README.md": Page(
        files=("examples",),
        steps={
            "cargo run --release -p peeklock": Step(run="peeklock --config examples/peeklock.toml", skip=BUILT),
            "python examples/python/expiry.py": Step(prints="Bob takes 20 percent"),
            "npm install --prefix examples/js": Step(skip="needs a network; tests/js has the packages"),
            "node examples/js/expiry.mjs": EXAMPLE_JS,
        },
        places={"examples/js": "$AREA/js"},
        setup='cp -r "$REPOSITORY/examples/js" "$AREA/js"',
    ),
    "docs/administration.md": Page(
        setup='serve peeklock >"$AREA/start"',
        programs={
            "python": (CONNECTION, 'assert client.get_queue("orders").max_delivery_count == 5; client.delete_queue("orders")'),
            "js": (ADMIN_JS, 'if ((await client.getQueue("orders")).maxDeliveryCount !== 5) throw new Error("another count");'),
        },
    ),
    "docs/cli.md": CLI,
    "docs/clients.md": Page(
        setup=CELERY,
        programs={
            "python": (
                "from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType",
                'with client, client.get_queue_sender("orders") as sender: sender.send_messages(ServiceBusMessage("over a WebSocket"))',
            ),
            "js": (
                "const message = {}; let isDone = false; "
                "const receiver = { deadLetterMessage: async (one) => { isDone = one === message; }, close: async () => { isDone = true; } };",
                'if (!isDone) throw new Error("not called");',
            ),
        },
        steps={"celery -A tasks worker": Step(until="the sum is 7")},
        after="""peeklock peek orders | grep -q 'over a WebSocket'""",
    ),
    "docs/damaged-store.md": Page(
        setup=DAMAGED,
        steps={
            "peeklock store check ./data          #": Step(run="peeklock store check ./data || test $? = 3", prints="(?s)orders.*damage"),
            "peeklock store check ./data --json": Step(run="peeklock store check ./data --json || test $? = 3", prints="orders"),
        },
        after="test -d data/quarantine/0001 && peeklock peek orders | grep -q last-message",
    ),
    "docs/emulator.md": Page(
        setup='cp "$REPOSITORY/config/emulator-sample.json" Config.json',
        steps={
            "docker build": Step(skip=ENGINE),
            # The line follows the ready file.
            "docker run": Step(
                skip=ENGINE,
                run="peeklock --emulator-config Config.json",
                after="eventually grep -q 'Emulator Service is Successfully Up!' \"$AREA/served\"",
            ),
        },
        after="grep -q 'name = \"queue.1\"' peeklock.toml && peeklock config check peeklock.toml >/dev/null",
    ),
    "docs/first-steps.md": Page(
        setup=FIRST_STEPS_API,
        saves={"python": "worker.py", "toml": "peeklock.toml"},
        steps={"python worker.py tea coffee": Step(before=MEND)},
    ),
    "docs/frameworks.md": Page(
        setup='cd "$REPOSITORY"',
        steps={
            "PEEKLOCK_BIN=target/release/peeklock tests/go-frameworks": Step(
                skip="downloads gigabytes of modules",
                after="bash -n tests/go-frameworks/run.sh && grep -q '^prepare_dapr()' tests/go-frameworks/run.sh"
                " && grep -q '^prepare_keda()' tests/go-frameworks/run.sh",
            ),
        },
    ),
    "docs/install.md": Page(
        files=("packaging",),
        setup=RELEASE,
        places={"/usr/local/bin/": '"$AREA/home/"', "target/release": '"$PWD/target/release"'},
        steps={
            "sudo apt-get install": Step(skip=PACKAGE),
            "sudo dnf install": Step(skip=PACKAGE),
            "sudo systemctl enable": Step(skip=SYSTEMD),
            "peeklock health": Step(before="serve peeklock"),
            "cargo build": Step(skip=BUILT),
            "packaging/profiled.sh": Step(run="test -x packaging/profiled.sh", skip=PROFILED),
            "docker build": Step(skip=ENGINE),
            "docker run": Step(skip=ENGINE),
        },
        after='"$AREA/home/peeklock" --version && "$HOME/.local/bin/peeklock" --version',
    ),
    "docs/java.md": Page(steps={"keytool": KEYTOOL}),
    "docs/kubernetes.md": Page(
        files=("packaging",),
        setup='serve peeklock >"$AREA/start"',
        places={"helm install": f"{HELM} template --kube-version 1.30.0"},
        steps={
            "helm install": Step(prints="kind: StatefulSet") if HELM else Step(skip="helm is not installed"),
            "kubectl exec": Step(skip=CLUSTER, run="PEEKLOCK_DATA_DIR=./data peeklock store backup ./before-upgrade"),
        },
        after="test -f before-upgrade/BACKUP",
    ),
    "docs/operating.md": Page(
        steps={
            "docker run -d --name broker": Step(skip=ENGINE),
            "docker exec broker peeklock store backup": Step(
                skip=ENGINE, run="PEEKLOCK_DATA_DIR=./data peeklock store backup ./backups/monday"
            ),
        },
        after="""
for name in first copied monday before-upgrade; do test -f backups/$name/BACKUP; done
test -f restored/MANIFEST
""",
    ),
    "docs/performance-internals.md": Page(
        setup=HAVE_BENCHES,
        steps={
            "cargo bench -p peeklock-instructions": bench("cargo bench -p peeklock-instructions"),
            "cargo bench -p peeklock-storage --bench log": bench("cargo bench -p peeklock-storage --bench log"),
            "cargo bench -p peeklock-engine --bench timers": bench("cargo bench -p peeklock-engine --bench timers --bench partition"),
            "cargo bench -p peeklock-rules --bench index": bench(
                "cargo bench -p peeklock-rules --bench index && cargo bench -p peeklock-engine --bench topics"
            ),
        },
    ),
    "docs/performance.md": Page(
        setup=HAVE_BENCHES,
        steps={
            "cargo build --release && PEEKLOCK_BIN": bench("cargo bench -p peeklock-tests --bench end_to_end"),
            "cargo build --release && cargo bench -p peeklock-tests --bench tr": bench("cargo bench -p peeklock-tests --bench transactions"),
            "cargo bench -p peeklock-rules --bench evaluation": bench("cargo bench -p peeklock-rules --bench evaluation"),
            "cargo build --release && cargo bench -p peeklock-tests --bench f": bench("cargo bench -p peeklock-tests --bench fairness"),
        },
    ),
    "docs/rest.md": Page(setup='serve peeklock --queue orders >"$AREA/start"'),
    "docs/rules.md": Page(
        setup='serve peeklock --topic orders/large >"$AREA/start"',
        programs={
            "python": (ADMIN_PYTHON, 'admin.delete_rule("orders", "large", "large")'),
            "js": (ADMIN_JS + "const client = new ServiceBusClient(CONNECTION);", "await client.close();"),
        },
    ),
    "docs/systemd.md": Page(
        setup='serve peeklock --data-dir lib >"$AREA/start"; mkdir backups',
        places={"/var/lib/peeklock": "lib", "/var/backups": "backups"},
        steps={"sudo systemctl": Step(skip=SYSTEMD)},
        after="test -f backups/peeklock/monday/BACKUP",
    ),
    "docs/test-map.md": Page(
        setup='cd "$REPOSITORY"',
        steps={
            "PEEKLOCK_BIN=target/release/peeklock python": Step(skip=SUITES, after="test -d tests/python"),
            "PEEKLOCK_BIN=target/release/peeklock npm": Step(skip=SUITES, after="test -f tests/js/package.json"),
            "PEEKLOCK_BIN=target/release/peeklock cargo": Step(skip=SUITES, after="grep -q '\"peeklock-tests\"' tests/Cargo.toml"),
            "./test.sh cluster  ": Step(skip=SUITES, after="grep -q '^stage_cluster()' test.sh"),
            "PEEKLOCK_NEMESIS_MINUTES": Step(skip=SUITES, after="grep -q PEEKLOCK_NEMESIS_MINUTES tests/python/nemesis.py"),
            "PEEKLOCK_NEMESIS_SEED": Step(skip=SUITES, after="grep -q PEEKLOCK_NEMESIS_SEED tests/python/nemesis.py"),
            "./test.sh cluster-suites": Step(skip=SUITES, after="grep -q '^stage_cluster-suites()' test.sh"),
            "tests/planted.sh              #": Step(skip=SUITES, after="test -x tests/planted.sh"),
            "tests/planted.sh cutoff hint": Step(skip=SUITES, after="ls tests/planted | grep -q cutoff && ls tests/planted | grep -q hint"),
        },
    ),
    "docs/testcontainers.md": Page(
        after="python -c 'import json; assert json.load(open(\"ready.json\"))[\"connection_string\"]'",
    ),
}
