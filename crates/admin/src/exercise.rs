//! Entry points of fuzz targets: the parsers of input from unauthenticated peers.

/// Reads a body of the management API as every kind of description, and writes the results.
pub fn description(input: &[u8]) {
    crate::atom::exercise(input);
}

/// Reads the value of an `Authorization` header, and the token in it.
pub fn authorization_header(input: &[u8]) {
    crate::authorize::exercise(input);
}
