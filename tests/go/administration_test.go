package peeklock

import (
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Entities enough for three pages of a hundred.
const many = 250

// Runs a test once over https and once over http.
func onBoth(t *testing.T, test func(t *testing.T, client *admin.Client)) {
	t.Helper()
	for scheme, client := range administrators(t) {
		t.Run(scheme, func(t *testing.T) { test(t, client) })
	}
}

// Every property of a queue, none at its default; name is of an entity to forward to.
func everyQueueProperty(target string) admin.QueueProperties {
	return admin.QueueProperties{
		LockDuration:                        pointer("PT45S"),
		MaxSizeInMegabytes:                  pointer(int32(2048)),
		RequiresDuplicateDetection:          pointer(true),
		RequiresSession:                     pointer(true),
		DefaultMessageTimeToLive:            pointer("P1DT2H"),
		DeadLetteringOnMessageExpiration:    pointer(true),
		DuplicateDetectionHistoryTimeWindow: pointer("PT7M"),
		MaxDeliveryCount:                    pointer(int32(7)),
		EnableBatchedOperations:             pointer(false),
		Status:                              pointer(admin.EntityStatusSendDisabled),
		// What forwards is created without a limit of idleness (azure-sdk-for-js 14539).
		AutoDeleteOnIdle:              pointer("P10675199DT2H48M5.4775807S"),
		EnablePartitioning:            pointer(false),
		ForwardDeadLetteredMessagesTo: pointer(target),
		UserMetadata:                  pointer("some <words> & more"),
		AuthorizationRules:            []admin.AuthorizationRule{rule("listener", admin.AccessRightListen)},
		MaxMessageSizeInKilobytes:     pointer(int64(2048)),
	}
}

func rule(name string, rights ...admin.AccessRight) admin.AuthorizationRule {
	return admin.AuthorizationRule{
		AccessRights: rights,
		KeyName:      pointer(name),
		PrimaryKey:   pointer(strings.Repeat("A", 43) + "="),
		SecondaryKey: pointer(strings.Repeat("B", 43) + "="),
	}
}

// Takes out what only the broker knows, and what it writes its own way.
func comparable(t *testing.T, properties admin.QueueProperties, target string) admin.QueueProperties {
	t.Helper()
	for index := range properties.AuthorizationRules {
		properties.AuthorizationRules[index].CreatedTime = nil
		properties.AuthorizationRules[index].ModifiedTime = nil
	}
	if forward := properties.ForwardDeadLetteredMessagesTo; target != "" && forward != nil {
		if !strings.HasPrefix(*forward, "sb://") || !strings.HasSuffix(*forward, "/"+target) {
			t.Fatalf("forwards to %q", *forward)
		}
		properties.ForwardDeadLetteredMessagesTo = pointer(target)
	}
	return properties
}

func same(t *testing.T, what string, got, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Fatalf("%s:\n got    %+v\n wanted %+v", what, show(got), show(wanted))
	}
}

// Pointers followed.
func show(value any) string {
	var text strings.Builder
	fields := reflect.ValueOf(value)
	if fields.Kind() != reflect.Struct {
		return fmt.Sprintf("%+v", value)
	}
	for index := range fields.NumField() {
		field := fields.Field(index)
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			field = field.Elem()
		}
		fmt.Fprintf(&text, "%s=%v ", fields.Type().Field(index).Name, field)
	}
	return text.String()
}

func TestQueueKeepsEveryProperty(t *testing.T) {
	onBoth(t, func(t *testing.T, client *admin.Client) {
		ctx, name, target := patient(t), unique(t), unique(t)+"-target"
		_, err := client.CreateQueue(ctx, target, nil)
		must(t, err)
		wanted := everyQueueProperty(target)
		created, err := client.CreateQueue(ctx, name, &admin.CreateQueueOptions{Properties: pointer(everyQueueProperty(target))})
		must(t, err)
		same(t, "created", comparable(t, created.QueueProperties, target), wanted)
		found, err := client.GetQueue(ctx, name, nil)
		must(t, err)
		same(t, "found", comparable(t, found.QueueProperties, target), wanted)

		changed := found.QueueProperties
		changed.LockDuration, changed.MaxDeliveryCount, changed.UserMetadata = pointer("PT1M30S"), pointer(int32(3)), pointer("other")
		updated, err := client.UpdateQueue(ctx, name, changed, nil)
		must(t, err)
		same(t, "updated", comparable(t, updated.QueueProperties, target), comparable(t, changed, target))

		_, err = client.DeleteQueue(ctx, name, nil)
		must(t, err)
		gone, err := client.GetQueue(ctx, name, nil)
		must(t, err)
		if gone != nil {
			t.Fatalf("still there: %+v", gone)
		}
	})
}

