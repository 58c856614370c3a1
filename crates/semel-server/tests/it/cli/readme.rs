//! What the README tells people to type does what it says.

use crate::{api::support::Server, support::Upstream};
use std::{path::Path, process::Command};

/// The commands of the README's section on the runtime, for another shell.
fn commands() -> &'static str {
    let section = include_str!("../../../../../README.md").split_once("\n## The runtime\n").unwrap().1;
    let blocks = section.split("```sh\n").skip(1).map(|it| it.split_once("```").unwrap().0);
    blocks.into_iter().find(|it| it.contains("semel why")).expect("it says what to type")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_work_as_they_stand() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let program = Path::new(env!("CARGO_BIN_EXE_semel")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-ec", commands()])
        .current_dir(server.directory.path())
        .env("PATH", path)
        .env("SEMEL_SERVER", server.program.url(""))
        .env_remove("SEMEL_TOKEN")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("order-42 for orders: "), "{said}");
    assert_eq!(said.matches("duplicate of one that is").count(), 2, "{said}");
    function.called(1).await;
    assert_eq!(function.calls(), 1, "three deliveries, one call");
}
