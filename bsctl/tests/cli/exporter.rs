//! `exporter`, beside what every tool's has to do.

use ctl_core::contract::exporter::Exporter;

use crate::harness::*;

/// Also a tube whose jobs the exporter has looked at: a tube is there while somebody uses it.
#[test]
fn a_tube_that_has_gone_is_not_kept_alive_by_looking_at_it() {
    on_both(|address| {
        let id = put(address, "mail", "");
        let exporter = Exporter::start(&PROGRAM, address);
        assert!(exporter.metrics().contains("tube=\"mail\""));
        client(address).delete(id).unwrap();
        let after = exporter.metrics();
        assert!(!after.contains("tube=\"mail\"") && after.contains("tube=\"default\""), "{after}");
        exporter.end();
    });
}
