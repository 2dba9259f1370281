package peeklock

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// A client that speaks AMQP to the daemon, and the name of a new queue.
func withQueue(t *testing.T, properties admin.QueueProperties) (*azservicebus.Client, string) {
	t.Helper()
	name := unique(t)
	_, err := administrators(t)["http"].CreateQueue(patient(t), name, &admin.CreateQueueOptions{Properties: &properties})
	must(t, err)
	return clients(t)["http"], name
}

func send(t *testing.T, client *azservicebus.Client, queue string, message *azservicebus.Message) {
	t.Helper()
	sender, err := client.NewSender(queue, nil)
	must(t, err)
	must(t, sender.SendMessage(patient(t), message, nil))
	must(t, sender.Close(patient(t)))
}

func one(t *testing.T, receiver *azservicebus.Receiver) *azservicebus.ReceivedMessage {
	t.Helper()
	messages, err := receiver.ReceiveMessages(patient(t), 1, nil)
	must(t, err)
	return messages[0]
}

// Go writes nil as empty bytes.
func TestSessionStateIsClearedByNil(t *testing.T) {
	client, queue := withQueue(t, admin.QueueProperties{RequiresSession: pointer(true)})
	receiver, err := client.AcceptSessionForQueue(patient(t), queue, "s", nil)
	must(t, err)
	must(t, receiver.SetSessionState(patient(t), []byte("kept"), nil))
	state, err := receiver.GetSessionState(patient(t), nil)
	must(t, err)
	same(t, "the state", string(state), "kept")
	must(t, receiver.SetSessionState(patient(t), nil, nil))
	state, err = receiver.GetSessionState(patient(t), nil)
	must(t, err)
	same(t, "no state", state == nil, true)
}

func TestDeliveryCountStaysInTheDeadLetterQueue(t *testing.T) {
	client, queue := withQueue(t, admin.QueueProperties{})
	send(t, client, queue, &azservicebus.Message{Body: []byte("dead")})
	receiver, err := client.NewReceiverForQueue(queue, nil)
	must(t, err)
	must(t, receiver.DeadLetterMessage(patient(t), one(t, receiver), nil))
	dead, err := client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	must(t, err)
	for range 3 {
		message := one(t, dead)
		same(t, "the count", message.DeliveryCount, uint32(1))
		must(t, dead.AbandonMessage(patient(t), message, nil))
	}
}

func TestAScheduledMessageIsReceivedAsScheduled(t *testing.T) {
	client, queue := withQueue(t, admin.QueueProperties{})
	sender, err := client.NewSender(queue, nil)
	must(t, err)
	messages := []*azservicebus.Message{{Body: []byte("scheduled")}}
	_, err = sender.ScheduleMessages(patient(t), messages, time.Now().Add(time.Second), nil)
	must(t, err)
	receiver, err := client.NewReceiverForQueue(queue, nil)
	must(t, err)
	message := one(t, receiver)
	same(t, "the state", message.State, azservicebus.MessageStateScheduled)
	must(t, receiver.CompleteMessage(patient(t), message, nil))
}

// As the SDK's own live tests compare it: every annotation, no more and no less.
func TestAnAnnotatedMessageComesBackWithTheBrokersAnnotations(t *testing.T) {
	ctx, name, bus := patient(t), unique(t), clients(t)["http"]
	_, err := administrators(t)["http"].CreateQueue(ctx, name, nil)
	must(t, err)
	sender, err := bus.NewSender(name, nil)
	must(t, err)
	must(t, sender.SendAMQPAnnotatedMessage(ctx, &azservicebus.AMQPAnnotatedMessage{
		DeliveryAnnotations: map[any]any{"x-opt-mine": "delivery"},
		MessageAnnotations:  map[any]any{"x-opt-mine": "message"},
		Footer:              map[any]any{"x-opt-mine": "footer"},
		Body:                azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("a"), []byte("b")}},
	}, nil))
	receiver, err := bus.NewReceiverForQueue(name, nil)
	must(t, err)
	messages, err := receiver.ReceiveMessages(ctx, 1, nil)
	must(t, err)
	message := messages[0].RawAMQPMessage
	token := message.DeliveryAnnotations["x-opt-lock-token"]
	same(t, "delivery annotations", message.DeliveryAnnotations, map[any]any{"x-opt-mine": "delivery", "x-opt-lock-token": token})
	same(t, "message annotations", message.MessageAnnotations, map[any]any{
		"x-opt-mine":            "message",
		"x-opt-enqueued-time":   message.MessageAnnotations["x-opt-enqueued-time"],
		"x-opt-sequence-number": int64(1),
		"x-opt-locked-until":    message.MessageAnnotations["x-opt-locked-until"],
	})
	same(t, "footer", message.Footer, map[any]any{"x-opt-mine": "footer"})
	if token == nil {
		t.Fatal("no lock token")
	}
	must(t, receiver.CompleteMessage(ctx, messages[0], nil))
}

