//! Bad networks between clients and the server.

use std::{net::SocketAddr, thread, time::Duration};

use fixtures::proxy::{Ending, Proxy, Toxics};

use crate::{ledger::count, rng::Rng, stage::Stage};

/// Disturbs a network until the calm, and leaves it healed.
pub fn weather(proxy: &Proxy, stage: &Stage, mut rng: Rng) {
    while stage.pause(stage.at_most(Duration::from_millis(200) + rng.millis(4000))) {
        count(&stage.ledger.counts.toxics);
        let lasts = Duration::from_millis(100) + rng.millis(3000);
        let leaves_ghosts = spoil(proxy, stage, &mut rng);
        stage.pause(stage.at_most(lasts));
        proxy.heal();
        if leaves_ghosts {
            // Real half-dead connections do not last forever either.
            stage.pause(stage.at_most(rng.millis(3000)));
            proxy.reset_connections();
        }
        stage.ledger.remark(&format!("{} is healed", proxy.address()));
    }
    proxy.heal();
    proxy.reset_connections();
}

/// One fault, for either direction or both; returns whether it leaves connections behind that never end on their own.
fn spoil(proxy: &Proxy, stage: &Stage, rng: &mut Rng) -> bool {
    let toxics = match rng.below(10) {
        0 => {
            stage.ledger.remark(&format!("{} resets", proxy.address()));
            proxy.reset_connections();
            return false;
        }
        1 => {
            stage.ledger.remark(&format!("{} refuses", proxy.address()));
            proxy.refuse_connections();
            proxy.reset_connections();
            return false;
        }
        2 | 3 => Toxics::new().latency(rng.millis(100)),
        4 => Toxics::new().slice(1 + rng.below(20) as usize, rng.millis(2)),
        5 => Toxics::new().bandwidth(2_000 + rng.below(50_000)),
        6 => Toxics::new().silence(),
        7 => Toxics::new().end_after(rng.below(3000), Ending::Close),
        8 => Toxics::new().end_after(rng.below(3000), Ending::Reset),
        _ => Toxics::new().end_after(rng.below(3000), Ending::Hang),
    };
    stage.ledger.remark(&format!("{} gets {toxics:?}", proxy.address()));
    let both = rng.below(3);
    if both != 0 {
        proxy.spoil_requests(toxics.clone());
    }
    if both != 1 {
        proxy.spoil_replies(toxics);
    }
    true
}

/// This number of networks in front of a server.
pub fn networks(server: SocketAddr, count: usize) -> Vec<Proxy> {
    (0..count).map(|_| Proxy::start(server).expect("a loopback port")).collect()
}

/// Runs the faults of all networks beside `rest`, and heals them once the calm starts.
pub fn under_weather<T>(
    proxies: &[Proxy],
    stage: &Stage,
    rng: &mut Rng,
    rest: impl FnOnce() -> T,
) -> T {
    thread::scope(|scope| {
        for proxy in proxies {
            let rng = rng.fork();
            scope.spawn(move || weather(proxy, stage, rng));
        }
        rest()
    })
}
