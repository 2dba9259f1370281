//! Shared access rules, of an entity or of the namespace: `[[….authorization_rules]]`.

use peeklock_engine::schema::AUTHORIZATION_RULES_MAX;
use peeklock_engine::{AuthorizationRule, Rights, Secret, Timestamp};

use super::entity;
use super::names::{Names, Place};
use super::table::Table;

/// Maximum length of a key, from Service Bus's quotas.
const KEY_CHARS_MAX: usize = 256;
const RIGHTS_EXAMPLE: &str = "[\"Listen\", \"Send\"]";

/// The keys for one of the two keys of a rule: the text itself, a file that contains it, or a variable.
const PRIMARY: [&str; 3] = ["primary_key", "primary_key_file", "primary_key_env"];
const SECONDARY: [&str; 3] = ["secondary_key", "secondary_key_file", "secondary_key_env"];

/// Reads the rules under a key of `table`; `header` is the text in double brackets. Messages never contain keys.
pub(super) fn read_all(table: &mut Table<'_, '_>, key: &'static str, header: &str) -> Vec<AuthorizationRule> {
    let mut names = Names::default();
    let mut rules = Vec::new();
    for (mut inner, place) in table.array(key, header) {
        inner.set_title(format!("{}authorization rule: ", table.title()));
        let Some((rule, place)) = read(inner, &place, table.title()) else { continue };
        if !table.take_name(&mut names, "authorization rule", &rule.name, &place) {
            continue;
        }
        if rules.len() == AUTHORIZATION_RULES_MAX {
            table.report(
                &place,
                key,
                &format!("there are more than {AUTHORIZATION_RULES_MAX}; remove this one"),
            );
            break;
        }
        rules.push(rule);
    }
    rules
}

/// One rule and the position of its name; `None` when it is invalid, which has been reported. `owner` starts messages.
fn read(mut table: Table<'_, '_>, place: &Place, owner: &str) -> Option<(AuthorizationRule, Place)> {
    let name = entity::read_name(&mut table, place, "\"sender\"", entity::check_authorization_rule_name);
    if let Some((name, _)) = &name {
        let owner = match owner.strip_suffix(": ") {
            Some(owner) => format!("{owner}, "),
            None => owner.to_owned(),
        };
        table.set_title(format!("{owner}authorization rule \"{name}\": "));
    }
    let rights = read_rights(&mut table, place);
    let primary_key = read_key(&mut table, place, PRIMARY);
    // An empty key counts as none: no credential matches it.
    let secondary_key = if SECONDARY.iter().any(|key| table.value(key).is_some()) {
        read_key(&mut table, place, SECONDARY)
    } else {
        Some(Secret::new(""))
    };
    table.finish();
    let (name, place) = name?;
    let rule = AuthorizationRule {
        name: name.into(),
        rights: rights?,
        primary_key: primary_key?,
        secondary_key: secondary_key?,
        created_at: Timestamp::default(),
        modified_at: Timestamp::default(),
    };
    Some((rule, place))
}

/// The rights in a table; `None` if there are none, which has been reported.
pub(super) fn read_rights(table: &mut Table<'_, '_>, place: &Place) -> Option<Rights> {
    if table.value("rights").is_none() {
        table.report(place, "rights", &format!("missing; write rights = {RIGHTS_EXAMPLE} or the like"));
        return None;
    }
    table.read("rights", |value| {
        let names = value.as_array().map(|items| items.iter().map(|item| item.get_ref().as_str()));
        let Some(names) = names.and_then(Iterator::collect::<Option<Vec<&str>>>) else {
            return Err(format!("expected a list of texts; write rights = {RIGHTS_EXAMPLE} or the like"));
        };
        rights(&names)
    })
}

fn rights(names: &[&str]) -> Result<Rights, String> {
    let mut rights = Rights::default();
    for name in names {
        match *name {
            "Listen" => rights.listen = true,
            "Send" => rights.send = true,
            "Manage" => rights.manage = true,
            _ => return Err(format!("\"{name}\" is not a right; write \"Listen\", \"Send\" or \"Manage\"")),
        }
    }
    if rights.manage && rights != Rights::ALL {
        return Err(
            "\"Manage\" needs the others; write rights = [\"Listen\", \"Send\", \"Manage\"]".to_owned()
        );
    }
    if rights == Rights::default() {
        return Err(format!("is empty; write rights = {RIGHTS_EXAMPLE} or the like"));
    }
    Ok(rights)
}

/// A key from exactly one of three settings of the table.
fn read_key(table: &mut Table<'_, '_>, place: &Place, keys: [&'static str; 3]) -> Option<Secret> {
    let [key, file, env] = keys;
    let mut written = keys.into_iter().filter_map(|key| Some((key, table.value(key)?.1))).collect::<Vec<_>>();
    written.sort_by_key(|(_, span)| span.start);
    match written.as_slice() {
        [] => {
            let advice = format!(
                "missing; write {key} = \"…\" (32 random bytes in base64 are a good key), or {file} or {env} to say \
                 which file or environment variable holds it"
            );
            table.report(place, key, &advice);
            return None;
        }
        [_] => {}
        [(first, _), (second, span), ..] => {
            table.report(span, second, &format!("{first} sets it already; remove one of them"));
            return None;
        }
    }
    let literal = table.secret(key, check_key);
    let path = table.secret(file, |path| Ok(path.to_owned()));
    let in_file = path
        .and_then(|path| table.contents(file, &path, |text| check_key(text.trim_end_matches(['\r', '\n']))));
    let in_variable = table.secret(env, |name| {
        let text = std::env::var(name)
            .map_err(|_| format!("the environment variable \"{name}\" is not set, or is not text"))?;
        check_key(&text).map_err(|what| format!("the value of \"{name}\" {what}"))
    });
    literal.or(in_file).or(in_variable)
}

fn check_key(text: &str) -> Result<Secret, String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.chars().count() > KEY_CHARS_MAX {
        return Err(format!("is longer than {KEY_CHARS_MAX} characters"));
    }
    if text.chars().any(|char| char.is_control() || char.is_whitespace()) {
        return Err("has spaces, line ends or control characters, which keys don't have".to_owned());
    }
    Ok(Secret::new(text))
}
