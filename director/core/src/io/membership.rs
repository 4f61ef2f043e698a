//! Who is in a session.

use super::command::Command;
use super::hub::Session;
use crate::session::SessionError;
use crate::switch::MemberId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::sync::oneshot;

impl Session {
    /// Revokes a member: its handshakes are refused, and the others get new keys, which seal all
    /// messages from now on. If all members share one key, it can come back in another's place.
    ///
    /// # Errors
    /// [`SessionError`] if there is no such member, or the session is over.
    pub async fn revoke(&self, member: MemberId) -> Result<(), SessionError> {
        let (reply, receiver) = oneshot::channel();
        self.commands.send(Command::Revoke(member, reply)).map_err(|_| SessionError::Over)?;
        receiver.await.map_err(|_| SessionError::Over)?
    }

    /// Whether the session is over, because its runtime has ended: sending is an error then.
    pub fn is_over(&self) -> bool {
        self.commands.is_closed()
    }

    /// Accepts a revoked member again, with this key if each member has one.
    ///
    /// # Errors
    /// [`SessionError`] if the key is too short, there is no such member, or the session is over.
    pub async fn admit(&self, member: MemberId, key: &[u8]) -> Result<(), SessionError> {
        let (reply, receiver) = oneshot::channel();
        let command = Command::Admit(member, key.to_vec(), reply);
        self.commands.send(command).map_err(|_| SessionError::Over)?;
        receiver.await.map_err(|_| SessionError::Over)?
    }

    /// The members that have joined and not left; empty if the session is over.
    pub async fn members(&self) -> Vec<MemberId> {
        let (reply, receiver) = oneshot::channel();
        let _ = self.commands.send(Command::Members(reply));
        receiver.await.unwrap_or_default()
    }

    /// The same members with their addresses, `None` if another member has that address by now; empty if
    /// the session is over.
    pub async fn present(&self) -> BTreeMap<MemberId, Option<SocketAddr>> {
        let (reply, receiver) = oneshot::channel();
        let _ = self.commands.send(Command::Present(reply));
        receiver.await.unwrap_or_default()
    }
}
