// Dapr's components for Service Bus against the daemon; run.sh runs them.
package frameworks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	servicebusqueues "github.com/dapr/components-contrib/bindings/azure/servicebusqueues"
	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/components-contrib/pubsub"
	"github.com/dapr/components-contrib/pubsub/azure/servicebus/queues"
	"github.com/dapr/components-contrib/pubsub/azure/servicebus/topics"
	conformance_bindings "github.com/dapr/components-contrib/tests/conformance/bindings"
	conformance_pubsub "github.com/dapr/components-contrib/tests/conformance/pubsub"
	"github.com/dapr/kit/logger"
)

// How long anything may take; on a busy machine as well.
const patience = 60 * time.Second

var (
	log = logger.NewLogger("dapr")
	// Over TLS: the port is that of the endpoint.
	connection = os.Getenv("BROKER_TLS_CONNECTION")
	// With UseDevelopmentEmulator: messages without TLS, administration over https on the same port.
	emulatorConnection = os.Getenv("BROKER_CONNECTION")
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, otherwise string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(otherwise)
		}
	}
}

func administrator(t *testing.T) *admin.Client {
	t.Helper()
	client, err := admin.NewClientFromConnectionString(connection, nil)
	must(t, err)
	return client
}

// The component for topics with these properties, closed at the end of the test.
func component(t *testing.T, properties map[string]string) pubsub.PubSub {
	t.Helper()
	properties["consumerID"] = "application"
	if properties["connectionString"] == "" {
		properties["connectionString"] = connection
	}
	component := topics.NewAzureServiceBusTopics(log)
	must(t, component.Init(t.Context(), pubsub.Metadata{Base: metadata.Base{Properties: properties}}))
	t.Cleanup(func() { _ = component.Close() })
	return component
}

// The bodies that came, per session.
type received struct {
	sync.Mutex
	bodies map[string][]string
}

func (r *received) add(session, body string) {
	r.Lock()
	defer r.Unlock()
	if r.bodies == nil {
		r.bodies = map[string][]string{}
	}
	r.bodies[session] = append(r.bodies[session], body)
}

func (r *received) count() int {
	r.Lock()
	defer r.Unlock()
	count := 0
	for _, bodies := range r.bodies {
		count += len(bodies)
	}
	return count
}

func (r *received) handler(_ context.Context, message *pubsub.NewMessage) error {
	r.add(message.Metadata["metadata.SessionId"], string(message.Data))
	return nil
}

func (r *received) bulkHandler(_ context.Context, message *pubsub.BulkMessage) ([]pubsub.BulkSubscribeResponseEntry, error) {
	answers := []pubsub.BulkSubscribeResponseEntry{}
	for _, entry := range message.Entries {
		r.add(entry.Metadata["metadata.SessionId"], string(entry.Event))
		answers = append(answers, pubsub.BulkSubscribeResponseEntry{EntryId: entry.EntryId})
	}
	return answers, nil
}

// Dapr's own suites, with the properties that Dapr's own configurations of them have.
func TestConformanceOfTopics(t *testing.T) {
	conforms(t, "azure.servicebus.topics", topics.NewAzureServiceBusTopics(log), map[string]string{"consumerID": "testConsumer"})
}

func TestConformanceOfQueues(t *testing.T) {
	conforms(t, "azure.servicebus.queues", queues.NewAzureServiceBusQueues(log), map[string]string{})
}

func conforms(t *testing.T, name string, component pubsub.PubSub, properties map[string]string) {
	properties["connectionString"] = connection
	config, err := conformance_pubsub.NewTestConfig(name, []string{"bulkpublish", "bulksubscribe"}, map[string]any{
		"pubsubName": "azure-servicebus", "checkInOrderProcessing": false, "testTopicName": name,
		"testTopicForBulkSub": name + "-bulk", "testMultiTopic1Name": name + "-multi1", "testMultiTopic2Name": name + "-multi2",
	})
	must(t, err)
	conformance_pubsub.ConformanceTests(t, properties, component, config)
}

func TestConformanceOfBinding(t *testing.T) {
	config, err := conformance_bindings.NewTestConfig("azure.servicebusqueues", []string{"create", "operations", "read"}, map[string]any{})
	must(t, err)
	properties := map[string]string{"connectionString": connection, "queueName": "conf-tests", "ttlInSeconds": "60"}
	binding := servicebusqueues.NewAzureServiceBusQueues(log)
	conformance_bindings.ConformanceTests(t, properties, binding, binding, config)
}

var withSessions = map[string]string{"requireSessions": "true", "sessionIdleTimeoutInSec": "2", "maxConcurrentSessions": "3"}

func TestMoreSessionsThanAreHandledAtOnce(t *testing.T) {
	component, received := component(t, map[string]string{}), received{}
	topic := t.Name()
	must(t, component.Subscribe(t.Context(), pubsub.SubscribeRequest{Topic: topic, Metadata: withSessions}, received.handler))
	bodies := []string{"0", "1", "2", "3", "4", "5", "6", "7"}
	for _, body := range bodies {
		for session := range 8 {
			must(t, component.Publish(t.Context(), &pubsub.PublishRequest{
				Topic: topic, Data: []byte(body), Metadata: map[string]string{"SessionId": fmt.Sprint(session)},
			}))
		}
	}
	until(t, "not all came", func() bool { return received.count() >= 64 })
	for session, got := range received.bodies {
		if !slices.Equal(got, bodies) {
			t.Errorf("session %s: %v", session, got)
		}
	}
	if err := component.Subscribe(t.Context(), pubsub.SubscribeRequest{Topic: topic}, received.handler); err == nil {
		t.Error("the subscription requires sessions, which Dapr does not find out")
	}
}

