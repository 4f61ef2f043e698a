//! What is to be, before it is: in the words of RFC 9622, section 6.

use super::outside::{self, Way};
use super::{Error, Listener, Session};
use crate::conditions::Conditions;
use crate::map::PerformanceMap;
use crate::model::ModelId;
use crate::policy::Settings;
use crate::properties::TransportProperties;
use crate::session::{Config, Security};
use crate::targets::{Pattern, QosTargets};
use std::net::SocketAddrV4;
use std::sync::Arc;

/// A session that is to be.
#[derive(Debug, Clone)]
pub struct Preconnection {
    config: Config,
    map: Arc<PerformanceMap>,
    ways: Vec<Arc<dyn Way>>,
}

impl Preconnection {
    /// A session of this pattern, with this security.
    pub fn new(pattern: Pattern, security: Security) -> Self {
        let (config, map) = (Config::new(pattern, security), PerformanceMap::shipped());
        Self { config, map, ways: Vec::new() }
    }

    /// What is asked of the transport.
    #[must_use]
    pub fn properties(mut self, properties: TransportProperties) -> Self {
        self.config.properties = properties;
        self
    }

    /// What is to be reached.
    #[must_use]
    pub fn targets(mut self, targets: QosTargets) -> Self {
        self.config.targets = targets;
        self
    }

    /// What the network is thought to be like, before anything is seen of it.
    #[must_use]
    pub fn assume(mut self, conditions: Conditions) -> Self {
        self.config.assumed = conditions;
        self
    }

    /// The group that multicast models use.
    #[must_use]
    pub fn group(mut self, group: SocketAddrV4) -> Self {
        self.config.group = group;
        self
    }

    /// The only models that may be used.
    #[must_use]
    pub fn models(mut self, models: &[ModelId]) -> Self {
        self.config.models = models.to_vec();
        self
    }

    /// Another stack, whose models the session may use as well: at the hub and at members,
    /// which listen at the addresses that the hub knows them by.
    #[must_use]
    pub fn outside(mut self, way: impl Way + 'static) -> Self {
        self.ways.push(Arc::new(way));
        self.config.outside = outside::models(&self.ways);
        self
    }

    /// When a change is worth it.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.config.settings = settings;
        self
    }

    /// How models do, in place of the map that comes along.
    #[must_use]
    pub fn map(mut self, map: PerformanceMap) -> Self {
        self.map = Arc::new(map);
        self
    }

    /// Begins the session, as its hub; within a run-time of tokio's.
    ///
    /// # Errors
    /// When the key is too short, no model suits, or a socket cannot be had.
    pub fn initiate(self, local: SocketAddrV4, members: &[SocketAddrV4]) -> Result<Session, Error> {
        Session::open(self.config, self.map, local, members, &self.ways)
    }

    /// Waits for a session, as a member of it; within a run-time of tokio's. Of what was
    /// said before only the security counts, and other stacks with their group: the hub knows
    /// the rest.
    ///
    /// # Errors
    /// When the key is too short, or a socket cannot be had.
    pub fn listen(self, local: SocketAddrV4, hub: SocketAddrV4) -> Result<Listener, Error> {
        Listener::open(self.config, local, hub, &self.ways)
    }
}
