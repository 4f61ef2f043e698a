//! MQTT over the director: a gateway on each device and one at the hub are brokers for the programs
//! on their machines, unmodified clients of MQTT 5 and 3.1.1, and exchange messages by a session of the
//! director. `docs/director-gateway.md` describes what is guaranteed.

mod attendance;
mod budget;
mod clients;
mod decode;
mod device;
mod driver;
mod encode;
mod folder;
mod gateway;
mod hub;
mod keeper;
mod kept;
mod kept_devices;
mod log;
mod message;
mod name;
mod packet;
mod property;
mod reason;
mod records;
mod run;
mod server;
mod session;
mod storage;
mod wire;

pub use budget::Room;
pub use clients::{Action, Clients};
pub use device::Device;
pub use driver::{run_device, run_hub};
pub use folder::Folder;
pub use gateway::{Effect, Ended, LIFETIME, Lane, Side};
pub use hub::Hub;
pub use kept::{Kept, Sessions, Unsaved};
pub use message::{KEEPS, Message, Publisher};
pub use packet::{Ack, Connect, MQTT_5, Options, Packet, Publish};
pub use property::Properties;
pub use run::{Place, Settings, run};
pub use session::Origin;
pub use storage::{Change, Storage, Unwritten};
