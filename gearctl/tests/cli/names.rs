//! Functions by position and by flag.

use crate::harness::*;

#[test]
fn a_function_is_named_by_place_or_by_flag() {
    on_both(|site| {
        let address = site.address();
        gearctl(address, &["submit", "mail", "x"]).exits(0);
        gearctl(address, &["submit", "-f", "mail", "y"]).exits(0);
        gearctl(address, &["submit", "z", "-f", "mail"]).exits(0);
        let listed = gearctl(address, &["functions", "-f", "mail", "-o", "json"]).exits(0).json();
        assert_eq!(listed[0]["queued"], 3);
        let worked = ["work", "mail", "--builtin", "echo", "--max-idle", "0"];
        gearctl(address, &worked).exits(0);
        gearctl(address, &["wait", "mail", "-f", "sms", "--for", "queued==0"]).exits(2);
        gearctl(address, &["work", "--builtin", "echo"]).exits(2);
        gearctl(address, &["function", "maxqueue", "-f", "mail", "9", "8"]).exits(2);
        gearctl(address, &["function", "maxqueue", "mail", "nine"]).exits(2);
    });
}

#[test]
fn a_workload_that_is_the_name_of_a_function_is_noted_and_submitted() {
    on_both(|site| {
        let address = site.address();
        gearctl(address, &["submit", "mail", "x"]).exits(0);
        let ran = gearctl(address, &["submit", "-f", "sms", "mail", "hello"]).exits(0);
        assert!(ran.err.contains("there is a function of that name: use -f mail"), "{}", ran.err);
        assert_eq!(ran.lines().len(), 2);
        let ran = gearctl(address, &["submit", "sms", "mail", "hello"]).exits(0);
        assert!(!ran.err.contains("of that name"), "{}", ran.err);
    });
}
