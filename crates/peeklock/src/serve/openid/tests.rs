//! When keys are fetched, with a stopped clock, and which answers of an issuer are refused.

use std::sync::Mutex;

use axum::Router;
use axum::routing::get;
use peeklock_access::{Denied, EntityRules, JsonWebPolicy, Policy, Resource};
use peeklock_engine::EntityOptions;
use peeklock_engine::runtime::SystemClock;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::*;

const KEYS: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
/// `{"alg":"EdDSA","kid":"b"}`, and other parts that only need the right form.
const TOKEN: &str = "eyJhbGciOiJFZERTQSIsImtpZCI6ImIifQ.e30.AAAA";

struct NoRules;

impl EntityRules for NoRules {
    fn options(&self, _: &str) -> Option<Arc<EntityOptions>> {
        None
    }
}

fn policy(issuer: Option<&str>) -> Policy {
    let json_web = issuer.map(|issuer| JsonWebPolicy {
        issuer: Some(issuer.into()),
        keys: None,
        audience: "broker".into(),
        roles_claim: "roles".into(),
        roles: Vec::new(),
    });
    Policy { json_web, ..Policy::default() }
}

/// Returns scripted answers, and reports which issuers were queried.
struct Issuer {
    access: Access,
    asked: watch::Receiver<Vec<(Box<str>, Instant)>>,
    works: Arc<Mutex<bool>>,
}

impl Issuer {
    fn start(issuer: Option<&str>) -> Self {
        let access = Access::new(policy(issuer), Arc::new(NoRules), Arc::new(SystemClock::default()));
        let (tell, asked) = watch::channel(Vec::new());
        let works = Arc::new(Mutex::new(true));
        let does_work = Arc::clone(&works);
        let fetch = move |issuer: Box<str>| {
            tell.send_modify(|asked: &mut Vec<(Box<str>, Instant)>| asked.push((issuer, Instant::now())));
            let works = *does_work.lock().unwrap();
            let answer = if works {
                Ok(KeySet::parse(KEYS.as_bytes()).unwrap())
            } else {
                Err(FetchError::TimeOut(Uri::default()))
            };
            std::future::ready(answer)
        };
        tokio::spawn(run(access.clone(), fetch));
        Self { access, asked, works }
    }

    /// The intervals in seconds between the queries, and the last issuer queried.
    async fn asked(&mut self, times: usize) -> (Vec<u64>, Box<str>) {
        let asked = self.asked.wait_for(|asked| asked.len() >= times).await.unwrap().clone();
        let gaps = asked.windows(2).map(|pair| (pair[1].1 - pair[0].1).as_secs()).collect();
        (gaps, asked.last().unwrap().0.clone())
    }

    fn show_unknown(&self) {
        let denied = self.access.token(TOKEN, &Resource::namespace(), self.access.now());
        assert_eq!(denied, Err(Denied::UnknownKey));
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_every_hour_and_for_unknown_ones_not_too_often() {
    let mut issuer = Issuer::start(Some("https://a"));
    issuer.asked(1).await;
    issuer.show_unknown();
    assert_eq!(issuer.asked(2).await.0, [0], "at once");
    for _ in 0..10 {
        issuer.show_unknown();
    }
    assert_eq!(issuer.asked(3).await.0, [0, 30], "once in 30 s");
    assert_eq!(issuer.asked(5).await.0, [0, 30, 3600, 3600]);
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_is_away_is_asked_less_and_less_often() {
    let mut issuer = Issuer::start(Some("https://a"));
    *issuer.works.lock().unwrap() = false;
    let (gaps, _) = issuer.asked(10).await;
    assert_eq!(gaps, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    *issuer.works.lock().unwrap() = true;
    assert_eq!(issuer.asked(12).await.0[9..], [60, 3600]);
}

#[tokio::test(start_paused = true)]
async fn another_issuer_is_asked_at_once_and_none_never() {
    let mut issuer = Issuer::start(None);
    issuer.access.replace(policy(Some("https://a")));
    assert_eq!(&*issuer.asked(1).await.1, "https://a");
    issuer.access.replace(policy(Some("https://b")));
    assert_eq!(issuer.asked(2).await, (vec![0], "https://b".into()));
    issuer.access.replace(policy(None));
    tokio::time::sleep(REFRESH * 3).await;
    assert_eq!(issuer.asked.borrow().len(), 2);
}

/// An issuer with this discovery document, in which `{}` is replaced by its own address.
async fn serving(discovery: &'static str) -> Box<str> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let text = discovery.replace("{}", &issuer);
    let router = Router::new()
        .route("/.well-known/openid-configuration", get(|| async { text }))
        .route("/keys", get(|| async { KEYS }))
        .route("/much", get(|| async { " ".repeat(ANSWER_BYTES_MAX + 1) }));
    tokio::spawn(async { axum::serve(listener, router).await });
    issuer.into()
}

#[tokio::test]
async fn keys_are_where_the_issuer_says() {
    let issuer = serving(r#"{"issuer":"{}","jwks_uri":"{}/keys"}"#).await;
    assert_eq!(fetch(issuer).await.unwrap().len(), 1);
    for (discovery, text) in [
        (r#"{"issuer":"{}/","jwks_uri":"{}/keys"}"#, "write that"),
        (r#"{"issuer":"{}","jwks_uri":"http://192.0.2.1/keys"}"#, "neither https nor http on loopback"),
        (r#"{"issuer":"{}","jwks_uri":"file:///etc/passwd"}"#, "is"),
        (r#"{"issuer":"{}","jwks_uri":"{}/nothing"}"#, "status 404"),
        (r#"{"issuer":"{}","jwks_uri":"{}/much"}"#, "length limit exceeded"),
        (r#"{"issuer":"{}","jwks_uri":"{}/.well-known/openid-configuration"}"#, "is not a JSON Web Key Set"),
        (r#"{"issuer":"{}"}"#, "jwks_uri"),
    ] {
        let error = fetch(serving(discovery).await).await.unwrap_err().to_string();
        assert!(error.contains(text), "{discovery}: {error}");
    }
    let error = fetch("http://127.0.0.1:1".into()).await.unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}
