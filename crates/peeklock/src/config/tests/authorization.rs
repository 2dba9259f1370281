use super::*;

const EVERYWHERE: &str = "[amqp]\nlisten = \"0.0.0.0:5672\"\n";
const RULE: &str = "[[authorization.rules]]\nname = \"app\"\nrights = [\"Send\"]\nprimary_key = \"one\"\nsecondary_key = \"two\"\n";

fn refused(args: ServeArgs, text: &str) -> String {
    let file = parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    Config::merge(args, file, false).unwrap_err().to_string()
}

#[test]
fn without_rules_the_emulators_key_is_in_force() {
    let config = merged(ServeArgs::default(), "").authorization;
    assert!(config.required && config.has_default_key());
    assert_eq!(config.policy(), peeklock_access::Policy::development());
}

#[test]
fn the_known_key_is_for_loopback_unless_that_is_asked_for() {
    let message = refused(ServeArgs::default(), EVERYWHERE);
    assert!(message.starts_with("AMQP listens on 0.0.0.0:5672"), "{message}");
    assert!(
        message.contains("[[authorization.rules]]") && message.contains("--allow-default-key"),
        "{message}"
    );
    merged(ServeArgs { allow_default_key: Some(true), ..ServeArgs::default() }, EVERYWHERE);
    merged(ServeArgs::default(), &format!("{EVERYWHERE}[authorization]\nallow_default_key = true"));
    let config = merged(ServeArgs::default(), &format!("{EVERYWHERE}{RULE}"));
    assert_eq!(config.authorization.policy().rules.len(), 1);
    let http = refused(ServeArgs::default(), "[http]\nlisten = \"[::]:5300\"");
    assert!(http.starts_with("HTTP listens on [::]:5300"), "{http}");
}

#[test]
fn unauthenticated_access_needs_loopback_or_allow_anybody() {
    let anybody = ServeArgs { authorization_required: Some(false), ..ServeArgs::default() };
    assert!(!merged(anybody.clone(), RULE).authorization.policy().required);
    let message = refused(anybody.clone(), EVERYWHERE);
    assert!(message.contains("allow_anybody = true"), "{message}");
    let allowed = format!("{EVERYWHERE}[authorization]\nrequired = false\nallow_anybody = true");
    assert!(!merged(ServeArgs::default(), &allowed).authorization.required);
    let overruled = ServeArgs { authorization_required: Some(true), ..ServeArgs::default() };
    assert!(merged(overruled, "[authorization]\nrequired = false").authorization.required);
}

#[test]
fn certificates_are_given_rights_on_a_scope() {
    let text =
        "[[authorization.certificates]]\nsubject = \"CN=shop\"\nrights = [\"Listen\"]\nscope = \"Orders\"\n";
    let config = merged(ServeArgs::default(), text).authorization;
    let policy = config.policy();
    assert_eq!(
        (&*policy.certificates[0].subject, policy.certificates[0].scope.path()),
        ("CN=shop", "orders")
    );
    assert!(policy.rules.is_empty() && config.offers("EXTERNAL"));
    assert!(!AuthorizationConfig::default().offers("EXTERNAL"));
}

#[test]
fn provisional_keys_are_refused_with_their_new_name() {
    for (old, new) in
        [("require_token = true", "required = true"), ("plain_enabled = false", "[authorization]")]
    {
        let problems = parse("t", &format!("[amqp]\n{old}")).unwrap_err().to_string();
        assert!(problems.contains(new), "{problems}");
    }
}

const JWT: &str = "[authorization.jwt]\nissuer = \"https://login.example/t\"\naudience = \"a\"\n";
const ROLE: &str = "[[authorization.jwt.roles]]\nrole = \"r\"\nrights = [\"Send\"]\nentity = \"Orders\"\n";

#[test]
fn json_web_tokens_are_for_roles_of_an_issuer() {
    let config = merged(ServeArgs::default(), &format!("{EVERYWHERE}{JWT}{ROLE}")).authorization;
    assert!(!config.has_default_key());
    let policy = config.policy().json_web.unwrap();
    assert_eq!((policy.issuer.as_deref(), &*policy.roles_claim), (Some("https://login.example/t"), "roles"));
    assert_eq!((&*policy.roles[0].role, policy.roles[0].scope.path()), ("r", "orders"));
    for issuer in ["http://localhost:8080/realms/r", "http://127.0.0.1", "http://[::1]:80"] {
        merged(ServeArgs::default(), &format!("{JWT}{ROLE}").replace("https://login.example/t", issuer));
    }
    for issuer in [
        "http://login.example",
        "http://localhost.example",
        "http://localhost@h",
        "login",
        "https://",
        "https://h?x",
    ] {
        let text = format!("{JWT}{ROLE}").replace("https://login.example/t", issuer);
        assert!(only_message(&text).contains("https address"), "{issuer}");
    }
    for (text, message) in [
        (JWT.to_owned(), "[[authorization.jwt.roles]]"),
        (format!("[authorization.jwt]\naudience = \"a\"\n{ROLE}"), "keys_file"),
        (format!("{JWT}{ROLE}").replace("audience = \"a\"", ""), "aud"),
        (format!("{JWT}keys_file = \"/nowhere\"\n{ROLE}"), "can't be read"),
    ] {
        assert!(only_message(&text).contains(message), "{text}");
    }
}
