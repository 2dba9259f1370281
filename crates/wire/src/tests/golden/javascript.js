// Frames as rhea (under @azure/service-bus) encodes them, one `name hex` a line.
//
//     npm install rhea@3.0.5 && node javascript.js > javascript.txt

const rhea = require("rhea");
const frames = require("rhea/lib/frames.js");
const terminus = require("rhea/lib/terminus.js");
const { message, types } = rhea;

function frame(name, performative, payload, type = frames.TYPE_AMQP) {
  console.log(name, frames.write_frame({ channel: 1, type, performative, payload }).toString("hex"));
}

function attach(source, target, rest) {
  const attach = frames.attach({ name: "q-1", handle: 0, role: true, snd_settle_mode: 0, rcv_settle_mode: 1, ...rest });
  attach.source = terminus.source(source).described();
  attach.target = terminus.target(target).described();
  return attach;
}

function disposition(name, state) {
  frame(`disposition-${name}`, frames.disposition({ role: true, first: 3, last: 4, settled: false, state }));
}

frame("sasl-init", frames.sasl_init({
  mechanism: "ANONYMOUS", initial_response: Buffer.from("RootManageSharedAccessKey"), hostname: "localhost",
}), undefined, frames.TYPE_SASL);
frame("open", frames.open({
  container_id: "c", hostname: "localhost", idle_time_out: 60000,
  properties: { product: "MSJSClient", version: "7.9.5" }, desired_capabilities: "ANONYMOUS-RELAY",
}));
frame("begin", frames.begin({ next_outgoing_id: 0, incoming_window: 2048, outgoing_window: 4294967295 }));
frame("attach-session", attach(
  { address: "q", filter: { "com.microsoft:session-filter": "sess" } }, { address: "q-1" },
  { properties: { "com.microsoft:receiver-name": "r", "com.microsoft:timeout": types.wrap_uint(59900) } },
));
frame("attach-cbs-reply", attach({ address: "$cbs" }, {}, { name: "cbs-1" }));
frame("flow", frames.flow({
  next_incoming_id: 0, incoming_window: 2048, next_outgoing_id: 0, outgoing_window: 4294967295, handle: 0,
  delivery_count: 0, link_credit: 10, drain: true,
}));
frame("transfer", frames.transfer({
  handle: 0, delivery_id: 0, delivery_tag: Buffer.from("0"), message_format: 0, settled: false,
}), message.encode({
  message_id: "m1", group_id: "s", content_type: "application/json", ttl: 60000,
  message_annotations: { "x-opt-partition-key": "s" },
  application_properties: { text: "t", number: 5, fraction: 1.5, bool: true },
  body: message.data_section(Buffer.from('{"a":1}')),
}));
disposition("accepted", message.accepted().described());
disposition("modified-abandon", message.modified({
  undeliverable_here: false, message_annotations: { colour: "blue" },
}).described());
// error.info is a plain object here: rhea writes its keys as strings.
disposition("rejected-dead-letter", message.rejected({
  error: {
    condition: "com.microsoft:dead-letter", description: "d",
    info: { DeadLetterReason: "r", DeadLetterErrorDescription: "d", extra: 7 },
  },
}).described());
frame("detach", frames.detach({ handle: 0, closed: true }));
frame("close", frames.close({ error: { condition: "amqp:connection:forced", description: "bye" } }));

const tokens = [Buffer.from("00112233445566778899aabbccddeeff", "hex")];
const request = (name, operation, body) => console.log(name, message.encode({
  message_id: "id-1", reply_to: "q-1", application_properties: { operation, "associated-link-name": "q-1" }, body,
}).toString("hex"));
request("message-peek", "com.microsoft:peek-message", {
  "from-sequence-number": types.wrap_long(1), "message-count": types.wrap_int(10),
});
request("message-renew-lock", "com.microsoft:renew-lock", { "lock-tokens": types.wrap_array(tokens, 0x98, undefined) });
request("message-deferred", "com.microsoft:receive-by-sequence-number", {
  "sequence-numbers": types.wrap_array([Buffer.from("0000000000000001", "hex")], 0x81, undefined),
  "receiver-settle-mode": types.wrap_uint(1),
});
console.log("message-batch", message.encode({
  body: message.data_sections([message.encode({ body: "one" }), message.encode({ body: "two" })]),
}).toString("hex"));