// As `TestAdminClient_Queue_Forwarding` of the SDK against the service.
func TestTargetsOfForwardingKeepTheirScheme(t *testing.T) {
	onBoth(t, func(t *testing.T, client *admin.Client) {
		ctx, name, target := patient(t), unique(t), unique(t)+"-target"
		_, err := client.CreateQueue(ctx, target, nil)
		must(t, err)
		named, err := client.CreateQueue(ctx, name+"-named", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{ForwardTo: pointer(target)}})
		must(t, err)
		host, found := strings.CutPrefix(*named.ForwardTo, "sb://")
		if !found {
			t.Fatalf("forwards to %q", *named.ForwardTo)
		}
		given := "https://" + host
		wanted := admin.QueueProperties{ForwardTo: &given, ForwardDeadLetteredMessagesTo: &given}
		created, err := client.CreateQueue(ctx, name, &admin.CreateQueueOptions{Properties: &wanted})
		must(t, err)
		queue, err := client.GetQueue(ctx, name, nil)
		must(t, err)
		for _, shown := range []admin.QueueProperties{created.QueueProperties, queue.QueueProperties} {
			same(t, "ForwardTo", *shown.ForwardTo, given)
			same(t, "ForwardDeadLetteredMessagesTo", *shown.ForwardDeadLetteredMessagesTo, given)
		}
	})
}

func TestTopicSubscriptionAndRuleKeepEveryProperty(t *testing.T) {
	onBoth(t, func(t *testing.T, client *admin.Client) {
		ctx, name := patient(t), unique(t)
		topic := admin.TopicProperties{
			MaxSizeInMegabytes:                  pointer(int32(4096)),
			RequiresDuplicateDetection:          pointer(true),
			DefaultMessageTimeToLive:            pointer("PT3H"),
			DuplicateDetectionHistoryTimeWindow: pointer("PT2M"),
			EnableBatchedOperations:             pointer(false),
			Status:                              pointer(admin.EntityStatusActive),
			AutoDeleteOnIdle:                    pointer("P7D"),
			EnablePartitioning:                  pointer(false),
			SupportOrdering:                     pointer(false),
			UserMetadata:                        pointer("topic"),
			AuthorizationRules:                  []admin.AuthorizationRule{rule("sender", admin.AccessRightSend)},
			MaxMessageSizeInKilobytes:           pointer(int64(1024)),
		}
		created, err := client.CreateTopic(ctx, name, &admin.CreateTopicOptions{Properties: &topic})
		must(t, err)
		created.AuthorizationRules[0].CreatedTime, created.AuthorizationRules[0].ModifiedTime = nil, nil
		same(t, "topic", created.TopicProperties, topic)

		wanted := admin.SubscriptionProperties{
			LockDuration:                                    pointer("PT20S"),
			RequiresSession:                                 pointer(true),
			DefaultMessageTimeToLive:                        pointer("PT2H"),
			DeadLetteringOnMessageExpiration:                pointer(true),
			EnableDeadLetteringOnFilterEvaluationExceptions: pointer(false),
			MaxDeliveryCount:                                pointer(int32(4)),
			// The SDK reads the status of a subscription, but never sends it.
			Status:                  pointer(admin.EntityStatusActive),
			AutoDeleteOnIdle:        pointer("PT6M"),
			EnableBatchedOperations: pointer(false),
			UserMetadata:            pointer("subscription"),
		}
		given := wanted
		given.DefaultRule = &admin.RuleProperties{Name: "first", Filter: &admin.CorrelationFilter{Subject: pointer("red")}}
		subscription, err := client.CreateSubscription(ctx, name, "all", &admin.CreateSubscriptionOptions{Properties: &given})
		must(t, err)
		subscription.DefaultRule = nil
		same(t, "subscription", subscription.SubscriptionProperties, wanted)
		found, err := client.GetSubscription(ctx, name, "all", nil)
		must(t, err)
		found.DefaultRule = nil
		found.LockDuration = pointer("PT30S")
		changed, err := client.UpdateSubscription(ctx, name, "all", found.SubscriptionProperties, nil)
		must(t, err)
		changed.DefaultRule = nil
		wanted.LockDuration = pointer("PT30S")
		same(t, "changed subscription", changed.SubscriptionProperties, wanted)

		filter := &admin.CorrelationFilter{
			ContentType: pointer("text/plain"), CorrelationID: pointer("c"), MessageID: pointer("m"), ReplyTo: pointer("r"),
			ReplyToSessionID: pointer("rs"), SessionID: pointer("s"), Subject: pointer("l"), To: pointer("t"),
			ApplicationProperties: map[string]any{"text": "<a>", "number": 1.5, "flag": true},
		}
		_, err = client.CreateRule(ctx, name, "all", &admin.CreateRuleOptions{Name: pointer("second"), Filter: filter})
		must(t, err)
		second, err := client.GetRule(ctx, name, "all", "second", nil)
		must(t, err)
		same(t, "filter", second.Filter, filter)
		_, err = client.UpdateRule(ctx, name, "all", admin.RuleProperties{Name: "second", Filter: &admin.FalseFilter{}})
		must(t, err)
		var names []string
		for pager := client.NewListRulesPager(name, "all", nil); pager.More(); {
			page, err := pager.NextPage(ctx)
			must(t, err)
			for _, rule := range page.Rules {
				names = append(names, rule.Name)
			}
		}
		sort.Strings(names)
		same(t, "rules", names, []string{"first", "second"})
		_, err = client.DeleteRule(ctx, name, "all", "second", nil)
		must(t, err)
		if gone, err := client.GetRule(ctx, name, "all", "second", nil); err != nil || gone != nil {
			t.Fatalf("still there: %+v, %v", gone, err)
		}
		_, err = client.DeleteSubscription(ctx, name, "all", nil)
		must(t, err)
		_, err = client.DeleteTopic(ctx, name, nil)
		must(t, err)
	})
}

