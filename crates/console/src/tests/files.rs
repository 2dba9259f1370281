use super::*;

#[tokio::test]
async fn files_have_a_strict_policy_and_are_asked_for_again() {
    let broker = Broker::start().await;
    for (path, kind) in [
        ("/console/", "text/html"),
        ("/console/index.html", "text/html"),
        ("/console/app.js", "text/javascript"),
        ("/console/app.css", "text/css"),
        ("/console/icon.svg", "image/svg+xml"),
    ] {
        let answer = broker.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with(kind), "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
        assert_eq!(answer.headers["cache-control"], "no-cache");
        let tag = answer.headers["etag"].to_str().unwrap();
        let again = broker.ask(Method::GET, path, &[("if-none-match", tag)], "").await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
    let redirect = broker.get("/console").await;
    assert_eq!((redirect.status, &redirect.headers["location"]), (308, &"console/".parse().unwrap()));
    assert_eq!(broker.get("/console/Cargo.toml").await.status, 404);
    assert_eq!(broker.get("/console/..%2FCargo.toml").await.status, 404);
}

/// The policy allows no inline script or style.
#[test]
fn the_page_has_no_script_of_its_own() {
    let page = include_str!("../../assets/index.html");
    assert!(!page.contains("style=") && !page.contains("<style") && !page.contains(" on"), "{page}");
    for script in page.split("<script").skip(1) {
        assert!(script.split('>').next().unwrap().contains("src="), "{script}");
    }
}
