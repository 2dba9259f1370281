//! Generates the parsers of SQL and of selectors from `src/sql/grammar.lalrpop` and `src/sql/selector/grammar.lalrpop`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut configuration = lalrpop::Configuration::new();
    configuration.emit_rerun_directives(true).use_cargo_dir_conventions().process()
}
