//! MQTT over the director: a gateway on each device and one at the hub are brokers for the programs
//! on their machines, unmodified MQTT 3.1.1 clients, and exchange messages by a session of the
//! director. `docs/director-gateway.md` describes what is guaranteed.

mod budget;
mod clients;
mod device;
mod driver;
mod gateway;
mod hub;
mod message;
mod packet;
mod server;
mod session;
mod topic;

pub use budget::Room;
pub use clients::{Action, Clients};
pub use device::Device;
pub use driver::{run_device, run_hub};
pub use gateway::{Effect, Ended, LIFETIME, Lane, Side};
pub use hub::Hub;
pub use message::Message;
pub use packet::{Connect, Packet};
pub use session::Origin;
