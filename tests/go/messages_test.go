package peeklock

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

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
