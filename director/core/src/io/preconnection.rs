//! Configuration of a session before it starts, with the terms of RFC 9622, section 6.

#[cfg(feature = "discovery")]
use super::discovery::Announcement;
use super::outside::{self, StackFactory};
use super::resolver::{Ends, Resolve};
use super::warning::Warnings;
use super::writer::Folder;
use super::{Error, Listener, Session};
use crate::Span;
use crate::conditions::Conditions;
use crate::map::PerformanceMap;
use crate::model::ModelId;
use crate::policy::Settings;
use crate::properties::TransportProperties;
use crate::session::{Config, Security};
use crate::targets::{Pattern, QosTargets};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// A session before its start.
#[derive(Debug, Clone)]
pub struct Preconnection {
    config: Config,
    map: Arc<PerformanceMap>,
    factories: Vec<Arc<dyn StackFactory>>,
    folder: Option<Folder>,
    warnings: Warnings,
    /// The name that the hub announces.
    #[cfg(feature = "discovery")]
    announced: Option<String>,
}

impl Preconnection {
    /// A session of this pattern with this security.
    pub fn new(pattern: Pattern, security: Security) -> Self {
        let (config, map) = (Config::new(pattern, security), PerformanceMap::shipped());
        Self {
            config,
            map,
            factories: Vec::new(),
            folder: None,
            warnings: Warnings::default(),
            #[cfg(feature = "discovery")]
            announced: None,
        }
    }

    /// Sets the requested transport properties.
    #[must_use]
    pub fn properties(mut self, properties: TransportProperties) -> Self {
        self.config.properties = properties;
        self
    }

    /// Sets the quality-of-service targets.
    #[must_use]
    pub fn targets(mut self, targets: QosTargets) -> Self {
        self.config.targets = targets;
        self
    }

    /// Sets the assumed network conditions before the first estimate.
    #[must_use]
    pub fn assume(mut self, conditions: Conditions) -> Self {
        self.config.assumed = conditions;
        self
    }

    /// Sets the multicast group.
    #[must_use]
    pub fn group(mut self, group: impl Into<SocketAddr>) -> Self {
        self.config.group = group.into();
        self
    }

    /// Sets the number of places for members that the hub does not know at its start: they join
    /// from any address. Some models reserve capacity for each place, so do not set more than needed.
    #[must_use]
    pub fn places(mut self, places: usize) -> Self {
        self.config.places = places;
        self
    }

    /// The hub announces itself in the local network under this name, by DNS-SD over multicast DNS,
    /// as long as the session lasts. Members find it by [`resolve`](super::resolve), and join
    /// if the hub has [places](Self::places) and they have its key.
    #[cfg(feature = "discovery")]
    #[must_use]
    pub fn announce(mut self, name: &str) -> Self {
        self.announced = Some(name.to_owned());
        self
    }

    /// A member that has sent nothing for this time reports to the hub, so that a NAT keeps its
    /// binding and the member notices that the hub has restarted: 15 s or more (RFC 8085, 3.5), and
    /// shorter than the NAT's timeout. It has no effect at a hub. Members in
    /// [places](Self::places) report in any case.
    #[must_use]
    pub fn keep_alive(mut self, interval: impl Into<Span>) -> Self {
        self.config.keep_alive = Some(interval.into());
        self
    }

    /// Whether the hub signs its messages (Ed25519), so that a member cannot pose as the hub towards others.
    /// It needs a key for each member ([`Security::Keys`]), adds 64 bytes to a message, and has no effect
    /// at a member: members of a hub that signs take signed messages only.
    #[must_use]
    pub fn signed(mut self, signed: bool) -> Self {
        self.config.signed = signed;
        self
    }

    /// A member stores messages with [`MessageProperties::stored`](crate::MessageProperties::stored) in
    /// this folder, up to `limit` bytes, until they have an outcome: the next start with the folder
    /// sends them again ([`Listener::restored`]). It also remembers there which stored messages of hubs it
    /// has had. A hub stores messages there as well ([`Session::store`], [`Session::restored`]). One
    /// program at a time uses a folder; do not copy it, or bring back an earlier version of it.
    #[must_use]
    pub fn storage(mut self, folder: impl Into<PathBuf>, limit: u64) -> Self {
        self.folder = Some(Folder { path: folder.into(), limit });
        self
    }

