//! Refusals of the lower tiers of Service Bus, with its wording.

use peeklock_engine::Tier;

use super::Broker;
use crate::Limits;

async fn broker(tier: Tier) -> Broker {
    let message_time_to_live_max_ms = tier.time_to_live_ms_max();
    Broker::with_limits(Limits { tier, message_time_to_live_max_ms, ..Limits::default() }).await
}

fn queue(properties: &[(&str, &str)]) -> String {
    let inner: String = properties.iter().map(|(name, value)| format!("<{name}>{value}</{name}>")).collect();
    format!("<QueueDescription>{inner}</QueueDescription>")
}

/// MassTransit 657, PoshBot 93, azure-docs 17743 and 104074.
#[tokio::test]
async fn a_property_of_a_higher_tier_is_refused_and_its_default_is_taken() {
    const LARGE: (&str, &str, &str) = ("MaxMessageSizeInKilobytes", "1024", "");
    let above_basic = [
        ("AutoDeleteOnIdle", "PT5M", "P10675199DT2H48M5.4775807S"),
        ("RequiresSession", "true", "false"),
        ("RequiresDuplicateDetection", "true", "false"),
        ("ForwardTo", "sb://here/other", ""),
        ("ForwardDeadLetteredMessagesTo", "sb://here/other", ""),
        LARGE,
    ];
    for (tier, properties) in [(Tier::Basic, &above_basic[..]), (Tier::Standard, &[LARGE])] {
        let broker = broker(tier).await;
        assert_eq!(broker.create("/other", &queue(&[])).await.status, 201);
        for (property, asked, default) in properties {
            let name = tier.name();
            let text = format!(
                "SubCode=40000. The property '{property}' cannot be set when creating a Queue because the namespace 'localhost' is using '{name}' tier."
            );
            broker.create("/q", &queue(&[(property, asked)])).await.refused(400, &text);
            assert_eq!(broker.create("/q", &queue(&[(property, default)])).await.status, 201, "{property}");
            let text = format!(
                "The property '{property}' cannot be changed because the namespace 'localhost' is using '{name}' tier."
            );
            let changed = broker.update("/q", &queue(&[(property, asked)])).await;
            if !matches!(*property, "RequiresSession" | "RequiresDuplicateDetection") {
                changed.refused(400, &text);
            }
            assert_eq!(changed.status, 400);
            assert_eq!(broker.delete("/q").await.status, 200);
        }
    }
}

/// azure-cli 31702, azure-sdk-for-net 3855.
#[tokio::test]
async fn below_premium_entities_have_one_to_five_gigabytes_and_partitioned_ones_sixteen_times_that() {
    for tier in [Tier::Basic, Tier::Standard] {
        let broker = broker(tier).await;
        for bad in ["1", "1000", "6144", "16384", "81920"] {
            let text = format!(
                "The specified value {bad} is invalid. The property MaxSizeInMegabytes, must be one of the following values: 1024;2048;3072;4096;5120."
            );
            broker.create("/q", &queue(&[("MaxSizeInMegabytes", bad)])).await.refused(400, &text);
        }
        let created = broker.create("/q", &queue(&[])).await;
        assert_eq!(created.text_of("MaxSizeInMegabytes").as_deref(), Some("1024"));
        assert_eq!(created.text_of("MaxMessageSizeInKilobytes").as_deref(), Some("256"));
        let partitioned = [("EnablePartitioning", "true"), ("MaxSizeInMegabytes", "2048")];
        let created = broker.create("/p", &queue(&partitioned)).await;
        assert_eq!(created.text_of("MaxSizeInMegabytes").as_deref(), Some("32768"));
        for (asked, size) in [("32768", "32768"), ("3072", "49152")] {
            let updated = broker.update("/p", &queue(&[("MaxSizeInMegabytes", asked)])).await;
            assert_eq!(updated.text_of("MaxSizeInMegabytes").as_deref(), Some(size));
        }
    }
}

/// azure-sdk-for-go, `testCreateQueue`: a client may write back what it has read.
#[tokio::test]
async fn below_premium_the_message_size_is_shown_and_can_be_written_back_but_not_chosen() {
    let size = |kilobytes: &str| queue(&[("MaxMessageSizeInKilobytes", kilobytes)]);
    for tier in [Tier::Basic, Tier::Standard] {
        let broker = broker(tier).await;
        broker.create("/q", &size("256")).await.refused(400, "'MaxMessageSizeInKilobytes' cannot be set");
        assert_eq!(broker.create("/q", &queue(&[])).await.status, 201);
        let updated = broker.update("/q", &size("256")).await;
        assert_eq!(updated.text_of("MaxMessageSizeInKilobytes").as_deref(), Some("256"));
        broker.update("/q", &size("255")).await.refused(400, "'MaxMessageSizeInKilobytes' cannot be changed");
    }
}

/// azure-service-bus 306; azure-docs 46129 and 111485.
#[tokio::test]
async fn basic_has_no_topics_and_messages_live_two_weeks() {
    let broker = broker(Tier::Basic).await;
    let text = "The property value for 'DefaultMessageTimeToLive' must be between 00:00:01 and 14.00:00:00 when the namespace \
                'localhost' is using 'Basic' tier.";
    broker.create("/q", &queue(&[("DefaultMessageTimeToLive", "P15D")])).await.refused(400, text);
    let unlimited = queue(&[("DefaultMessageTimeToLive", "P10675199DT2H48M5.4775807S")]);
    let created = broker.create("/q", &unlimited).await;
    assert_eq!(created.text_of("DefaultMessageTimeToLive").as_deref(), Some("P14D"));
    broker.create("/t", "<TopicDescription/>").await.refused(400, "'localhost' is using 'Basic' tier");
    broker.get("/t").await.is_missing();
}

#[tokio::test]
async fn the_namespace_shows_its_tier_and_units_on_premium_only() {
    for (tier, units) in [(Tier::Basic, None), (Tier::Standard, None), (Tier::Premium, Some("1"))] {
        let info = broker(tier).await.get("/$namespaceinfo").await;
        assert_eq!(info.text_of("MessagingSKU").as_deref(), Some(tier.name()));
        assert_eq!(info.text_of("MessagingUnits").as_deref(), units);
    }
}