// The bodies that the SDK's own live tests send, each of which comes back; an empty sequence is no section at all.
func TestEveryKindOfBodyComesBack(t *testing.T) {
	client, queue := withQueue(t, admin.QueueProperties{})
	sender, err := client.NewSender(queue, nil)
	must(t, err)
	receiver, err := client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{
		ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete,
	})
	must(t, err)
	bodies := []azservicebus.AMQPAnnotatedMessageBody{
		{Sequence: [][]any{{int64(1), "hello"}, {int64(2), "world"}}},
		{Sequence: [][]any{}},
		{},
	}
	for _, value := range []any{100.0, int64(101), "text", []byte("bytes"), []string{"a", "b", "c"}} {
		bodies = append(bodies, azservicebus.AMQPAnnotatedMessageBody{Value: value})
	}
	for _, body := range bodies {
		must(t, sender.SendAMQPAnnotatedMessage(patient(t), &azservicebus.AMQPAnnotatedMessage{Body: body}, nil))
		got := one(t, receiver).RawAMQPMessage.Body
		if len(body.Sequence) == 0 {
			body.Sequence = nil
		}
		if !reflect.DeepEqual(got, body) {
			t.Errorf("%#v became %#v", body, got)
		}
	}
}

// As the SDK's own live test has it: all that can be sent is the same after the message was received and sent again.
func TestAMessageSentAgainIsTheSame(t *testing.T) {
	client, queue := withQueue(t, admin.QueueProperties{})
	now := time.Now()
	text := func(text string) *string { return &text }
	send(t, client, queue, &azservicebus.Message{
		Body:                  []byte("body"),
		ApplicationProperties: map[string]any{"hello": "world"},
		ContentType:           text("type"), CorrelationID: text("correlation"), MessageID: text("id"),
		PartitionKey: text("session"), ReplyTo: text("reply to"), ReplyToSessionID: text("reply session"),
		ScheduledEnqueueTime: &now, SessionID: text("session"), Subject: text("subject"),
		TimeToLive: pointer(time.Minute), To: text("to"),
	})
	receiver, err := client.NewReceiverForQueue(queue, &azservicebus.ReceiverOptions{
		ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete,
	})
	must(t, err)
	first := one(t, receiver).Message()
	send(t, client, queue, first)
	second := one(t, receiver).Message()
	if !reflect.DeepEqual(first, second) {
		t.Errorf("%#v became %#v", first, second)
	}
}

func TestALockThatWasNeverGivenOutCantBeRenewed(t *testing.T) {
	client, queue := withQueue(t, admin.QueueProperties{})
	send(t, client, queue, &azservicebus.Message{Body: []byte("body")})
	receiver, err := client.NewReceiverForQueue(queue, nil)
	must(t, err)
	message := one(t, receiver)
	message.LockToken = [16]byte{}
	err = receiver.RenewMessageLock(patient(t), message, nil)
	told := "status code 410 and description: The lock supplied is invalid. Either the lock expired, or the message has already been " +
		"removed from the queue"
	if err == nil || !strings.Contains(err.Error(), told) {
		t.Errorf("%v", err)
	}
}