    /// The hub or the member reports here what its operator should know, in a line of text: the hub a hello that
    /// none of the session's keys opens, because a member has another key, at most once a minute; a member that
    /// its hub has not answered for ten seconds. `report` is called on the session's task, so it must not block
    /// or panic.
    #[must_use]
    pub fn on_warning(mut self, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.warnings = Warnings::to(report);
        self
    }

    /// Restricts the session to these models.
    #[must_use]
    pub fn models(mut self, models: &[ModelId]) -> Self {
        self.config.models = models.to_vec();
        self
    }

    /// Adds an external stack and its models, at the hub and at members. Members must listen at
    /// the addresses that the hub uses for them.
    #[must_use]
    pub fn outside(mut self, way: impl StackFactory + 'static) -> Self {
        self.factories.push(Arc::new(way));
        self.config.outside = outside::models(&self.factories);
        self
    }

    /// Sets the thresholds for a model change.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.config.settings = settings;
        self
    }

    /// Replaces the built-in performance map.
    #[must_use]
    pub fn map(mut self, map: PerformanceMap) -> Self {
        self.map = Arc::new(map);
        self
    }

    /// Starts the session as its hub. All addresses are of IPv4, or all of IPv6. Call it within a
    /// tokio runtime.
    ///
    /// # Errors
    /// [`Error`] if the key is too short, no model suits, or a socket or the storage cannot be opened.
    pub fn initiate<A: Into<SocketAddr> + Copy>(
        self,
        local: impl Into<SocketAddr>,
        members: &[A],
    ) -> Result<Session, Error> {
        let members: Vec<SocketAddr> = members.iter().map(|member| (*member).into()).collect();
        let local = local.into();
        let (config, map, warnings) = (self.config, self.map, self.warnings);
        let (factories, folder) = (&self.factories, self.folder.as_ref());
        let session = Session::open(config, map, local, &members, factories, warnings, folder)?;
        #[cfg(feature = "discovery")]
        let session = {
            // When its socket is bound, so that no member finds a hub that cannot receive.
            let mut session = session;
            let announce = |name: String| Announcement::new(&name, local);
            session._announcement = self.announced.map(announce).transpose()?.map(Arc::new);
            session
        };
        Ok(session)
    }

    /// Waits for a session as a member. Call it within a tokio runtime. Of the settings only
    /// security, [`keep_alive`](Self::keep_alive) and external stacks with the group apply; the hub
    /// sets all others.
    ///
    /// # Errors
    /// [`Error`] if the key is too short, or a socket cannot be opened.
    pub fn listen(
        self,
        local: impl Into<SocketAddr>,
        hub: impl Into<SocketAddr>,
    ) -> Result<Listener, Error> {
        let (local, hub, folder) = (local.into(), hub.into(), self.folder.as_ref());
        let ends = Ends { local, hub, resolve: None };
        Listener::open(self.config, ends, self.warnings, &self.factories, folder)
    }

    /// Waits for a session as a member, as [`listen`](Self::listen) does, of a hub whose address
    /// can change: `resolve` gives it, and is called again, on another thread, if the hub is silent
    /// while the member waits for it. For a name:
    /// `move || director::io::resolve_from(local, "hub:5700")`.
    ///
    /// # Errors
    /// [`Error`] if `resolve` fails at first, the key is too short, or a socket cannot be opened.
    pub fn listen_by(
        self,
        local: impl Into<SocketAddr>,
        resolve: impl Fn() -> Result<SocketAddr, Error> + Send + Sync + 'static,
    ) -> Result<Listener, Error> {
        let hub = resolve()?;
        let resolve: Resolve = Arc::new(resolve);
        let (local, folder) = (local.into(), self.folder.as_ref());
        let ends = Ends { local, hub, resolve: Some(resolve) };
        Listener::open(self.config, ends, self.warnings, &self.factories, folder)
    }
}
