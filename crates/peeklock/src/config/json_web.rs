//! `[authorization.jwt]`: issuer and keys of accepted JSON web tokens, and the rights of their roles.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;

use peeklock_access::{JsonWebPolicy, KeySet, RoleRule};

use super::authorization::read_scope;
use super::authorization_rule::read_rights;
use super::names::Place;
use super::table::Table;

const HEADER: &str = "authorization.jwt";
const EXAMPLE: &str =
    "{ issuer = \"https://login.example/tenant\", audience = \"https://servicebus.azure.net\" }";
const ROLES_CLAIM_DEFAULT: &str = "roles";
const KEYS_FILE_BYTES_MAX: usize = 1 << 20;

/// Reads the table, if it exists. Without it JSON web tokens are refused.
pub(super) fn read(parent: &mut Table<'_, '_>) -> Option<JsonWebPolicy> {
    let (_, place) = parent.value("jwt")?;
    let mut table = parent.table("jwt", format!("[{HEADER}] "), EXAMPLE)?;
    let (names_issuer, names_keys) = (table.value("issuer").is_some(), table.value("keys_file").is_some());
    let issuer = table.text("issuer", "\"https://login.example/tenant\"", check_issuer);
    let keys = table.text("keys_file", "\"keys.json\"", read_keys).map(Arc::new);
    if !names_issuer && !names_keys {
        table.report(
            &place,
            "issuer",
            "missing; write issuer = \"https://…\", or keys_file to say which file has the keys",
        );
    }
    let audience = table.text("audience", "\"https://servicebus.azure.net\"", not_empty);
    if table.value("audience").is_none() {
        table.report(&place, "audience", "missing; write the audience (aud) of the tokens for this broker");
    }
    let roles_claim = table.text("roles_claim", "\"roles\"", not_empty);
    let roles = read_roles(&mut table, &place);
    table.finish();
    // An error was reported; the rest must not become a less strict policy.
    if names_issuer && issuer.is_none() || names_keys && keys.is_none() {
        return None;
    }
    let roles_claim = roles_claim.unwrap_or_else(|| ROLES_CLAIM_DEFAULT.into());
    Some(JsonWebPolicy { issuer, keys, audience: audience?, roles_claim, roles })
}

fn read_roles(table: &mut Table<'_, '_>, place: &Place) -> Vec<RoleRule> {
    if table.value("roles").is_none() {
        table.report(
            place,
            "roles",
            "missing; write [[authorization.jwt.roles]] with the rights of each role",
        );
    }
    let mut roles = Vec::new();
    for (mut inner, place) in table.array("roles", "authorization.jwt.roles") {
        let role = inner.text("role", "\"Sender\"", not_empty);
        if inner.value("role").is_none() {
            inner.report(&place, "role", "missing; write role = \"Sender\" or the like");
        }
        let rights = read_rights(&mut inner, &place);
        let scope = read_scope(&mut inner, "entity");
        inner.finish();
        if let (Some(role), Some(rights)) = (role, rights) {
            roles.push(RoleRule { role, rights, scope });
        }
    }
    roles
}

fn not_empty(text: &str) -> Result<Box<str>, String> {
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text.into()) }
}

fn read_keys(path: &str) -> Result<KeySet, String> {
    let bytes = fs::read(path).map_err(|error| format!("\"{path}\" can't be read: {error}"))?;
    if bytes.len() > KEYS_FILE_BYTES_MAX {
        return Err(format!("\"{path}\" is too large for a set of keys"));
    }
    KeySet::parse(&bytes).map_err(|error| format!("\"{path}\" {error}"))
}

/// Keys fetched from another machine without TLS could be forged.
fn check_issuer(text: &str) -> Result<Box<str>, String> {
    let advice = || {
        "is not an https address; write \"https://login.example/tenant\", as the tokens have it in iss"
            .to_owned()
    };
    let Some((scheme, rest)) = text.split_once("://") else { return Err(advice()) };
    let authority = rest.split('/').next().unwrap_or_default();
    let is_plain = |char: char| char.is_ascii_graphic() && !"?#@\\".contains(char);
    if authority.is_empty() || !rest.chars().all(is_plain) {
        return Err(advice());
    }
    match scheme {
        "https" => Ok(text.into()),
        "http" if is_loopback(authority) => Ok(text.into()),
        "http" => Err("must be an https address, because it is not on loopback".to_owned()),
        _ => Err(advice()),
    }
}

/// Whether an address is a loopback address.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
