//! Tests of the dialect as a whole.
