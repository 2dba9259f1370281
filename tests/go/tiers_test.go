package peeklock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func TestTheTierOfTheNamespaceLimitsEntities(t *testing.T) {
	for _, tier := range []string{"Premium", "Standard", "Basic"} {
		t.Run(tier, func(t *testing.T) {
			client := ownDaemon(t, fmt.Sprintf("[namespace]\nname = \"shop\"\ntier = %q\n", strings.ToLower(tier)))
			found, err := client.GetNamespaceProperties(patient(t), nil)
			must(t, err)
			if found.Name != "shop" || found.SKU != tier || (found.MessagingUnits != nil) != (tier == "Premium") {
				t.Fatalf("%+v", found)
			}
			queue, err := client.CreateQueue(patient(t), "q", nil)
			must(t, err)
			size := map[string]int32{"Premium": 81920, "Standard": 1024, "Basic": 1024}[tier]
			if *queue.MaxSizeInMegabytes != size {
				t.Fatalf("%d MB", *queue.MaxSizeInMegabytes)
			}
			// As azservicebus' own live test `testCreateQueue`: shown, and written back in an update.
			kilobytes := map[string]int64{"Premium": 1024, "Standard": 256, "Basic": 256}[tier]
			if *queue.MaxMessageSizeInKilobytes != kilobytes {
				t.Fatalf("%d KB", *queue.MaxMessageSizeInKilobytes)
			}
			updated, err := client.UpdateQueue(patient(t), "q", queue.QueueProperties, nil)
			must(t, err)
			if *updated.MaxMessageSizeInKilobytes != kilobytes {
				t.Fatalf("%d KB after an update", *updated.MaxMessageSizeInKilobytes)
			}
			refuse := func(isRefused bool, err error) {
				t.Helper()
				if isRefused {
					status(t, err, 400)
				} else {
					must(t, err)
				}
			}
			large := &admin.CreateQueueOptions{Properties: &admin.QueueProperties{MaxMessageSizeInKilobytes: pointer(int64(2048))}}
			_, err = client.CreateQueue(patient(t), "large", large)
			refuse(tier != "Premium", err)
			sessions := &admin.CreateQueueOptions{Properties: &admin.QueueProperties{RequiresSession: pointer(true)}}
			_, err = client.CreateQueue(patient(t), "sessions", sessions)
			refuse(tier == "Basic", err)
			_, err = client.CreateTopic(patient(t), "topic", nil)
			refuse(tier == "Basic", err)
		})
	}
}
