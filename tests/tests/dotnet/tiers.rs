//! Answers to the .NET client when the tier differs from that of its recorded conversations.

use peeklock_tests::recorded;

use super::super::{changes, read};

fn of_tier(tier: &str) -> String {
    format!("[namespace]\nname = \"shop\"\ntier = \"{tier}\"\n")
}

/// Replays the recorded conversation up to the first answer, with another expected answer.
fn replay_first(tier: &str, name: &str, change: impl Fn(&str) -> String, answer: &str) {
    let text = read(&format!("{name}.txt"));
    let (request, _) = text.split_once("want 1").unwrap();
    let text = format!("{}{answer}hang-up 1\nwant 1 eof\n", change(request));
    recorded::replay(&of_tier(tier), &format!("{name} on {tier}"), &text, &changes());
}

fn refused(detail: &str) -> String {
    format!(
        "want 1 response 400 application/xml; charset=utf-8\n| <Error>\n| <Code>400</Code>\n\
         | <Detail>SubCode=40000. {detail} TrackingId:$(any), SystemTracker:peeklock, Timestamp:$(any)</Detail>\n| </Error>\n"
    )
}

#[test]
fn the_namespace_has_its_name_and_tier() {
    for (tier, name) in [("premium", "Premium"), ("standard", "Standard"), ("basic", "Basic")] {
        let text = read("admin-namespace.txt")
            .replace("<MessagingSKU>Premium<", &format!("<MessagingSKU>{name}<"))
            .replace("<title type=\"text\">localhost<", "<title type=\"text\">shop<")
            .replace("<Name>localhost<", "<Name>shop<")
            .replace("<name>localhost<", "<name>shop<");
        let units = "| <MessagingUnits>1</MessagingUnits>\n";
        let text = if tier == "premium" { text } else { text.replace(units, "") };
        recorded::replay(&of_tier(tier), &format!("admin-namespace of {tier}"), &text, &changes());
    }
}

#[test]
fn topics_are_refused_on_basic() {
    let words = "A Topic cannot be created because the namespace 'shop' is using 'Basic' tier.";
    replay_first("basic", "admin-topics", str::to_owned, &refused(words));
}

#[test]
fn sessions_are_refused_on_basic() {
    let change = |text: &str| text.replace("<RequiresSession>false<", "<RequiresSession>true<");
    let words = "The property 'RequiresSession' cannot be set when creating a Queue because the namespace 'shop' is using 'Basic' tier.";
    replay_first("basic", "admin-queues", change, &refused(words));
}

#[test]
fn sizes_of_higher_tiers_are_refused() {
    for (tier, name) in [("standard", "Standard"), ("basic", "Basic")] {
        let large = |text: &str| {
            let size =
                "<MaxMessageSizeInKilobytes>2048</MaxMessageSizeInKilobytes>\n|       <EnablePartitioning>";
            text.replace("<EnablePartitioning>", size)
        };
        let words = format!(
            "The property 'MaxMessageSizeInKilobytes' cannot be set when creating a Queue because the namespace 'shop' is using '{name}' tier."
        );
        replay_first(tier, "admin-queues", large, &refused(&words));
        let huge = |text: &str| text.replace("<MaxSizeInMegabytes>1024<", "<MaxSizeInMegabytes>81920<");
        let words = "The specified value 81920 is invalid. The property MaxSizeInMegabytes, must be one of the following values: 1024;2048;3072;4096;5120.";
        replay_first(tier, "admin-queues", huge, &refused(words));
    }
}
