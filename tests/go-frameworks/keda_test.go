// KEDA's scaler azure-servicebus against the daemon; run.sh runs it.
package frameworks

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

var (
	connection         = os.Getenv("BROKER_TLS_CONNECTION")
	emulatorConnection = os.Getenv("BROKER_CONNECTION")
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What the scaler reports with this trigger: the metric's value, and whether it is active.
func scale(t *testing.T, connection string, trigger map[string]string) (int64, bool, error) {
	t.Helper()
	trigger["connectionFromEnv"] = "SERVICEBUS"
	scaler, err := scalers.NewAzureServiceBusScaler(&scalersconfig.ScalerConfig{
		TriggerMetadata: trigger, ResolvedEnv: map[string]string{"SERVICEBUS": connection}, GlobalHTTPTimeout: 10 * time.Second,
	})
	must(t, err)
	defer scaler.Close(context.Background())
	values, active, err := scaler.GetMetricsAndActivity(t.Context(), scaler.GetMetricSpecForScaling(t.Context())[0].External.Metric.Name)
	if err != nil {
		return 0, false, err
	}
	return values[0].Value.Value(), active, nil
}

func TestScaler(t *testing.T) {
	administrator, err := admin.NewClientFromConnectionString(connection, nil)
	must(t, err)
	client, err := azservicebus.NewClientFromConnectionString(emulatorConnection, nil)
	must(t, err)
	defer client.Close(context.Background())
	send := func(entity string, count int, at *time.Time) {
		sender, err := client.NewSender(entity, nil)
		must(t, err)
		for range count {
			must(t, sender.SendMessage(t.Context(), &azservicebus.Message{ScheduledEnqueueTime: at}, nil))
		}
	}
	// More queues than are on a page; scheduled messages don't count.
	later := time.Now().Add(time.Hour)
	for i := range 150 {
		name := fmt.Sprintf("keda-%d", i)
		_, err := administrator.CreateQueue(t.Context(), name, nil)
		must(t, err)
		if i%50 == 1 {
			send(name, i/50+1, nil)
			send(name, 2, &later)
		}
	}
	_, err = administrator.CreateTopic(t.Context(), "keda-topic", nil)
	must(t, err)
	for _, name := range []string{"s1", "s2", "other"} {
		_, err = administrator.CreateSubscription(t.Context(), "keda-topic", name, nil)
		must(t, err)
	}
	send("keda-topic", 4, nil)
	for _, connection := range []string{connection, emulatorConnection} {
		check := func(value int64, active bool, trigger map[string]string) {
			t.Helper()
			gotValue, gotActive, err := scale(t, connection, trigger)
			if err != nil || gotValue != value || gotActive != active {
				t.Errorf("%v: %d %v %v rather than %d %v", trigger, gotValue, gotActive, err, value, active)
			}
		}
		check(1, true, map[string]string{"queueName": "keda-1"})
		check(0, false, map[string]string{"queueName": "keda-2"})
		check(3, false, map[string]string{"queueName": "keda-101", "activationMessageCount": "3", "messageCount": "20"})
		check(6, true, map[string]string{"queueName": "keda-[0-9]+", "useRegex": "true"})
		check(3, true, map[string]string{"queueName": "keda-[0-9]+", "useRegex": "true", "operation": "max"})
		check(2, true, map[string]string{"queueName": "keda-(1|51|101)", "useRegex": "true", "operation": "avg"})
		check(4, true, map[string]string{"topicName": "keda-topic", "subscriptionName": "s1"})
		check(8, true, map[string]string{"topicName": "keda-topic", "subscriptionName": "s[0-9]", "useRegex": "true"})
	}
	if _, _, err := scale(t, connection, map[string]string{"queueName": "missing"}); err == nil || err.Error() != "queue missing doesn't exist" {
		t.Error(err)
	}
}
