//! Fields of a certificate.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The subject in the form of RFC 4514; `None` if the certificate can't be parsed.
pub(super) fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    Some(Certificate::from_der(certificate).ok()?.tbs_certificate.subject.to_string())
}

/// The issuer, likewise.
pub(super) fn issuer(certificate: &CertificateDer<'_>) -> Option<String> {
    Some(Certificate::from_der(certificate).ok()?.tbs_certificate.issuer.to_string())
}

/// The end of its validity.
pub(super) fn end(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    Some(Certificate::from_der(certificate).ok()?.tbs_certificate.validity.not_after.to_system_time())
}

/// The begin of its validity.
pub(super) fn begin(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    Some(Certificate::from_der(certificate).ok()?.tbs_certificate.validity.not_before.to_system_time())
}

/// Whether it is valid now and for at least `least`.
pub(super) fn outlasts(certificate: &CertificateDer<'_>, now: SystemTime, least: Duration) -> bool {
    begin(certificate).is_some_and(|begin| begin <= now)
        && end(certificate).is_some_and(|end| end > now + least)
}

/// Its names and addresses (subject alternative names).
pub(super) fn names(certificate: &CertificateDer<'_>) -> BTreeSet<String> {
    let Ok(certificate) = Certificate::from_der(certificate) else { return BTreeSet::new() };
    let Ok(Some((_, SubjectAltName(names)))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return BTreeSet::new();
    };
    let text = |name: GeneralName| match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(bytes.as_bytes()).map(IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(bytes.as_bytes()).map(IpAddr::from))
                .ok()
                .map(|ip| ip.to_string())
        }
        _ => None,
    };
    names.into_iter().filter_map(text).collect()
}
