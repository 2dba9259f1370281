"""How docs/cli.md is run by `test_docs_commands.py`; see `documented_pages.py`."""

from documented import Page, Step

CLI_SETUP = r"""
cat >broker.toml <<'TOML'
[[queues]]
name = "orders"
[[queues]]
name = "repaired"
[[queues]]
name = "archive"
[[queues]]
name = "baskets"
requires_session = true
[[topics]]
name = "news"
[[topics.subscriptions]]
name = "all"
[[topics.subscriptions]]
name = "eu"
[[topics.subscriptions]]
name = "red"
TOML
serve peeklock --config broker.toml >"$AREA/start"
quietly() { "$@" >/dev/null 2>&1; }
send() { quietly peeklock send "$@"; }
LOCAL="Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
# So many dead letters in `orders`, in place of what was there.
dead() {
    quietly peeklock purge orders
    send orders --repeat "${1:-1}" --body bad
    quietly peeklock receive orders -n "${1:-1}" --dead-letter --reason MaxDeliveryCountExceeded
}
has() { [[ "$(peeklock peek "$1")" == *"$2"* ]]; }
# The number of the first message in a state.
first() { peeklock peek "$@" -n 1 --json | python -c 'import json, sys; print(json.loads(input())["sequence_number"])'; }
send orders --body 1 --prop amount:int=7
send news --body hello --prop region=eu
send baskets --session red --body apples
printf '{"id": 7}' >order.json
cp "$REPOSITORY/config/emulator-sample.json" Config.json
mkdir man1
# Goes on sending (or what is given), for those who follow.
again_and_again() { (while quietly "$@"; do sleep 0.2; done) & repeated=$!; }
enough() { kill "$repeated"; wait "$repeated" || true; }
buried() { send news --body "$1" && peeklock receive news/Subscriptions/all -n 1 --dead-letter; }
# What can't change at run time is named in a warning each time.
warned() { kill -HUP "$served"; }
# Has a message of `orders` locked.
lock() { send orders --body held && quietly curl --fail -X POST localhost:5300/orders/messages/head -H "Authorization: $(peeklock token)"; }
field() { python -c 'import json, sys; print(json.loads(input())[sys.argv[1]])' "$1"; }
a_connection() { peeklock connections ls --json | field id; }
"""

#: Commands that watch a broker and its clients.
WATCHING = {
    "peeklock tail orders": Step(before="again_and_again peeklock send orders --body tailed", until="tailed", after="enough"),
    "peeklock tail orders -n 10": Step(before="send orders --body wanted --prop amount:int=7", until="wanted"),
    "peeklock tail 'news/Subscriptions/all/$dlq' --json": Step(before="again_and_again buried dead", until="dead", after="enough"),
    "peeklock tail --log": Step(
        before="printf '[log]\\nformat = \"json\"\\n' >>broker.toml; again_and_again warned", until="format", after="enough"
    ),
    "peeklock tail --audit": Step(before="quietly peeklock update orders max_delivery_count=9", until="update"),
    "peeklock locks ls orders": Step(before="lock", prints="(?m)^[0-9]+"),
    "peeklock locks release orders --seq 17 --dry-run": Step(
        run="peeklock locks release orders --seq $(peeklock locks ls orders --json | field sequence_number) --dry-run",
        skip="the number is another",
    ),
    "peeklock locks release orders --seq 17,18": Step(
        run="peeklock locks release orders --seq $(peeklock locks ls orders --json | field sequence_number)",
        skip="the numbers are others",
    ),
    "peeklock top": Step(until="orders"),
    "peeklock top --json": Step(run="peeklock top --json --interval 1s -n 1", skip="takes a minute", prints="orders"),
    "peeklock connections ls": Step(
        before="interruptible peeklock peek orders --follow >/dev/null 2>&1 & follower=$!\neventually a_connection",
        prints="peeklock",
    ),
    "peeklock connections ls orders": Step(prints="\"id\":"),
    "peeklock connections show": Step(run="peeklock connections show $(a_connection)", skip="the number is another"),
    "peeklock connections close 19ab3f2c4d1-7 --dry-run": Step(
        run="peeklock connections close $(a_connection) --dry-run", skip="the number is another"
    ),
    "peeklock connections close": Step(
        run="peeklock connections close $(a_connection)", skip="the number is another", after="kill $follower 2>/dev/null || true"
    ),
    "peeklock clock": Step(before="serve peeklock --config broker.toml --time-travel", prints="20[0-9]{2}-"),
    "peeklock clock --advance": Step(prints="20[0-9]{2}-"),
}

