//! Measures the clients of this repository beside raw sockets and other clients, all in one run.

mod adf;
mod beanstalkd;
mod callgrind;
mod cores;
mod crowd;
mod figures;
mod gearmand;
mod in_memory;
mod instructions;
mod kind;
mod measure;
mod memory;
mod options;
mod raw;
mod report;
mod stopwatch;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    version,
    about = "Raw sockets, the clients of this repository, and their peers, in one run"
)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The beanstalkd clients against a real server, which is started for the purpose
    Beanstalkd(options::Options),
    /// The Adf.QueueServer clients against the in-memory server, and against a real one where ADF_QUEUE_SERVER names it
    Adf(options::Options),
    /// Instructions of the Adf.QueueServer clients, producers and workers for each message, counted by valgrind
    AdfInstructions(instructions::InstructionsOptions),
    /// One run of one contender, for the instructions
    #[command(hide = true)]
    AdfProbe(instructions::ProbeOptions),
    /// An in-memory server, in its own process
    #[command(hide = true)]
    InMemoryServer(in_memory::ServerOptions),
    /// The Gearman clients and workers against a real gearmand, which is started for the purpose
    Gearmand(gearmand::Options),
    /// Instructions of the Gearman clients and workers for each job, counted by valgrind
    GearmandInstructions(instructions::InstructionsOptions),
    /// How fast gearmand and the in-memory server take submissions while many jobs are queued, with unique ids and
    /// without
    GearmandDepth(gearmand::DepthOptions),
    /// What Gearman clients and workers cost beside the work: memory, silence, the time after a server returned
    GearmandCosts(gearmand::CostsOptions),
    /// One run of one contender, for the instructions
    #[command(hide = true)]
    GearmandProbe(instructions::ProbeOptions),
    /// Many of something in its own process, for the memory
    #[command(hide = true)]
    GearmandMemoryProbe(gearmand::MemoryProbeOptions),
    /// Instructions of the beanstalkd clients, producers and workers for each job, counted by valgrind
    BeanstalkdInstructions(instructions::InstructionsOptions),
    /// What beanstalkd producers and workers cost beside the work: memory, silence, the time after a server returned
    BeanstalkdCosts(beanstalkd::CostsOptions),
    /// One run of one contender, for the instructions
    #[command(hide = true)]
    BeanstalkdProbe(instructions::ProbeOptions),
    /// Many of something in its own process, for the memory
    #[command(hide = true)]
    BeanstalkdMemoryProbe(beanstalkd::MemoryProbeOptions),
    /// The tool bsctl as a process: start-up time, and memory while it imports jobs
    #[cfg(unix)]
    BeanstalkdTool(beanstalkd::ToolOptions),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().what {
        What::Adf(options) => adf::run(&options),
        What::AdfInstructions(options) => adf::run_instructions(&options),
        What::AdfProbe(options) => adf::run_probe(&options),
        What::InMemoryServer(options) => in_memory::run_server(&options),
        What::Beanstalkd(options) => beanstalkd::run(&options),
        What::Gearmand(options) => gearmand::run(&options),
        What::GearmandInstructions(options) => gearmand::run_instructions(&options),
        What::GearmandDepth(options) => gearmand::run_depth(&options),
        What::GearmandCosts(options) => gearmand::run_costs(&options),
        What::GearmandProbe(options) => gearmand::run_probe(&options),
        What::GearmandMemoryProbe(options) => gearmand::run_memory_probe(&options),
        What::BeanstalkdInstructions(options) => beanstalkd::run_instructions(&options),
        What::BeanstalkdCosts(options) => beanstalkd::run_costs(&options),
        What::BeanstalkdProbe(options) => beanstalkd::run_probe(&options),
        What::BeanstalkdMemoryProbe(options) => beanstalkd::run_memory_probe(&options),
        #[cfg(unix)]
        What::BeanstalkdTool(options) => beanstalkd::run_tool(&options),
    }
}
