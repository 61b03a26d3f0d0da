//! Missing permissions.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use ctl_core::context::Tool;
use ctl_core::link::Link as _;

use crate::Case;
use crate::program::ended;
use crate::shortage::{by, copied};

/// Not 69, which makes scripts wait for the server.
pub fn exits_77_without_permission_for_the_socket<T: Tool>(case: &Case<T>) {
    let (program, folder) = copied(&case.program);
    let socket = folder.path().join("socket");
    let (_server, address) = T::Link::start(&format!("unix:{}", socket.display()), None).unwrap();
    // Root may open every socket, so root runs the tool as another user.
    set_permissions(&socket, Permissions::from_mode(0o000)).unwrap();
    let mut child = by(rustix::process::getuid().is_root().then_some(65_534), program);
    child.env_clear().args([case.program.flag, &*address, "ping", "-c", "1"]);
    let ran = ended(child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let ran = ran.exits(77);
    assert!(ran.says("error: PERMISSION: ") && ran.err.contains("its socket"), "{ran:?}");
}
