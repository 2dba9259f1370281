"""Frames as azure-servicebus encodes them, one `name hex` a line.

    pip install azure-servicebus==7.15.0 && python python.py > python.txt
"""

import uuid

from azure.servicebus import ServiceBusMessage
from azure.servicebus._common.constants import SESSION_FILTER
from azure.servicebus._pyamqp._encode import encode_frame, encode_payload
from azure.servicebus._pyamqp.endpoints import Source, Target
from azure.servicebus._pyamqp.error import AMQPError
from azure.servicebus._pyamqp.message import BatchMessage, Message, Properties
from azure.servicebus._pyamqp.outcomes import Accepted, Modified, Rejected
from azure.servicebus._pyamqp.performatives import (
    AttachFrame, BeginFrame, CloseFrame, DetachFrame, DispositionFrame, FlowFrame, OpenFrame, SASLInit, TransferFrame,
)
from azure.servicebus._pyamqp.utils import amqp_array_value, amqp_long_value, amqp_uint_value
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.amqp import AmqpAnnotatedMessage

ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def frame(name, performative, frame_type=b"\x00", channel=1):
    header, body = encode_frame(performative, frame_type)
    print(name, (header + channel.to_bytes(2, "big") + body).hex())


def message(name, amqp):
    output = bytearray()
    encode_payload(output, amqp)
    print(name, output.hex())


def attach(role, source, target, **rest):
    fields = dict(
        name="b4a1", handle=1, role=role, send_settle_mode=0, rcv_settle_mode=1, source=source, target=target,
        unsettled=None, incomplete_unsettled=None, initial_delivery_count=None, max_message_size=1048576,
        offered_capabilities=None, desired_capabilities=None, properties=None,
    )
    return AttachFrame(**{**fields, **rest})


def source(session):
    return Source(address="amqps://localhost:5672/q", filters={SESSION_FILTER: session})


def management(body, operation):
    return Message(
        value=body,
        properties=Properties(message_id=ID, reply_to="q/$management"),
        application_properties={
            "associated-link-name": "b4a1",
            "com.microsoft:server-timeout": amqp_uint_value(60000),
            "operation": operation,
            "type": "entity-mgmt",
        },
    )


frame("sasl-init", SASLInit(mechanism=b"ANONYMOUS", initial_response=None, hostname="localhost"), b"\x01", 0)
frame("open", OpenFrame(
    container_id="SBReceiver-1", hostname="localhost", max_frame_size=1048576, channel_max=65535, idle_timeout=None,
    outgoing_locales=None, incoming_locales=None, offered_capabilities=None, desired_capabilities=None,
    properties={"product": "azsdk-python-servicebus", "version": "7.15.0"},
), channel=0)
frame("begin", BeginFrame(
    remote_channel=None, next_outgoing_id=0, incoming_window=65536, outgoing_window=65536, handle_max=4294967295,
    offered_capabilities=None, desired_capabilities=None, properties=None,
))
receiver = Target(address="receiver-link-b4a1")
properties = {"com.microsoft:receiver-name": "SBReceiver-1", "com.microsoft:timeout": amqp_uint_value(5000)}
plain_source = Source(address="amqps://localhost:5672/q")
frame("attach-receiver", attach(True, plain_source, receiver, properties=properties))
frame("attach-session", attach(True, source("sess"), receiver))
frame("attach-next-session", attach(True, source(None), receiver))
sender_source = Source(address="sender-link-b4a1")
frame("attach-sender", attach(
    False, sender_source, Target(address="amqps://localhost:5672/q"), initial_delivery_count=0, max_message_size=0,
))
frame("flow", FlowFrame(
    next_incoming_id=1, incoming_window=65536, next_outgoing_id=0, outgoing_window=65536, handle=1, delivery_count=0,
    link_credit=300, available=None, drain=None, echo=None, properties=None,
))
frame("flow-drain", FlowFrame(
    next_incoming_id=1, incoming_window=65536, next_outgoing_id=0, outgoing_window=65536, handle=1, delivery_count=0,
    link_credit=0, available=None, drain=True, echo=None, properties=None,
))
payload = bytearray()
sent = ServiceBusMessage("hello", message_id="m1", session_id="s", application_properties={
    "bool": True, "int": 3, "double": 1.5, "text": "t\u00e9", "uuid": ID, "bytes": b"\x01\x02",
})
encode_payload(payload, PyamqpTransport.to_outgoing_amqp_message(sent.raw_amqp_message))
frame("transfer", TransferFrame(
    handle=1, delivery_id=0, delivery_tag=b"\x00\x00\x00\x01", message_format=0, settled=False, more=False,
    rcv_settle_mode=None, state=None, resume=None, aborted=None, batchable=None, payload=payload,
))
for name, state in {
    "accepted": Accepted(),
    "modified-abandon": Modified(delivery_failed=True, undeliverable_here=False, message_annotations=None),
    "modified-defer": Modified(delivery_failed=True, undeliverable_here=True, message_annotations=None),
    "rejected-dead-letter": Rejected(error=AMQPError(
        condition=b"com.microsoft:dead-letter", description="why",
        info={b"DeadLetterReason": "r", b"DeadLetterErrorDescription": None},
    )),
}.items():
    frame(f"disposition-{name}", DispositionFrame(
        role=True, first=7, last=7, settled=False, state=state, batchable=None,
    ))
frame("detach", DetachFrame(handle=1, closed=True, error=None))
frame("close", CloseFrame(error=AMQPError(condition=b"amqp:connection:forced", description="bye", info=None)), channel=0)

message("message-put-token", Message(
    value="SharedAccessSignature sr=q&sig=x&se=1&skn=k",
    properties=Properties(message_id=ID),
    application_properties={"name": "sb://localhost/q", "operation": "put-token", "type": "jwt"},
))
message("message-peek", management(
    {"from-sequence-number": amqp_long_value(1), "message-count": 10}, "com.microsoft:peek-message",
))
message("message-renew-lock", management(
    {"lock-tokens": amqp_array_value([ID, ID])}, "com.microsoft:renew-lock",
))
message("message-deferred", management(
    {"sequence-numbers": amqp_array_value([amqp_long_value(1), amqp_long_value(300)]),
     "receiver-settle-mode": amqp_uint_value(1)}, "com.microsoft:receive-by-sequence-number",
))
message("message-delivery-annotations", PyamqpTransport.to_outgoing_amqp_message(AmqpAnnotatedMessage(
    data_body=b"x", delivery_annotations={"x-opt-hint": 1}, annotations={"x-opt-partition-key": "p"},
    header={"time_to_live": 60000, "durable": True}, footer={"sum": 1},
)))
inner = bytearray()
encode_payload(inner, Message(data=[b"one"], properties=Properties(message_id="1")))
batch = BatchMessage(data=[bytes(inner), bytes(inner)])
message("message-batch", batch)
