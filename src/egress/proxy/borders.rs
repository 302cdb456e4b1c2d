//! Laws of the head of a CONNECT request, see [`crate::borders`].

#![expect(clippy::indexing_slicing, clippy::panic, reason = "a law that does not hold ends the target")]

use super::{ConnectHead, METHOD_NOT_ALLOWED};
use crate::borders::refuses_visibly;
use crate::types::{HostPort, limits};

/// The head of a CONNECT request. It reads the same in pieces, bytes after the head are kept, only
/// CONNECT to a valid host continues, and what is shown of the head is visible and bounded.
pub fn connect_head(bytes: &[u8]) {
    let whole = ConnectHead::parse(bytes);
    // At most 64 cuts: trying all of them would be quadratic.
    let step = bytes.len() / 64 + 1;
    for cut in (0..bytes.len()).step_by(step) {
        match (ConnectHead::parse(&bytes[..cut]), &whole) {
            (Ok(None), _) | (Err(_), Err(_)) => {}
            (Ok(Some(head)), Ok(Some(whole))) => {
                assert_eq!((&head.method, &head.target), (&whole.method, &whole.target));
                assert_eq!(
                    [&head.rest, &bytes[cut..]].concat(),
                    whole.rest,
                    "what follows it is not all there"
                );
            }
            (Ok(Some(_)), _) => panic!("a whole head is refused after more bytes have arrived"),
            (Err(why), _) => panic!("refused at {cut} ({why}), and not with all of it"),
        }
    }
    let Ok(Some(head)) = whole else { return };
    assert!(bytes.ends_with(&head.rest), "what follows it is something else");
    let shown = head.shown();
    assert!(
        crate::types::text::visible_line(&shown) == shown
            && shown.len() <= 10 * limits::SHOWN_BYTES_MAX.max(limits::HOST_BYTES_MAX)
    );
    match head.read() {
        Ok(to) => {
            assert_eq!(head.method, "CONNECT");
            assert_eq!(HostPort::parse(&head.target).as_ref(), Ok(&to));
            assert_eq!(shown, to.as_str());
        }
        Err(refusal) => {
            assert_eq!(refusal.0 == METHOD_NOT_ALLOWED, head.method != "CONNECT");
            refuses_visibly(&refusal.1);
        }
    }
}
