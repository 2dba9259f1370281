package peeklock

import (
	"errors"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// The SDK derives the code from the answer to the token, and does not retry.
func TestAnUnknownQueueOrTopicIsNotFound(t *testing.T) {
	for scheme, client := range clients(t) {
		t.Run(scheme, func(t *testing.T) { isNotFound(t, client) })
	}
}

func isNotFound(t *testing.T, client *azservicebus.Client) {
	ctx := patient(t)
	unknown := func(what string, err error) {
		t.Helper()
		var failure *azservicebus.Error
		if !errors.As(err, &failure) || failure.Code != azservicebus.CodeNotFound {
			t.Fatalf("%s: %v", what, err)
		}
	}
	sender, err := client.NewSender("nowhere", nil)
	must(t, err)
	unknown("sending", sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("x")}, nil))
	receiver, err := client.NewReceiverForQueue("nowhere", nil)
	must(t, err)
	_, err = receiver.ReceiveMessages(ctx, 1, nil)
	unknown("receiving", err)
	receiver, err = client.NewReceiverForSubscription("nowhere", "one", nil)
	must(t, err)
	_, err = receiver.PeekMessages(ctx, 1, nil)
	unknown("browsing", err)
	_, err = client.AcceptSessionForQueue(ctx, "nowhere", "s", nil)
	unknown("a session", err)
	_, err = client.AcceptNextSessionForQueue(ctx, "nowhere", nil)
	unknown("the next session", err)
}
