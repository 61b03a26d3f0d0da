//! Settings from flags and from the environment.

use super::Case;
use super::program::ended;
use crate::tool::Tool;

/// An address, a duration or a word that cannot be read has one code, and is named with what it came from.
pub fn a_wrong_setting_is_2_wherever_it_came_from<T: Tool>(case: &Case<T>) {
    let (program, servers) = (&case.program, T::PROGRAM.servers);
    let (_server, address) = Case::<T>::server();
    for line in [
        &[servers.flag, "a:b:c", "ping"][..],
        &[servers.flag, &address, "ping", "--timeout", "soon"],
        &[servers.flag, &address, "ping", "-o", "jsn"],
    ] {
        let ran = program.bare(line).exits(2);
        assert!(ran.err.contains(line[0]) || ran.err.contains(line[3]), "{}", ran.err);
    }
    let own = |name: &str| format!("{}_{name}", T::PROGRAM.prefix);
    let addresses = servers.variables.iter().map(|name| ((*name).to_owned(), "a:b:c"));
    let others = [(own("TIMEOUT"), "soon"), (own("OUTPUT"), "jsn"), (own("LOG"), "x=loud")];
    for (name, value) in addresses.chain(others) {
        let said = value.rsplit('=').next().unwrap();
        let mut command = program.command(&["ping"]);
        let ran = ended(command.env(&name, value).spawn().unwrap()).exits(2);
        assert!(ran.err.contains(&name) && ran.err.contains(said), "{}", ran.err);
    }
}
