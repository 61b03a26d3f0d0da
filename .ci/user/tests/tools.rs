//! The tools, from the folder that TOOLS names, together with the service and the in-memory servers of the test.
use std::{env, path::Path, time::Duration};

use tokio::{process::Command, sync::oneshot, time::timeout};

/// What a tool prints.
async fn tool(name: &str, server: &str, arguments: &[&str]) -> String {
    let folder = env::var("TOOLS").expect("TOOLS names the folder of the tools");
    let mut command = Command::new(Path::new(&folder).join(name));
    command.arg("--server").arg(server).args(arguments).kill_on_drop(true);
    let output = timeout(Duration::from_secs(60), command.output()).await.unwrap().unwrap();
    let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} {arguments:?}: {}: {err}", output.status);
    String::from_utf8(out.clone()).unwrap()
}

#[tokio::test]
async fn bsctl_puts_mail_that_the_service_sends() {
    let server = fixtures::beanstalkd::Server::start().unwrap();
    let address = server.address().to_owned();
    tool("bsctl", &address, &["put", "-t", "mail", "ann", "bob"]).await;
    let jobs = tool("bsctl", &address, &["jobs", "-t", "mail", "--with-body"]).await;
    assert!(jobs.contains("ann") && jobs.contains("bob"), "{jobs}");

    let (done, stop) = oneshot::channel::<()>();
    let servers = address.clone();
    let serve =
        tokio::spawn(async move { user::mail::serve(&servers, stop, |_| Ok(())).await.unwrap() });
    tool("bsctl", &address, &["wait", "--for", "empty", "-t", "mail"]).await;
    done.send(()).unwrap();
    assert_eq!(serve.await.unwrap().finished, 2);
}

#[tokio::test]
async fn gearctl_runs_a_job_of_the_service() {
    let server = fixtures::gearmand::Server::start().unwrap();
    let address = server.address().to_owned();
    let (done, stop) = oneshot::channel::<()>();
    let servers = address.clone();
    let make = |picture: String| Ok(picture.to_lowercase());
    let serve =
        tokio::spawn(async move { user::thumbnails::serve(&servers, stop, make).await.unwrap() });
    let made = tool("gearctl", &address, &["run", "thumbnail", "CAT"]).await;
    assert_eq!(made.trim_end(), "cat");
    let functions = tool("gearctl", &address, &["functions", "-o", "json"]).await;
    assert!(functions.contains("thumbnail"), "{functions}");
    done.send(()).unwrap();
    assert_eq!(serve.await.unwrap().completed, 1);
}

#[tokio::test]
async fn adfctl_pushes_orders_that_the_service_ships() {
    let server = fixtures::adf_queue::Server::start().unwrap();
    let address = server.address().to_owned();
    tool("adfctl", &address, &["push", "--create", "/orders", "ink", "pen"]).await;
    let counted =
        tool("adfctl", &address, &["queues", "/orders", "--columns", "queue,ready"]).await;
    assert_eq!(counted.trim_end(), "/orders\t2");

    let (done, stop) = oneshot::channel::<()>();
    let servers = address.clone();
    let serve =
        tokio::spawn(async move { user::orders::serve(&servers, stop, |_| Ok(())).await.unwrap() });
    tool("adfctl", &address, &["wait", "--for", "empty", "/orders"]).await;
    done.send(()).unwrap();
    assert_eq!(serve.await.unwrap().deleted, 2);
}