func TestListingVisitsEveryQueueOnce(t *testing.T) {
	client := administrators(t)["https"]
	ctx, prefix := patient(t), unique(t)
	for number := range many {
		_, err := client.CreateQueue(ctx, fmt.Sprintf("%s-%03d", prefix, number), nil)
		must(t, err)
	}
	for scheme, client := range administrators(t) {
		seen := map[string]int{}
		for pager := client.NewListQueuesPager(nil); pager.More(); {
			page, err := pager.NextPage(ctx)
			must(t, err)
			for _, queue := range page.Queues {
				seen[queue.QueueName]++
			}
		}
		for number := range many {
			if name := fmt.Sprintf("%s-%03d", prefix, number); seen[name] != 1 {
				t.Fatalf("%s lists %s %d times", scheme, name, seen[name])
			}
		}
	}
}

func TestMistakesHaveTheirStatus(t *testing.T) {
	onBoth(t, func(t *testing.T, client *admin.Client) {
		ctx, name := patient(t), unique(t)
		_, err := client.CreateQueue(ctx, name, nil)
		must(t, err)
		_, err = client.CreateQueue(ctx, name, nil)
		status(t, err, 409)
		_, err = client.DeleteQueue(ctx, name+"-missing", nil)
		status(t, err, 404)
		_, err = client.UpdateQueue(ctx, name+"-missing", admin.QueueProperties{}, nil)
		status(t, err, 404)
		_, err = client.CreateQueue(ctx, name+"-bad", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{LockDuration: pointer("PT10M")}})
		status(t, err, 400)
		_, err = client.UpdateQueue(ctx, name, admin.QueueProperties{RequiresSession: pointer(true)}, nil)
		status(t, err, 400)
	})
}

func status(t *testing.T, err error, wanted int) {
	t.Helper()
	var failure *azcore.ResponseError
	if !errors.As(err, &failure) || failure.StatusCode != wanted {
		t.Fatalf("wanted status %d, got %v", wanted, err)
	}
}

func TestCreatedEntitiesAcceptMessagesAndCountThem(t *testing.T) {
	buses := clients(t)
	onBoth(t, func(t *testing.T, client *admin.Client) {
		ctx, name := patient(t), unique(t)
		_, err := client.CreateQueue(ctx, name, nil)
		must(t, err)
		bus := buses[t.Name()[strings.LastIndex(t.Name(), "/")+1:]]
		sender, err := bus.NewSender(name, nil)
		must(t, err)
		for number := range 3 {
			must(t, sender.SendMessage(ctx, &azservicebus.Message{Body: fmt.Appendf(nil, "%d", number)}, nil))
		}
		receiver, err := bus.NewReceiverForQueue(name, nil)
		must(t, err)
		received, err := receiver.ReceiveMessages(ctx, 1, nil)
		must(t, err)
		same(t, "body", string(received[0].Body), "0")
		must(t, receiver.DeadLetterMessage(ctx, received[0], nil))
		found, err := client.GetQueueRuntimeProperties(ctx, name, nil)
		must(t, err)
		counts := []int64{found.TotalMessageCount, int64(found.ActiveMessageCount), int64(found.DeadLetterMessageCount)}
		same(t, "counts", counts, []int64{3, 2, 1})
		if found.SizeInBytes == 0 || found.CreatedAt.IsZero() || found.AccessedAt.Before(found.CreatedAt) {
			t.Fatalf("%+v", found)
		}
	})
}

func TestNamespaceDescribesItself(t *testing.T) {
	onBoth(t, func(t *testing.T, client *admin.Client) {
		found, err := client.GetNamespaceProperties(patient(t), nil)
		must(t, err)
		if found.Name == "" || found.SKU == "" || found.CreatedTime.IsZero() {
			t.Fatalf("%+v", found)
		}
	})
}
