package peeklock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// A subscription without rules.
func unruled(t *testing.T, client *admin.Client, topic string) {
	t.Helper()
	ctx := patient(t)
	_, err := client.CreateTopic(ctx, topic, nil)
	must(t, err)
	_, err = client.CreateSubscription(ctx, topic, "all", nil)
	must(t, err)
	_, err = client.DeleteRule(ctx, topic, "all", "$Default", nil)
	must(t, err)
}

func TestSQLRulesKeepTheirParametersAndSort(t *testing.T) {
	buses := clients(t)
	onBoth(t, func(t *testing.T, client *admin.Client) {
		ctx, topic := patient(t), unique(t)
		unruled(t, client, topic)
		moment := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		filter := &admin.SQLFilter{
			Expression: "n = @int AND half = @double AND yes = @truth AND word = @text AND at <= @moment",
			// The SDK reads every whole number as an int64.
			Parameters: map[string]any{"@int": int64(5), "@double": 0.5, "@truth": true, "@text": "<a> & 'b'", "@moment": moment},
		}
		action := &admin.SQLAction{
			Expression: "SET n = n + @more; SET sys.Label = @text; REMOVE half",
			Parameters: map[string]any{"@more": int64(2), "@text": "é"},
		}
		rules := []admin.RuleProperties{{Name: "both", Filter: filter, Action: action}, {Name: "bare", Filter: &admin.TrueFilter{}}}
		for _, rule := range rules {
			options := &admin.CreateRuleOptions{Name: pointer(rule.Name), Filter: rule.Filter, Action: rule.Action}
			_, err := client.CreateRule(ctx, topic, "all", options)
			must(t, err)
			found, err := client.GetRule(ctx, topic, "all", rule.Name, nil)
			must(t, err)
			same(t, rule.Name, found.RuleProperties, rule)
			updated, err := client.UpdateRule(ctx, topic, "all", found.RuleProperties)
			must(t, err)
			same(t, "updated "+rule.Name, updated.RuleProperties, rule)
		}

		bus := buses[t.Name()[strings.LastIndex(t.Name(), "/")+1:]]
		sender, err := bus.NewSender(topic, nil)
		must(t, err)
		sent := map[string]any{"n": int64(5), "half": 0.5, "yes": true, "word": "<a> & 'b'", "at": moment}
		must(t, sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("x"), ApplicationProperties: sent}, nil))
		sent["n"] = int64(6)
		must(t, sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("y"), ApplicationProperties: sent}, nil))
		receiver, err := bus.NewReceiverForSubscription(topic, "all", &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
		must(t, err)
		var got []*azservicebus.ReceivedMessage
		for len(got) < 3 {
			some, err := receiver.ReceiveMessages(ctx, 3-len(got), nil)
			must(t, err)
			got = append(got, some...)
		}
		same(t, "bodies", string(got[0].Body)+string(got[1].Body)+string(got[2].Body), "xxy")
		same(t, "label", *got[1].Subject, "é")
		changed := map[string]any{"n": int64(7), "yes": true, "word": "<a> & 'b'", "at": moment, "RuleName": "both"}
		if at, ok := got[1].ApplicationProperties["at"].(time.Time); ok {
			got[1].ApplicationProperties["at"] = at.UTC()
		}
		same(t, "changed", got[1].ApplicationProperties, changed)
	})
}

func TestSQLThatMakesNoSenseIsRefusedWithItsPlace(t *testing.T) {
	onBoth(t, func(t *testing.T, client *admin.Client) {
		ctx, topic := patient(t), unique(t)
		unruled(t, client, topic)
		wrong := []admin.CreateRuleOptions{
			{Filter: &admin.SQLFilter{Expression: "n = "}},
			{Filter: &admin.SQLFilter{Expression: "n = @no", Parameters: map[string]any{"@yes": 1}}},
			{Filter: &admin.TrueFilter{}, Action: &admin.SQLAction{Expression: "n = 1"}},
		}
		for _, options := range wrong {
			options.Name = pointer("r")
			_, err := client.CreateRule(ctx, topic, "all", &options)
			status(t, err, 400)
			var failure *azcore.ResponseError
			if !errors.As(err, &failure) || !strings.Contains(failure.Error(), "at character") {
				t.Fatalf("no place in %v", err)
			}
		}
	})
}
