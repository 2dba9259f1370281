//! Two endpoints against each other.