CLI = Page(
    setup=CLI_SETUP,
    steps={
        "peeklock peek orders --all --where": Step(prints='"amount"'),
        "peeklock peek orders --state scheduled": Step(before="send orders --body tomorrow --in 24h", prints="tomorrow"),
        "peeklock peek orders --state deferred": Step(
            before="send orders --body put-off && peeklock receive orders --defer -n 2 >/dev/null 2>&1; send orders --body 1 --prop amount:int=7",
            prints="put-off",
        ),
        "peeklock peek 'orders/$dlq' -n 100": Step(before="dead 2", prints="bad"),
        "peeklock peek baskets --session red": Step(prints="apples"),
        "peeklock peek news/Subscriptions/all --follow": Step(until="hello"),
        "peeklock ls 'news*' --watch": Step(until="news"),
        "peeklock create queue orders": Step(before="quietly peeklock delete orders && quietly peeklock delete news"),
        "peeklock delete orders --dry-run": Step(prints="orders"),
        "peeklock rule ls news": Step(
            before="quietly peeklock create subscription news/Subscriptions/eu && quietly peeklock create subscription news/Subscriptions/red",
            prints=r"\$Default",
        ),
        "peeklock rule test news": Step(prints="eu"),
        "peeklock rule test --sql": Step(prints="seen"),
        "peeklock export 'orders*'": Step(before='export AZURE_CONNECTION="$LOCAL"', prints="max_delivery_count"),
        "peeklock apply entities.toml --diff": Step(before="quietly peeklock update orders max_delivery_count=7", prints="(?i)max_?delivery"),
        "peeklock apply Config.json": Step(prints="queue.1"),
        "peeklock doctor": Step(prints="(?i)ok"),
        "peeklock token": Step(prints="^SharedAccessSignature "),
        "peeklock man": Step(after="test -s man1/peeklock.1"),
        "peeklock move orders archive": Step(before="send orders --body x --prop amount:int=7"),
        "peeklock undefer orders --seq 17": Step(
            before="send orders --body d && quietly peeklock receive orders --defer -n 1",
            run="peeklock undefer orders --seq $(first orders --state deferred)",
            skip="the number is another",
        ),
        "peeklock resubmit orders --seq 17,18": Step(
            before="dead 2",
            run="peeklock resubmit orders --seq $(first 'orders/$dlq') --to repaired",
            skip="the numbers are others",
            after="has repaired bad",
        ),
        "peeklock resubmit orders --dry-run": Step(before="dead 3", prints="3"),
        "peeklock resubmit orders --where": Step(before="dead 2"),
        "peeklock move 'orders/$dlq'": Step(before="dead 2", after="has archive bad"),
        "peeklock purge 'orders/$dlq'": Step(before="dead 2"),
        "peeklock purge orders --where": Step(before="send orders --subject test --body x"),
        "peeklock purge orders --state scheduled": Step(before="send orders --body x --in 1h"),
        "peeklock sessions show baskets": Step(before="send baskets --session red --body x"),
        **WATCHING,
        "peeklock receive orders -n 100": Step(before="send orders --repeat 100 --body load", prints="load"),
        "peeklock receive orders --dead-letter": Step(before="send orders --body bad", prints="bad|load|greeting"),
        "peeklock receive orders --abandon": Step(before="send orders --body again", prints="."),
        "peeklock receive orders --defer": Step(before="send orders --body later", prints="."),
        "peeklock receive baskets --session": Step(before="send baskets --session red --repeat 10 --body pear", prints="pear"),
        "peeklock receive baskets --next-session": Step(before="send baskets --session blue --body plum", prints="plum|pear"),
        "peeklock receive 'orders/$dlq' --all": Step(before="dead", prints="bad"),
    },
)
