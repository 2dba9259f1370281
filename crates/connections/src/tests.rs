use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::*;

const SOON: Duration = Duration::from_secs(60);

fn about(container_id: &str) -> About {
    About { container_id: container_id.into(), ..About::default() }
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.about.container_id).collect()
}

#[test]
fn connections_are_listed_in_order_until_they_end() {
    let register = Register::new(7);
    let [first, second, third] = ["a", "b", "c"].map(|name| register.enter(about(name)));
    assert_eq!(names(&register.after(None, 2)), ["a", "b"]);
    drop(second);
    assert_eq!(names(&register.after(Some(first.id()), 9)), ["c"]);
    assert!(register.find(third.id()).is_some());
    drop((first, third));
    assert_eq!(register.count(), 0);
}

#[test]
fn a_connection_whose_task_panics_is_off_the_register() {
    let register = Register::default();
    let presence = register.enter(about("a"));
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _presence = presence;
        panic!("for the test");
    }));
    assert!(panicked.is_err());
    assert_eq!(register.count(), 0);
}

#[test]
fn an_id_of_another_run_names_no_connection() {
    let presence = Register::new(0xab).enter(about("a"));
    assert_eq!(presence.id().to_string(), "ab-1");
    let id: ConnectionId = "ab-1".parse().unwrap();
    assert_eq!(id, presence.id());
    let later = Register::new(0xac);
    let _present = later.enter(about("b"));
    assert!(later.find(id).is_none());
    for text in ["", "1", "ab-", "-1", "ab-1-1", "AB-1", "ab-01", "ab-+1", "zz-1"] {
        assert!(text.parse::<ConnectionId>().is_err(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_answers_in_its_own_turn() {
    let register = Register::default();
    let mut presence = register.enter(about("a"));
    let entry = register.find(presence.id()).unwrap();
    let answering = tokio::spawn(async move {
        std::future::poll_fn(|context| presence.poll_request(context)).await;
        let Some(Request::Look(look, answer)) = presence.next_request() else { panic!("no look") };
        assert_eq!(&*look.needle, "q");
        answer.send(Figures { link_count: 3, ..Figures::default() }).unwrap();
        assert!(presence.next_request().is_none());
        std::future::poll_fn(|context| presence.poll_request(context)).await;
        assert!(matches!(presence.next_request(), Some(Request::Close { by }) if &*by == "root"));
    });
    let look = Look { needle: "q".into(), ..Look::default() };
    let found = Entry::look_at(std::slice::from_ref(&entry), &look, SOON).await;
    assert_eq!(found[0].as_ref().unwrap().link_count, 3);
    assert!(entry.close("root").await);
    entry.gone().await;
    answering.await.unwrap();
    assert!(!entry.close("root").await, "it is gone");
    assert_eq!(Entry::look_at(&[entry], &look, SOON).await, [None]);
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_connection_delays_listings_briefly() {
    let register = Register::default();
    let _silent = register.enter(about("a"));
    let entries = register.after(None, 9);
    for _ in 0..50 {
        assert_eq!(Entry::look_at(&entries, &Look::default(), SOON).await, [None]);
    }
}

#[test]
fn figures_are_added_up_and_links_shown_in_pages() {
    let link = |number, purpose, entity: &str| LinkFigures {
        number,
        name: "l".into(),
        purpose,
        direction: Direction::Out,
        entity: Some(entity.into()),
        receiver: None,
        credit: 5,
        unsettled: 2,
        messages: 1,
    };
    let look = Look { needle: "ord".into(), links: LinkPage { from: 2, top: 1 } };
    let links =
        [link(4, Purpose::Receive, "Orders"), link(1, Purpose::Send, "q"), link(2, Purpose::Tokens, "x")];
    let mut figures = Figures::default();
    links.iter().for_each(|link| figures.add(link, &look));
    assert_eq!((figures.credit, figures.unsettled, figures.link_count), (5, 2, 3));
    assert!(figures.matches);
    figures.show(links.to_vec(), look.links);
    assert_eq!((figures.links[0].number, figures.next_link), (2, Some(4)));
    for name in ["b", "a", "b"] {
        figures.identify(Identity { credential: Credential::Rule, name: name.into() }, &look);
    }
    assert_eq!(figures.identities.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn texts_of_peers_are_cut_and_searched() {
    assert_eq!(excerpt(&"ä".repeat(1000)).chars().count(), 256);
    let about = About { product: Some("MSJSClient".into()), ..about("Shop") };
    assert!(about.contains("shop") && about.contains("msjs") && !about.contains("java"));
}
