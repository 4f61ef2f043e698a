//! Text in HTML.

use crate::format::is_steering;

/// Escapes text for HTML, including attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            // HTML does not allow most control characters, not even as references.
            c if is_steering(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_place() {
        let hostile = "</script><b onclick='x'>\"&";
        let escaped = "&lt;/script&gt;&lt;b onclick=&#39;x&#39;&gt;&quot;&amp;";
        assert_eq!(escape(hostile), escaped);
    }
}
