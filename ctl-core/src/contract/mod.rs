//! What every tool has to do, as tests: `tool_contract!` makes them one by one for a tool.
//!
//! Each check is named for what it holds a tool to. Those on the grammar ask the tool's types, the others run its program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc
)]

pub mod documents;
pub mod grammar;
pub mod program;

/// Tests that hold the tool of this type to the contract; `$program` is the path of its program.
#[macro_export]
macro_rules! tool_contract {
    ($tool:ty, $program:expr) => {
        mod contract {
            use $crate::contract::program::Program;

            const PROGRAM: Program = Program::of::<$tool>($program);

            $crate::tool_contract! { @grammar $tool:
                every_command_is_in_exactly_one_group,
                every_verb_of_a_session_is_in_exactly_one_group_and_every_group_names_verbs,
                commands_that_make_no_sense_in_a_session_are_left_out,
                verbs_of_a_session_stand_for_commands_of_the_same_name,
                flags_of_the_start_are_refused_on_a_line_of_a_session,
            }
            $crate::tool_contract! { @documents $tool:
                completions_know_every_command,
                there_is_a_man_page_for_every_command_with_exit_codes_and_environment,
                the_generated_sections_list_commands_and_exit_codes,
            }

            #[test]
            fn the_readme_has_the_sections_that_the_grammar_gives() {
                $crate::contract::documents::the_readme_has_the_sections_that_the_grammar_gives(
                    &PROGRAM,
                    concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"),
                );
            }
        }
    };
    (@grammar $tool:ty: $($name:ident,)*) => {$(
        #[test]
        fn $name() {
            $crate::contract::grammar::$name::<$tool>();
        }
    )*};
    (@documents $tool:ty: $($name:ident,)*) => {$(
        #[test]
        fn $name() {
            $crate::contract::documents::$name::<$tool>(&PROGRAM);
        }
    )*};
}
