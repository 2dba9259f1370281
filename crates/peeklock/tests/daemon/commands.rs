//! The commands that end by themselves.

use crate::broker::{Home, errors, run, write};

#[test]
fn health_exits_with_0_or_1() {
    let home = Home::new();
    let broker = home.start(&[]);
    let address = broker.address("http");
    let url = format!("http://{address}/health");
    let by_url = run(&["health", &url]);
    assert_eq!(by_url.status.code(), Some(0), "{}", errors(&by_url));
    assert!(String::from_utf8_lossy(&by_url.stdout).contains("Service is healthy."));
    assert_eq!(run(&["health", "--http", &address]).status.code(), Some(0));
    assert_eq!(run(&["health", &format!("http://{address}/nothing")]).status.code(), Some(1));
    drop(broker);
    let gone = run(&["health", &url]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(errors(&gone).contains("does not answer"), "{}", errors(&gone));
    assert_eq!(run(&["health", "not a url"]).status.code(), Some(2));
}

#[test]
fn config_check_reports_places_for_people_and_programs() {
    let home = Home::new();
    let (good, bad) = (home.path("good.toml"), home.path("bad.toml"));
    write(&good, "[[queues]]\nname = \"orders\"\n");
    write(&bad, "[[queues]]\nname = \"a@b\"\n");
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    assert_eq!(run(&["config", "check", good]).status.code(), Some(0));
    let refused = run(&["config", "check", bad]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains(&format!("{bad}:2:8: ")), "{}", errors(&refused));
    let refused = run(&["config", "check", "--json", bad]);
    let report: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(report["valid"], false);
    assert_eq!(report["problems"][0]["line"], 2);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [&["--nonsense"][..], &["serve", "--amqp", "nowhere"], &["store"], &["config", "check"]]
    {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(run(&["--help"]).status.code(), Some(0));
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}
