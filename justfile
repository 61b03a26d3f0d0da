# The steps of .ci/run, one by one. `just` lists them.

default:
    @just --list

# Everything CI does.
ci:
    .ci/run

fmt:
    cargo fmt --all --check
    cargo fmt --manifest-path bench/Cargo.toml --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
    cargo fmt --manifest-path interleavings/Cargo.toml --check

lint:
    .ci/lint

# Lints the SDKs with each face alone, and without both.
lint-features:
    for features in "" blocking tokio; do \
        cargo clippy -p queue-toolkit-core -p adf-queue-client -p beanstalk-client -p gearman-client --lib --no-default-features --features "$features" --locked -- -D warnings || exit 1; \
    done

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features --locked

test:
    cargo test --locked --workspace --no-fail-fast

# The tests that depend on the size of socket buffers, in a network namespace where it is small.
test-small-buffers:
    .ci/small-buffers

# The whole suite again and again under changing conditions: busy, one core, small buffers, few and many threads, stopped processes.
robust runs="7":
    .ci/robust {{runs}}

# Builds the packages as published, and uses them in a separate project.
packages:
    .ci/packages

# Debian packages of the tools, installed and removed again; needs cargo-deb, and root.
debian:
    .ci/debian --try

# RPM packages of the tools, installed into their own root and removed again; needs cargo-generate-rpm, rpm, and root.
rpm:
    .ci/rpm --try

# An image with the tools and the in-memory servers and nothing else; needs umoci, skopeo and a target that links statically.
image target="x86_64-unknown-linux-musl" version="v0":
    .ci/image {{target}} {{version}}

# A new project that has only packages, and the tools from their Debian packages; needs cargo-deb, man, and root.
adopt:
    .ci/adopt

# Puts a job through the embedded server of each protocol.
smoke:
    cargo run --locked --bin bsctl -- --embedded smoke
    cargo run --locked --bin gearctl -- --embedded smoke
    cargo run --locked --bin adfctl -- --embedded smoke

# Compares with raw sockets and other clients (`just bench gearmand --quick`); needs the server.
bench *args:
    cargo run --release --manifest-path bench/Cargo.toml -- {{args}}

# Searches one of the fuzz targets, by default for ten minutes; needs a nightly toolchain and cargo-fuzz.
fuzz target seconds="600":
    mkdir -p fuzz/corpus/{{target}}
    ASAN_OPTIONS=quarantine_size_mb=16 cargo +nightly fuzz run {{target}} fuzz/corpus/{{target}} fuzz/seeds/{{target}} -- -rss_limit_mb=256 -max_total_time={{seconds}}

# The unit tests of the clients, whose proofs draw this many times their usual seeds.
prove times="20":
    PROOFS={{times}} cargo test --release --locked -p beanstalk-client -p gearman-client -p adf-queue-client --lib

# Runs the blocking faces' threads through many schedules; TIMES=100 through a hundred times as many.
interleavings:
    cd interleavings && cargo test --locked

# Clients and workers against a real server that is killed again and again (`just soak gearmand 5`); needs the server. For
# adf-queue that is `mock-adfqueue`, or the program that ADF_QUEUE_PROGRAM names: PROGRAM --listen HOST:PORT, in the foreground.
soak server minutes="30" *args:
    cargo build --release -p adf-queue-client -p beanstalk-client -p gearman-client --examples --all-features
    cargo build --release -p queue-toolkit-fixtures --features programs --bin mock-adfqueue
    cargo run --release -p tests --example soak -- {{server}} --minutes {{minutes}} {{args}}

# Clients in virtual time and a network that breaks, by seeds (`just simulate 100000`), and callers that give up.
simulate seeds="10000" cancelled="1000000":
    SIM_SEEDS={{seeds}} SIM_CANCELLED={{cancelled}} cargo test --release -p tests --test sim -- --nocapture
    PROOFS=10 cargo test --release -p beanstalk-client --all-features --lib protocol

# Lists the public items of the libraries, and checks that both faces have the same ones; needs Rust 1.95.0.
public-api:
    .ci/public-api

# What breaks users of the libraries since a commit, by default since the newest release; needs cargo-semver-checks.
semver *revision:
    .ci/semver {{revision}}

# Licences, advisories, bans, sources: needs cargo-deny.
deny:
    cargo deny --workspace check
