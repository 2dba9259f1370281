//! The rules of `deny.toml`, for machines without cargo-deny: licences, banned crates, sources, wildcards.

#![cfg(test)]

use std::collections::BTreeSet;

use cargo_metadata::{Metadata, Package};
use serde::Deserialize;
use spdx::{Expression, LicenseReq, Licensee};

#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

fn rules() -> Deny {
    toml::from_str(include_str!("../../deny.toml")).expect("deny.toml has the parts this test reads")
}

fn dependencies() -> Vec<Package> {
    metadata().packages.into_iter().filter(|package| package.source.is_some()).collect()
}

fn metadata() -> Metadata {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let mut command = cargo_metadata::MetadataCommand::new();
    command.manifest_path(manifest).other_options(vec!["--locked".to_owned()]);
    command.exec().expect("cargo metadata runs")
}

/// Whether an expression can be satisfied with the allowed licences; the deprecated `A/B` means `A OR B`.
fn allowed(expression: &str, allow: &[Licensee]) -> Result<bool, String> {
    let parsed = Expression::parse(&expression.replace('/', " OR ")).map_err(|error| error.to_string())?;
    Ok(parsed.evaluate(|requirement: &LicenseReq| allow.iter().any(|licence| licence.satisfies(requirement))))
}

fn allow_list(rules: &Deny) -> Vec<Licensee> {
    rules
        .licenses
        .allow
        .iter()
        .map(|text| Licensee::parse(text).expect("an SPDX licence in deny.toml"))
        .collect()
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allow = allow_list(&rules());
    let offenders: Vec<String> = dependencies()
        .iter()
        .filter(|package| package.license.as_deref().is_none_or(|text| allowed(text, &allow) != Ok(true)))
        .map(|package| format!("{} {}: {:?}", package.name, package.version, package.license))
        .collect();
    assert_eq!(offenders, Vec::<String>::new());
}

#[test]
fn copyleft_and_nonsense_would_be_refused() {
    let allow = allow_list(&rules());
    assert_eq!(allowed("MIT OR GPL-3.0-only", &allow), Ok(true));
    assert_eq!(allowed("GPL-3.0-only", &allow), Ok(false));
    assert_eq!(allowed("MIT AND LGPL-2.1-or-later", &allow), Ok(false));
    assert!(allowed("free for friends", &allow).is_err());
}

#[test]
fn every_crate_of_ours_is_under_both_licences() {
    for package in metadata().workspace_packages() {
        assert_eq!(package.license.as_deref(), Some("Apache-2.0 OR MIT"), "{}", package.name);
    }
}

#[test]
fn no_banned_crate_is_in_the_tree() {
    let names: BTreeSet<String> = dependencies().iter().map(|package| package.name.to_string()).collect();
    for banned in rules().bans.deny {
        assert!(!names.contains(&banned.name), "{} is banned: {}", banned.name, banned.reason);
    }
}

#[test]
fn every_crate_comes_from_the_registry() {
    let registries: Vec<String> =
        rules().sources.allow_registry.iter().map(|url| format!("registry+{url}")).collect();
    for package in dependencies() {
        let source = package.source.map(|source| source.repr).unwrap_or_default();
        assert!(registries.contains(&source), "{} comes from {source}", package.name);
    }
}

#[test]
fn our_own_dependencies_name_a_version() {
    for package in metadata().workspace_packages() {
        for dependency in &package.dependencies {
            let wild = dependency.req.to_string() == "*" && dependency.path.is_none();
            assert!(!wild, "{}: {}", package.name, dependency.name);
        }
    }
}