func TestBulkInSessions(t *testing.T) {
	component, received := component(t, map[string]string{}), received{}
	topic := t.Name()
	must(t, component.(pubsub.BulkSubscriber).BulkSubscribe(t.Context(), pubsub.SubscribeRequest{
		Topic: topic, Metadata: withSessions, BulkSubscribeConfig: pubsub.BulkSubscribeConfig{MaxMessagesCount: 10},
	}, received.bulkHandler))
	bodies := []string{}
	for i := range 20 {
		bodies = append(bodies, fmt.Sprint(i))
	}
	for session := range 4 {
		request := pubsub.BulkPublishRequest{Topic: topic}
		for _, body := range bodies {
			request.Entries = append(request.Entries, pubsub.BulkMessageEntry{
				EntryId: body, Event: []byte(body), Metadata: map[string]string{"SessionId": fmt.Sprint(session)},
			})
		}
		_, err := component.(pubsub.BulkPublisher).BulkPublish(t.Context(), &request)
		must(t, err)
	}
	until(t, "not all came", func() bool { return received.count() >= 80 })
	for session, got := range received.bodies {
		if !slices.Equal(got, bodies) {
			t.Errorf("session %s: %v", session, got)
		}
	}
}

func TestFailedMessagesAreDeadLettered(t *testing.T) {
	component := component(t, map[string]string{"maxDeliveryCount": "3", "lockDurationInSec": "30",
		"defaultMessageTimeToLiveInSec": "3600", "autoDeleteOnIdleInSec": "600"})
	topic := t.Name()
	must(t, component.Subscribe(t.Context(), pubsub.SubscribeRequest{Topic: topic}, func(context.Context, *pubsub.NewMessage) error {
		return errors.New("as it should")
	}))
	subscription, err := administrator(t).GetSubscription(t.Context(), topic, "application", nil)
	must(t, err)
	if *subscription.MaxDeliveryCount != 3 || *subscription.LockDuration != "PT30S" ||
		*subscription.DefaultMessageTimeToLive != "PT1H" || *subscription.AutoDeleteOnIdle != "PT10M" {
		t.Errorf("%+v", subscription.SubscriptionProperties)
	}
	must(t, component.Publish(t.Context(), &pubsub.PublishRequest{Topic: topic, Data: []byte("bad"), Metadata: map[string]string{"color": "red"}}))
	client, err := azservicebus.NewClientFromConnectionString(connection, nil)
	must(t, err)
	defer client.Close(context.Background())
	receiver, err := client.NewReceiverForSubscription(topic, "application", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	must(t, err)
	messages, err := receiver.ReceiveMessages(t.Context(), 1, nil)
	must(t, err)
	if *messages[0].DeadLetterReason != "MaxDeliveryCountExceeded" || messages[0].ApplicationProperties["color"] != "red" {
		t.Errorf("%+v", messages[0])
	}
}

// The emulator's connection string too: Dapr's administration client uses https on the port of the endpoint.
func TestConnectionStrings(t *testing.T) {
	for _, connection := range []string{connection, emulatorConnection} {
		for _, disabled := range []string{"false", "true"} {
			component, received := component(t, map[string]string{"connectionString": connection, "disableEntityManagement": disabled}), received{}
			ctx, cancel := context.WithCancel(t.Context())
			must(t, component.Subscribe(ctx, pubsub.SubscribeRequest{Topic: t.Name()}, received.handler))
			must(t, component.Publish(ctx, &pubsub.PublishRequest{Topic: t.Name(), Data: []byte("x")}))
			until(t, "no message came", func() bool { return received.count() > 0 })
			cancel()
		}
	}
}

// A daemon on this port with the data of this directory.
func daemon(t *testing.T, directory, address string) (string, func()) {
	t.Helper()
	file := filepath.Join(directory, "ready.json")
	_ = os.Remove(file)
	daemon := exec.Command(os.Getenv("PEEKLOCK_BIN"), "serve", "--amqp", address, "--data-dir", filepath.Join(directory, "data"),
		"--ready-file", file, "--log-level", "error", "--queue", "news")
	daemon.Stderr = os.Stderr
	must(t, daemon.Start())
	var ready struct {
		AMQP       string `json:"amqp"`
		Connection string `json:"connection_string"`
	}
	until(t, "the daemon was not ready", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(text, &ready) == nil
	})
	return ready.AMQP + " " + ready.Connection, func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	}
}

// A killed broker: what was sent before and after is received, by the same component.
func TestBrokerIsKilled(t *testing.T) {
	directory := t.TempDir()
	ready, kill := daemon(t, directory, "127.0.0.1:0")
	var address, connection string
	_, err := fmt.Sscan(ready, &address, &connection)
	must(t, err)
	component, received := queues.NewAzureServiceBusQueues(log), received{}
	must(t, component.Init(t.Context(), pubsub.Metadata{Base: metadata.Base{Properties: map[string]string{
		"connectionString": connection, "disableEntityManagement": "true", "minConnectionRecoveryInSec": "1", "maxConnectionRecoveryInSec": "2",
	}}}))
	defer component.Close()
	must(t, component.Subscribe(t.Context(), pubsub.SubscribeRequest{Topic: "news"}, received.handler))
	for round := range 3 {
		for i := range 10 {
			must(t, component.Publish(t.Context(), &pubsub.PublishRequest{Topic: "news", Data: []byte(fmt.Sprint(round, i))}))
		}
		kill()
		_, kill = daemon(t, directory, address)
	}
	defer kill()
	until(t, "not all came", func() bool {
		distinct := map[string]bool{}
		received.Lock()
		defer received.Unlock()
		for _, body := range received.bodies[""] {
			distinct[body] = true
		}
		return len(distinct) == 30
	})
}
