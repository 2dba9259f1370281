//! `AuthorizationRules`: the shared access rules of an entity, keys included. Only clients with the right to manage get
//! them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use peeklock_engine::schema::AUTHORIZATION_RULES_MAX;
use peeklock_engine::{AuthorizationRule, Rights, Secret, Timestamp};
use uuid::Uuid;

use super::xml::{Document, Element, INSTANCE};

/// Longest name and key, in characters (azure-sdk-for-net's constants).
const NAME_CHARS_MAX: usize = 256;
const KEY_CHARS_MAX: usize = 256;

/// Reads the rules. An existing rule keeps its creation time and keys that are missing in the description; other
/// missing keys are generated.
///
/// # Errors
/// The reason, as the end of a sentence.
pub(super) fn read(
    rules: Option<&Element>,
    current: &[AuthorizationRule],
    now: Timestamp,
) -> Result<Vec<AuthorizationRule>, String> {
    let mut read: Vec<AuthorizationRule> = Vec::new();
    for rule in rules.into_iter().flat_map(|rules| rules.all("AuthorizationRule")) {
        let rule = read_rule(rule, current, now)?;
        if read.iter().any(|known| known.name == rule.name) {
            return Err(format!("names the rule '{}' twice.", rule.name));
        }
        read.push(rule);
    }
    if read.len() > AUTHORIZATION_RULES_MAX {
        return Err(format!("has at most {AUTHORIZATION_RULES_MAX} rules."));
    }
    Ok(read)
}

fn read_rule(
    rule: &Element,
    current: &[AuthorizationRule],
    now: Timestamp,
) -> Result<AuthorizationRule, String> {
    let name = rule.text_of("KeyName").map(str::trim).unwrap_or_default();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return Err(format!("has a rule whose KeyName is not 1 to {NAME_CHARS_MAX} characters long."));
    }
    let current = current.iter().find(|known| &*known.name == name);
    let key = |element: &str, current: Option<&Secret>| match rule.text_of(element).map(str::trim) {
        Some(key) if key.chars().count() > KEY_CHARS_MAX => {
            Err(format!("has the rule '{name}', whose {element} is longer than {KEY_CHARS_MAX} characters."))
        }
        Some(key) if !key.is_empty() => Ok(Secret::new(key)),
        _ => Ok(current.cloned().unwrap_or_else(new_key)),
    };
    let mut made = AuthorizationRule {
        name: name.into(),
        rights: rights(rule, name)?,
        primary_key: key("PrimaryKey", current.map(|current| &current.primary_key))?,
        secondary_key: key("SecondaryKey", current.map(|current| &current.secondary_key))?,
        created_at: current.map_or(now, |current| current.created_at),
        modified_at: now,
    };
    if let Some(current) = current {
        let unchanged = AuthorizationRule { modified_at: current.modified_at, ..made.clone() };
        if unchanged == *current {
            made = unchanged;
        }
    }
    Ok(made)
}

fn rights(rule: &Element, name: &str) -> Result<Rights, String> {
    let mut rights = Rights::default();
    for right in rule.child("Rights").into_iter().flat_map(|rights| rights.all("AccessRights")) {
        match right.text.trim() {
            "Manage" => rights.manage = true,
            "Send" => rights.send = true,
            "Listen" => rights.listen = true,
            _ => {
                return Err(format!(
                    "has the rule '{name}' with a right that is not Manage, Send or Listen."
                ));
            }
        }
    }
    if rights.manage && !(rights.send && rights.listen) {
        return Err(format!("has the rule '{name}', whose right Manage needs Send and Listen as well."));
    }
    if rights == Rights::default() {
        return Err(format!("has the rule '{name}' without any right."));
    }
    Ok(rights)
}

/// 256 random bits as text, in the form of the service's own keys.
fn new_key() -> Secret {
    let halves = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()];
    let bytes: Vec<u8> = halves.iter().flat_map(|half| *half.as_bytes()).collect();
    Secret::new(STANDARD.encode(bytes))
}

/// Writes the rules without their times: the service omits these too (recorded by azure-sdk-for-net), and Go compares
/// the answer with its request.
pub(super) fn write(document: &mut Document, rules: &[AuthorizationRule]) {
    document.element("AuthorizationRules", &[], |document| {
        for rule in rules {
            let kind = [("i:type", "SharedAccessAuthorizationRule"), ("xmlns:i", INSTANCE)];
            document.element("AuthorizationRule", &kind, |document| write_rule(document, rule));
        }
    });
}

fn write_rule(document: &mut Document, rule: &AuthorizationRule) {
    document.text("ClaimType", "SharedAccessKey");
    document.text("ClaimValue", "None");
    document.element("Rights", &[], |document| {
        let Rights { listen, send, manage } = rule.rights;
        // The file may specify Manage alone; clients send back the rights they read and must name the implied ones.
        for (name, has) in [("Manage", manage), ("Send", send || manage), ("Listen", listen || manage)] {
            if has {
                document.text("AccessRights", name);
            }
        }
    });
    document.text("KeyName", &rule.name);
    document.text("PrimaryKey", rule.primary_key.expose());
    // A rule from the file may have one key; clients would read an empty element as an empty key.
    if !rule.secondary_key.expose().is_empty() {
        document.text("SecondaryKey", rule.secondary_key.expose());
    }
}
