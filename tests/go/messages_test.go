package peeklock

import (
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
