//! Configuration of a session before it starts, with the terms of RFC 9622, section 6.

use super::outside::{self, StackFactory};
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

/// A session before its start.
#[derive(Debug, Clone)]
pub struct Preconnection {
    config: Config,
    map: Arc<PerformanceMap>,
    factories: Vec<Arc<dyn StackFactory>>,
}

impl Preconnection {
    /// A session of this pattern with this security.
    pub fn new(pattern: Pattern, security: Security) -> Self {
        let (config, map) = (Config::new(pattern, security), PerformanceMap::shipped());
        Self { config, map, factories: Vec::new() }
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
    pub fn group(mut self, group: SocketAddrV4) -> Self {
        self.config.group = group;
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

    /// Starts the session as its hub. Call it within a tokio runtime.
    ///
    /// # Errors
    /// [`Error`] if the key is too short, no model suits, or a socket cannot be opened.
    pub fn initiate(self, local: SocketAddrV4, members: &[SocketAddrV4]) -> Result<Session, Error> {
        Session::open(self.config, self.map, local, members, &self.factories)
    }

    /// Waits for a session as a member. Call it within a tokio runtime. Of the settings only
    /// security and external stacks with the group apply; the hub sets all others.
    ///
    /// # Errors
    /// [`Error`] if the key is too short, or a socket cannot be opened.
    pub fn listen(self, local: SocketAddrV4, hub: SocketAddrV4) -> Result<Listener, Error> {
        Listener::open(self.config, local, hub, &self.factories)
    }
}
