//! The prompt: the session's place, and what it holds.

use adf_queue_client::QueueName;
use ctl_core::repl::Prompt;
use ctl_core::text::color::Role;

/// The prompt for the next line.
pub(super) fn render(address: &str, held: usize, waiting: &[QueueName]) -> Prompt {
    let mut prompt = Prompt::new().role(Role::Faint, address);
    if held > 0 {
        prompt = prompt.role(Role::Good, format!(" *{held}"));
    }
    if !waiting.is_empty() {
        let queues: Vec<&str> = waiting.iter().map(QueueName::as_str).collect();
        prompt = prompt.role(Role::Faint, format!(" waiting:{}", queues.join(",")));
    }
    prompt.text("> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_address_messages_and_waiting_pulls() {
        let queue = |name: &str| QueueName::new(name).unwrap();
        assert_eq!(render("127.0.0.1:6230", 0, &[]).plain(), "127.0.0.1:6230> ");
        let waiting = [queue("/q"), queue("/r\x1b[2J")];
        let prompt = render("h", 2, &waiting).plain();
        assert_eq!(prompt, "h *2 waiting:/q,/r\\x1b[2J> ");
    }
}
